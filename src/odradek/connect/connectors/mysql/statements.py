"""Recognizes statements in the binary log: changes of tables, and statements of XA transactions.

Statements are not parsed completely. Only the kind of a statement and the names of its tables
matter; the connector asks the server for the new definition of the tables.
"""

import re
from dataclasses import dataclass
from typing import Final

_COMMENT: Final = re.compile(r"/\*(?!M?!).*?\*/|(--[ \t]|#)[^\n]*", re.DOTALL)
# Comments with ! are executed: /*!40000 ... */
_CONDITIONAL: Final = re.compile(r"/\*M?!\d*|\*/")
_NAME: Final = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$]+)"
_FULL_NAME: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_EXISTS: Final = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_TABLE_STATEMENT: Final = re.compile(
    r"(?P<verb>CREATE|ALTER|DROP|RENAME|TRUNCATE)\s+"
    r"(?:OR\s+REPLACE\s+|ONLINE\s+|OFFLINE\s+|IGNORE\s+)*(?P<temporary>TEMPORARY\s+)?"
    rf"TABLES?\s+{_EXISTS}(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_TRUNCATE: Final = re.compile(rf"TRUNCATE\s+(?P<rest>{_FULL_NAME})\s*;?\s*", re.IGNORECASE)
_INDEX_STATEMENT: Final = re.compile(
    rf"(?:CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX\s+{_EXISTS}"
    rf"{_NAME}\s+.*?\bON\s+(?P<table>{_FULL_NAME})",
    re.IGNORECASE | re.DOTALL,
)
_DATABASE_STATEMENT: Final = re.compile(
    rf"(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:DATABASE|SCHEMA)\s+{_EXISTS}(?P<name>{_NAME})",
    re.IGNORECASE,
)
_RENAMES: Final = re.compile(rf"({_FULL_NAME})\s+TO\s+({_FULL_NAME})", re.IGNORECASE)
_ALTER_RENAME: Final = re.compile(
    rf"\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b)(?:TO\s+|AS\s+|=\s*)?(?P<name>{_FULL_NAME})",
    re.IGNORECASE,
)
_LIST: Final = re.compile(rf"\s*({_FULL_NAME})\s*(,?)")
_CHANGES_ROWS: Final = re.compile(r"(INSERT|UPDATE|DELETE|REPLACE|LOAD)\b", re.IGNORECASE)
_XA: Final = re.compile(r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.*)", re.I | re.DOTALL)

CREATE: Final = "CREATE"
ALTER: Final = "ALTER"
DROP: Final = "DROP"
TRUNCATE: Final = "TRUNCATE"


@dataclass(frozen=True, slots=True)
class TableName:
    database: str
    table: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that changes the definition of tables or of a database. `kind` has Debezium's
    name for it, such as CREATE."""

    kind: str
    tables: tuple[TableName, ...] = ()
    database: str | None = None


def plain(sql: str) -> str:
    """Returns a statement without comments."""
    return _CONDITIONAL.sub(" ", _COMMENT.sub(" ", sql)).strip()


def changes_rows(statement: str) -> bool:
    """Returns whether a statement changes rows. The log has such a statement only if binlog_format
    is not ROW; then its rows are not in the log."""
    return _CHANGES_ROWS.match(statement) is not None


def xa_statement(statement: str) -> tuple[str, str] | None:
    """Returns the verb and the identifier (xid) of a statement of an XA transaction, such as XA
    COMMIT; None for other statements."""
    found = _XA.match(statement)
    if found is None:
        return None
    xid = re.sub(r"\s+(ONE\s+PHASE|JOIN|RESUME|SUSPEND.*)\s*$", "", found[2].strip(), flags=re.I)
    return found[1].upper(), re.sub(r"\s+", "", xid)


def definition_of(statement: str, database: str) -> Definition | None:
    """Returns what a statement changes; None if it does not change definitions. `database` is the
    one for names without a database."""
    found = _TABLE_STATEMENT.match(statement)
    if found is None:
        found = _TRUNCATE.fullmatch(statement)
        if found is not None:
            return Definition(TRUNCATE, (_name(found["rest"], database),))
        return _other(statement, database)
    if found["temporary"]:
        return None
    verb, rest = found["verb"].upper(), found["rest"]
    if verb == "RENAME":
        return Definition(ALTER, tuple(_name(new, database) for _, new in _RENAMES.findall(rest)))
    if verb == "DROP":
        return Definition(DROP, tuple(_names(rest, database)))
    names = _names(rest, database)[:1]
    if verb == "ALTER" and (renamed := _ALTER_RENAME.search(rest)):
        names = [_name(renamed["name"], database)]
    return Definition(verb, tuple(names)) if names else None


def _other(statement: str, database: str) -> Definition | None:
    if found := _INDEX_STATEMENT.match(statement):
        return Definition(ALTER, (_name(found["table"], database),))
    if found := _DATABASE_STATEMENT.match(statement):
        return Definition(statement.split(None, 1)[0].upper(), (), _unquoted(found["name"]))
    return None


def _names(text: str, database: str) -> list[TableName]:
    found, at = [], 0
    while match := _LIST.match(text, at):
        found.append(_name(match[1], database))
        at = match.end()
        if match[2] != ",":
            break
    return found


def _name(text: str, database: str) -> TableName:
    parts = [_unquoted(part) for part in re.findall(_NAME, text)]
    return TableName(parts[0], parts[1]) if len(parts) > 1 else TableName(database, parts[0])


def _unquoted(name: str) -> str:
    if name[:1] in {"`", '"'}:
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
