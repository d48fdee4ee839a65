"""Parses TABLE_MAP events of the binary log: the columns of a table, for the row events after it.

With `binlog_row_metadata=FULL` the event has the columns' names and character sets, the texts of
enumerations, the primary key, and which numbers are unsigned. So a row is decoded with the
definition that its table had when the row was written, even if the table was altered since.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from odradek.connect.connectors.mysql.events import length_encoded
from odradek.connect.errors import DataError


class ColumnType(IntEnum):
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_NUMERIC_TYPES: Final = frozenset(
    {
        ColumnType.TINY,
        ColumnType.SHORT,
        ColumnType.INT24,
        ColumnType.LONG,
        ColumnType.LONGLONG,
        ColumnType.NEWDECIMAL,
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
        ColumnType.YEAR,
    }
)
_CHARACTER_TYPES: Final = frozenset(
    {
        ColumnType.STRING,
        ColumnType.VAR_STRING,
        ColumnType.VARCHAR,
        ColumnType.VARCHAR_COMPRESSED,
        ColumnType.BLOB,
        ColumnType.BLOB_COMPRESSED,
    }
)
# How many bytes of metadata a type has: the lengths, digits or bits of a column.
_TWO_BYTES_OF_METADATA: Final = frozenset(
    {
        ColumnType.VARCHAR,
        ColumnType.VARCHAR_COMPRESSED,
        ColumnType.VAR_STRING,
        ColumnType.BIT,
        ColumnType.NEWDECIMAL,
        ColumnType.STRING,
        ColumnType.ENUM,
        ColumnType.SET,
    }
)
_ONE_BYTE_OF_METADATA: Final = frozenset(
    {
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
        ColumnType.BLOB,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.JSON,
        ColumnType.GEOMETRY,
        ColumnType.VECTOR,
        ColumnType.TIMESTAMP2,
        ColumnType.DATETIME2,
        ColumnType.TIME2,
    }
)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the binary log describes it.

    What `size` means depends on the type: the length in bytes, the digits of a fraction of a
    second, the number of bits, or the precision of a decimal, whose scale is `scale`. `collation`
    is the number of the collation; 63 is `binary`. `labels` are the texts of an ENUM or a SET.
    """

    name: str
    type: ColumnType
    is_nullable: bool
    size: int = 0
    scale: int = 0
    is_unsigned: bool = False
    collation: int = 0
    labels: tuple[str, ...] = ()
    geometry: int = 0


@dataclass(frozen=True, slots=True)
class TableMap:
    database: str
    table: str
    columns: tuple[StoredColumn, ...]
    primary_key: tuple[int, ...] = ()


@dataclass
class _Metadata:
    """The optional metadata of all columns. A list has an entry for each column of the types that
    it is about: `unsigned` for numeric types, `collations` for character types."""

    unsigned: list[bool] = field(default_factory=list)
    collations: list[int] = field(default_factory=list)
    label_collations: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    labels: dict[ColumnType, list[list[bytes]]] = field(default_factory=dict)
    geometries: list[int] = field(default_factory=list)
    primary_key: tuple[int, ...] = ()


def table_id(body: bytes) -> int:
    return int.from_bytes(body[:6], "little")


def table_names(body: bytes) -> tuple[str, str, int]:
    """Returns the database, the table, and the position in `body` at which the columns begin."""
    end = 9 + body[8]
    database = body[9:end].decode()
    start = end + 2
    length = body[end + 1]
    return database, body[start : start + length].decode(), start + length + 1


def parse_table_map(body: bytes, charsets: Mapping[int, str]) -> TableMap:
    """Returns the columns of a table. `charsets` maps the number of a collation to Python's codec.
    Raises `DataError` if the event has no column names."""
    database, table, at = table_names(body)
    count, at = length_encoded(body, at)
    types = body[at : at + count]
    size, at = length_encoded(body, at + count)
    storage = _storage(types, body[at : at + size])
    at += size
    nullable = _bits(body[at : at + (count + 7) // 8], count, lowest_first=True)
    metadata = _metadata(body, at + (count + 7) // 8, storage)
    if len(metadata.names) != count:
        raise DataError(
            f"the binary log does not have the names of the columns of {database}.{table}. Run SET"
            " GLOBAL binlog_row_metadata=FULL, and set it in the server's configuration file;"
            " then begin with a new snapshot, because older rows cannot be read"
        )
    columns = _columns(storage, nullable, metadata, charsets)
    return TableMap(database, table, columns, metadata.primary_key)


def _storage(types: bytes, data: bytes) -> list[tuple[ColumnType, int, int]]:
    """Returns the type, the size and the scale of each column."""
    found: list[tuple[ColumnType, int, int]] = []
    at = 0
    for code in types:
        try:
            kind = ColumnType(code)
        except ValueError:
            raise DataError(f"the binary log has a column of the unknown type {code}") from None
        size, scale = 0, 0
        if kind is ColumnType.STRING:
            first, second = data[at], data[at + 1]
            at += 2
            # The length has ten bits. Its two highest are bits 4 and 5 of the type, inverted.
            if first & 0x30 != 0x30:
                size = second | ((first & 0x30) ^ 0x30) << 4
                kind = ColumnType(first | 0x30)
            else:
                size, kind = second, ColumnType(first)
        elif kind is ColumnType.NEWDECIMAL:
            size, scale = data[at], data[at + 1]
            at += 2
        elif kind is ColumnType.BIT:
            size = data[at] + data[at + 1] * 8
            at += 2
        elif kind in _TWO_BYTES_OF_METADATA:
            size = data[at] | data[at + 1] << 8
            at += 2
        elif kind in _ONE_BYTE_OF_METADATA:
            size = data[at]
            at += 1
        found.append((kind, size, scale))
    return found


def _metadata(body: bytes, at: int, storage: list[tuple[ColumnType, int, int]]) -> _Metadata:
    found = _Metadata()
    kinds = [kind for kind, _, _ in storage]
    numbers = sum(kind in _NUMERIC_TYPES for kind in kinds)
    characters = sum(kind in _CHARACTER_TYPES for kind in kinds)
    enumerations = sum(kind in {ColumnType.ENUM, ColumnType.SET} for kind in kinds)
    while at < len(body):
        code = body[at]
        size, at = length_encoded(body, at + 1)
        part = body[at : at + size]
        at += size
        # The numbers are those of `Optional_metadata_field_type` in MySQL's rows_event.h.
        match code:
            case 1:
                found.unsigned = _bits(part, numbers, lowest_first=False)
            case 2 | 3:
                found.collations = _collations(part, characters, has_default=code == 2)
            case 4:
                found.names = [name.decode() for name in _texts(part)]
            case 5 | 6:
                kind = ColumnType.SET if code == 5 else ColumnType.ENUM
                found.labels[kind] = _lists(part)
            case 7:
                found.geometries = _numbers(part)
            case 8 | 9:
                # In 9, each column is followed by the length of its prefix in the key.
                found.primary_key = tuple(_numbers(part)[:: code - 7])
            case 10 | 11:
                found.label_collations = _collations(part, enumerations, has_default=code == 10)
    return found


def _columns(
    storage: list[tuple[ColumnType, int, int]],
    nullable: list[bool],
    metadata: _Metadata,
    charsets: Mapping[int, str],
) -> tuple[StoredColumn, ...]:
    unsigned = iter(metadata.unsigned)
    collations = iter(metadata.collations)
    label_collations = iter(metadata.label_collations)
    labels = {kind: iter(found) for kind, found in metadata.labels.items()}
    geometries = iter(metadata.geometries)
    columns = []
    for (kind, size, scale), is_nullable, name in zip(
        storage, nullable, metadata.names, strict=True
    ):
        collation = 0
        texts: tuple[str, ...] = ()
        if kind in _CHARACTER_TYPES:
            collation = next(collations, 0)
        elif kind in labels:
            collation = next(label_collations, 0)
            codec = charsets.get(collation, "utf-8")
            texts = tuple(text.decode(codec, "replace") for text in next(labels[kind], []))
        columns.append(
            StoredColumn(
                name,
                kind,
                is_nullable,
                size,
                scale,
                is_unsigned=kind in _NUMERIC_TYPES and next(unsigned, False),
                collation=collation,
                labels=texts,
                geometry=next(geometries, 0) if kind is ColumnType.GEOMETRY else 0,
            )
        )
    return tuple(columns)


def _bits(data: bytes, count: int, *, lowest_first: bool) -> list[bool]:
    return [
        bool(data[index >> 3] & (1 << (index & 7) if lowest_first else 0x80 >> (index & 7)))
        for index in range(count)
    ]


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = length_encoded(data, at)
        found.append(number)
    return found


def _collations(data: bytes, count: int, *, has_default: bool) -> list[int]:
    """Returns a collation for each column. With a default, `data` has the default, and then pairs
    for the other columns: the index of the column, and its collation."""
    if not has_default:
        return _numbers(data)
    first, *pairs = _numbers(data)
    found = [first] * count
    for index, number in zip(pairs[::2], pairs[1::2], strict=True):
        found[index] = number
    return found


def _texts(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = length_encoded(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _lists(data: bytes) -> list[list[bytes]]:
    found, at = [], 0
    while at < len(data):
        count, at = length_encoded(data, at)
        texts = []
        for _ in range(count):
            size, at = length_encoded(data, at)
            texts.append(data[at : at + size])
            at += size
        found.append(texts)
    return found
