"""A definition as the text of a statement, for the command topic: columns that were found
elsewhere are written down in it."""

from typing import Any

from odradek.sql.language.statements import ColumnDefinition, CreateSource
from odradek.streams.plan.types import quoted


def create_text(statement: CreateSource) -> str:
    """Returns the text of CREATE STREAM or TABLE, which is parsed to the same statement."""
    words = ["CREATE"]
    words += ["OR REPLACE"] if statement.or_replace else []
    words += ["SOURCE"] if statement.is_read_only else []
    words.append("TABLE" if statement.is_table else "STREAM")
    words += ["IF NOT EXISTS"] if statement.if_not_exists else []
    words.append(quoted(statement.name))
    if statement.columns:
        words.append(f"({', '.join(map(_column, statement.columns))})")
    if statement.properties:
        pairs = (f"{name}={_value(value)}" for name, value in statement.properties.items())
        words.append(f"WITH ({', '.join(pairs)})")
    return " ".join(words)


def _column(column: ColumnDefinition) -> str:
    words = f"{quoted(column.name)} {column.kind}"
    if column.is_key:
        return f"{words} {'PRIMARY KEY' if column.is_primary else 'KEY'}"
    if column.header is None:
        return words
    return f"{words} HEADER({_value(column.header)})" if column.header else f"{words} HEADERS"


def _value(value: Any) -> str:
    if isinstance(value, str):
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return str(value).upper() if isinstance(value, bool) or value is None else str(value)
