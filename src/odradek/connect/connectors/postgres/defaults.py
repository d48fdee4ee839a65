"""Derives the default of a column in a schema from its DEFAULT expression in PostgreSQL's catalog.

A default in a schema is a constant. So a literal, with a cast or without, becomes its value. A
function such as `now()` or `nextval(...)` becomes the zero value of the type, as in Debezium: a
column that is NOT NULL and has a default may be left out by writers, so its schema must have one
too. Other expressions give no default.
"""

import re
from typing import Any, Final

from odradek.connect.connectors.postgres.types import ColumnType, TypeRow

_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'(?:::[^()']+(?:\(\d+(?:,-?\d+)?\))?[\w\s\".]*)?")
_NUMBER: Final = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\)?(?:::[^()]+(?:\([\d,]+\))?)?")

_NUMBERS: Final = {"int2", "int4", "int8", "float4", "float8", "numeric"}
_TIMES: Final = {"date", "time", "timestamp", "timestamptz", "interval"}
_TEXTS: Final = {"text", "varchar", "bpchar"}
_OTHERS: Final = {"bool", "bit", "varbit", "uuid", "json", "jsonb", "xml"}
_WITH_LITERALS: Final = _NUMBERS | _TIMES | _TEXTS | _OTHERS
# The default for a column whose DEFAULT is a function.
_ZERO_VALUES: Final[dict[str, Any]] = {
    "int2": 0,
    "int4": 0,
    "int8": 0,
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def default_of(expression: str | None, row: TypeRow, kind: ColumnType) -> Any:
    """Returns the default for a column's schema, or None. `row` is the type in the catalog."""
    if expression is None or row.kind not in "be" or row.element is not None:
        return None  # Only base types (b) and enums (e) have one; arrays have elements.
    if row.kind == "b" and row.name not in _WITH_LITERALS:
        return None
    if row.name == "numeric" and kind.schema.type == "struct":
        return None
    text = _text_of(expression, row)
    if text is None:
        return None
    try:
        return text if kind.convert is None else kind.convert(text)
    except (ValueError, ArithmeticError):
        return None


def _text_of(expression: str, row: TypeRow) -> str | None:
    """Returns the value of an expression as PostgreSQL would print it; None if it has none."""
    match = _LITERAL.fullmatch(expression)
    if match is not None:
        return match[1].replace("''", "'")
    if expression in ("true", "false"):
        return expression[0]
    match = _NUMBER.fullmatch(expression)
    if match is not None:
        return match[1]
    if expression.startswith("NULL"):
        return None
    return _of_function(expression, row)


def _of_function(expression: str, row: TypeRow) -> str | None:
    if row.name in _TEXTS:
        # Keywords that act as functions, such as CURRENT_USER, are kept as they are written.
        return expression if expression.isupper() and expression.isidentifier() else ""
    if row.name.startswith("int") and not expression.startswith("nextval("):
        return None
    zero = _ZERO_VALUES.get(row.name)
    return None if zero is None else str(zero)
