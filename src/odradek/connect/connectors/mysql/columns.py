"""What a column is: by the binary log, and by the server's own description.

The log describes the columns that a row had when it was written. It leaves out what is not needed
to read them: defaults, comments, and types that MariaDB stores as others, such as UUID. That is
taken from `information_schema`, which describes the table as it is now, if the column there still
has the same name and the same storage. See docs/decisions/0086-binary-logs.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.connect.connectors.mysql.row_values import BYTES_COLLATION
from odradek.connect.connectors.mysql.table_maps import ColumnType, StoredColumn, TableMap


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is the name of the type in SQL. `length` is what stands in parentheses after it: the
    characters of a text, the bits of a BIT, the digits of a decimal or of a fraction of a second.
    `default` is text as in SQL without its quotes, None if there is none that is constant."""

    name: str
    type: str
    is_nullable: bool
    is_unsigned: bool = False
    length: int = 0
    scale: int | None = None
    labels: tuple[str, ...] = ()
    default: str | None = None
    charset: str | None = None
    comment: str | None = None
    is_generated: bool = False
    is_auto_increment: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def column(self, name: str) -> Column | None:
        for column in self.columns:
            if column.name == name:
                return column
        return None


# By the log

_TYPES: Final = {
    ColumnType.TINY: "tinyint", ColumnType.SHORT: "smallint", ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int", ColumnType.LONGLONG: "bigint", ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double", ColumnType.NEWDECIMAL: "decimal", ColumnType.BIT: "bit",
    ColumnType.YEAR: "year", ColumnType.DATE: "date", ColumnType.NEWDATE: "date",
    ColumnType.TIME: "time", ColumnType.TIME2: "time", ColumnType.DATETIME: "datetime",
    ColumnType.DATETIME2: "datetime", ColumnType.TIMESTAMP: "timestamp",
    ColumnType.TIMESTAMP2: "timestamp", ColumnType.ENUM: "enum", ColumnType.SET: "set",
    ColumnType.JSON: "json", ColumnType.VECTOR: "vector",
}  # fmt: skip
_WITHOUT_LENGTH: Final = frozenset({"float", "double", "enum", "set", "json", "vector", "year"})
_GEOMETRIES: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection",
)  # fmt: skip
_BLOBS: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def logged_table(table: TableMap) -> Table:
    """Returns a table as the log describes it."""
    columns = tuple(_logged(column) for column in table.columns)
    key = tuple(columns[index].name for index in table.primary_key)
    return Table(table.database, table.table, columns, key)


def _logged(stored: StoredColumn) -> Column:
    name = _logged_type(stored)
    return Column(
        stored.name,
        name,
        stored.is_nullable,
        stored.is_unsigned and name != "year",
        0 if name in _WITHOUT_LENGTH else stored.size,
        stored.scale if name == "decimal" else None,
        stored.labels,
    )


def _logged_type(stored: StoredColumn) -> str:
    kind = stored.type
    if kind in _TYPES:
        return _TYPES[kind]
    is_bytes = stored.collation == BYTES_COLLATION
    if kind in {ColumnType.BLOB, ColumnType.BLOB_COMPRESSED}:
        return f"{_BLOBS[stored.size]}{'blob' if is_bytes else 'text'}"
    if kind is ColumnType.GEOMETRY:
        return _GEOMETRIES[stored.geometry] if stored.geometry < len(_GEOMETRIES) else "geometry"
    if kind is ColumnType.STRING:
        return "binary" if is_bytes else "char"
    return "varbinary" if is_bytes else "varchar"


# Types that are stored as another one, which is all that the log says.
_STORED_AS: Final = {
    "uuid": "binary",
    "inet6": "binary",
    "inet4": "binary",
    "geometry": "point",
    "geomcollection": "geometrycollection",
}
_WITH_DIGITS: Final = frozenset({"decimal", "time", "datetime", "timestamp", "bit"})


def refined_table(logged: Table, known: Table | None) -> Table:
    """Returns a table of the log with what the server says of its columns today."""
    if known is None:
        return logged
    columns = tuple(_refined(column, known.column(column.name)) for column in logged.columns)
    # The log says the primary key only; a table without one may have a unique index.
    has_columns = all(logged.column(name) is not None for name in known.key)
    key = logged.key or (known.key if has_columns else ())
    return replace(logged, columns=columns, key=key)


def _refined(logged: Column, known: Column | None) -> Column:
    if known is None or not _is_same(logged, known):
        return logged
    default = known.default
    if known.type in {"enum", "set"} and default not in {None, "", *logged.labels}:
        default = known.default if known.type == "set" else None
    return replace(
        logged,
        type=known.type,
        length=known.length,
        scale=known.scale,
        default=default,
        charset=known.charset,
        comment=known.comment,
        is_generated=known.is_generated,
        is_auto_increment=known.is_auto_increment,
    )


def _is_same(logged: Column, known: Column) -> bool:
    if logged.type != known.type and _STORED_AS.get(known.type) != logged.type:
        return False
    if logged.type in _WITH_DIGITS and logged.length != known.length:
        return False
    if logged.type == "decimal" and logged.scale != known.scale:
        return False
    return logged.is_unsigned == known.is_unsigned


# By the server

COLUMNS_QUERY: Final = (
    "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA,"
    " CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION,"
    " CHARACTER_SET_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
)
# Of several unique indexes the one of the fewest columns is the key.
KEY_QUERY: Final = (
    "SELECT INDEX_NAME, COLUMN_NAME, NULLABLE FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0"
    " ORDER BY INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX"
)
_LABEL: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_BITS: Final = re.compile(r"b'([01]*)'")
_ESCAPE: Final = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}
_LITERAL: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")
_NOW: Final = re.compile(r"(current_timestamp|now|localtime|localtimestamp)(\(\d*\))?", re.I)
NOW: Final = "CURRENT_TIMESTAMP"


def described_column(row: Sequence[Any], *, is_mariadb: bool) -> Column:
    """Returns a column as a row of `COLUMNS_QUERY` describes it."""
    (name, kind, full, nullable, default, extra, characters, precision, scale, fraction, charset,
     comment) = row  # fmt: skip
    kind, full, extra = str(kind).lower(), str(full), str(extra or "").upper()
    length = int(characters or fraction or 0)
    if kind in {"decimal", "bit"}:
        length = int(precision or 0)
    has_scale = kind == "decimal" or (kind in {"float", "double"} and "," in full)
    is_constant = "DEFAULT_GENERATED" not in extra or _NOW.fullmatch(str(default))
    return Column(
        str(name),
        kind,
        nullable == "YES",
        "unsigned" in full.lower(),
        length,
        int(scale or 0) if has_scale else None,
        tuple(map(_unescaped, _LABEL.findall(full))) if kind in {"enum", "set"} else (),
        _default(default, is_quoted=is_mariadb) if is_constant else None,
        None if charset is None else str(charset),
        str(comment or "") or None,
        "GENERATED" in extra.replace("DEFAULT_GENERATED", ""),
        "AUTO_INCREMENT" in extra,
    )


def _default(given: Any, *, is_quoted: bool) -> str | None:
    """Returns a default that is constant. MariaDB writes it as in SQL, and MySQL without quotes."""
    if given is None:
        return None
    text = str(given)
    if _NOW.fullmatch(text):
        return NOW
    bits = _BITS.fullmatch(text)
    if bits is not None:
        return str(bits[1])
    if not is_quoted:
        return text
    if quoted := _LABEL.fullmatch(text):
        return _unescaped(quoted.group(1))
    return text if _LITERAL.fullmatch(text) else None


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: "'" if found.group(1) is None else _ESCAPED.get(found[1], found[1]), text
    )


def key_of(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Returns the columns of the primary key, or of a unique index without nulls."""
    indexes: dict[str, list[tuple[str, bool]]] = {}
    for index, column, nullable in rows:
        indexes.setdefault(str(index), []).append((str(column), nullable == "YES"))
    for columns in indexes.values():
        if not any(is_nullable for _, is_nullable in columns):
            return tuple(name for name, _ in columns)
    return ()
