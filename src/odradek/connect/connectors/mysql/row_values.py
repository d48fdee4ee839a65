"""The values in the rows of a binary log, as plain Python values.

A row is a bitmap of nulls and then the values one after the other, each in the form of its type. A
reader is made for each column: a function that takes the bytes and where the value begins, and
returns it and where it ends. What comes out is the same as for a `SELECT` (`select_values`):

    integers, YEAR                  int
    FLOAT, DOUBLE                   float
    DECIMAL                         Decimal, with all digits of its scale
    BIT                             int
    texts, ENUM, SET, UUID          str
    BINARY, BLOB, geometries        bytes
    DATE                            (year, month, day)
    DATETIME                        (year, month, day, hour, minute, second, microsecond)
    TIMESTAMP                       microseconds since 1970, 0 for the zero date
    TIME                            microseconds, negative before midnight
    JSON of MySQL                   str

Dates stay tuples because the databases allow days that no calendar has, such as 2020-00-00.
"""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from odradek.connect.connectors.mysql.decimals import decimal_reader
from odradek.connect.connectors.mysql.json_values import json_text
from odradek.connect.connectors.mysql.table_maps import ColumnType, StoredColumn
from odradek.connect.errors import DataError

Reader = Callable[[bytes, int], tuple[Any, int]]
Row = list[Any]

BYTES_COLLATION: Final = 63
_SECOND_US: Final = 1_000_000
_WIDTHS: Final = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def rows_reader(
    columns: Sequence[StoredColumn], charsets: Mapping[int, str]
) -> Callable[[bytes, int], tuple[Row, int]]:
    """Returns a function that reads one row."""
    readers = [column_reader(column, charsets) for column in columns]
    null_bytes = (len(readers) + 7) // 8
    numbered = [(1 << index, reader) for index, reader in enumerate(readers)]

    def read(data: bytes, at: int) -> tuple[Row, int]:
        end = at + null_bytes
        nulls = int.from_bytes(data[at:end], "little")
        at = end
        row: Row = []
        add = row.append
        for bit, reader in numbered:
            if nulls & bit:
                add(None)
            else:
                value, at = reader(data, at)
                add(value)
        return row, at

    return read


def column_reader(column: StoredColumn, charsets: Mapping[int, str]) -> Reader:
    kind = column.type
    if kind in _WIDTHS:
        return _integer(_WIDTHS[kind], is_signed=not column.is_unsigned)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _BY_SIZE:
        return _BY_SIZE[kind](column.size)
    if kind is ColumnType.NEWDECIMAL:
        return decimal_reader(column.size, column.scale)
    if kind in {ColumnType.ENUM, ColumnType.SET}:
        make = _enumeration if kind is ColumnType.ENUM else _set
        return make(column.size, column.labels)
    return _text_or_bytes(column, charsets)


def _text_or_bytes(column: StoredColumn, charsets: Mapping[int, str]) -> Reader:
    kind = column.type
    if kind in {ColumnType.BLOB, ColumnType.BLOB_COMPRESSED}:
        width = column.size
    elif kind in {
        ColumnType.VARCHAR,
        ColumnType.VARCHAR_COMPRESSED,
        ColumnType.VAR_STRING,
        ColumnType.STRING,
    }:
        width = 2 if column.size > 255 else 1
    else:
        raise DataError(f"column {column.name} has a type that cannot be read: {kind.name}")
    of_bytes = _bytes(width)
    if kind in {ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED}:
        of_bytes = _inflating(of_bytes)
    if column.collation == BYTES_COLLATION:
        return of_bytes
    codec = charsets.get(column.collation)
    if codec is None:
        raise DataError(
            f"column {column.name} has a character set that Python does not know (collation"
            f" {column.collation}). Convert it to utf8mb4, or leave it out with column.exclude.list"
        )
    if of_bytes.__name__ == "read_short" and codec in {"utf-8", "cp1252", "ascii"}:
        return _short_text(codec)

    def read(data: bytes, at: int) -> tuple[str, int]:
        value, at = of_bytes(data, at)
        return value.decode(codec, "replace"), at

    return read


def _short_text(codec: str) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + 1 + data[at]
        return data[at + 1 : end].decode(codec, "replace"), end

    return read


def _integer(width: int, *, is_signed: bool) -> Reader:
    formats = {
        (1, True): "<b", (1, False): "<B", (2, True): "<h", (2, False): "<H",
        (4, True): "<i", (4, False): "<I", (8, True): "<q", (8, False): "<Q",
    }  # fmt: skip
    if (width, is_signed) in formats:
        unpack = struct.Struct(formats[width, is_signed]).unpack_from

        def read_word(data: bytes, at: int) -> tuple[int, int]:
            return unpack(data, at)[0], at + width

        return read_word

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + width
        return int.from_bytes(data[at:end], "little", signed=is_signed), end

    return read


def _float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _year(data: bytes, at: int) -> tuple[int, int]:
    return (1900 + data[at] if data[at] else 0), at + 1


def _date(data: bytes, at: int) -> tuple[tuple[int, int, int], int]:
    packed = int.from_bytes(data[at : at + 3], "little")
    return (packed >> 9, packed >> 5 & 15, packed & 31), at + 3


def _old_time(data: bytes, at: int) -> tuple[int, int]:
    packed = int.from_bytes(data[at : at + 3], "little", signed=True)
    sign, packed = (-1, -packed) if packed < 0 else (1, packed)
    seconds = packed // 10000 * 3600 + packed // 100 % 100 * 60 + packed % 100
    return sign * seconds * _SECOND_US, at + 3


def _old_datetime(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    packed = int.from_bytes(data[at : at + 8], "little")
    day, clock = divmod(packed, 1_000_000)
    date = day // 10000, day // 100 % 100, day % 100
    return (*date, clock // 10000, clock // 100 % 100, clock % 100, 0), at + 8


def _old_timestamp(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + 4], "little") * _SECOND_US, at + 4


def _timestamp(digits: int) -> Reader:
    size, factor = (digits + 1) // 2, 10 ** (6 - 2 * ((digits + 1) // 2))

    def read(data: bytes, at: int) -> tuple[int, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        end = at + 4 + size
        return seconds * _SECOND_US + int.from_bytes(data[at + 4 : end], "big") * factor, end

    return read


def _datetime(digits: int) -> Reader:
    size, factor = (digits + 1) // 2, 10 ** (6 - 2 * ((digits + 1) // 2))

    def read(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
        packed = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        end = at + 5 + size
        months, day, hour = packed >> 22, packed >> 17 & 31, packed >> 12 & 31
        return (
            months // 13,
            months % 13,
            day,
            hour,
            packed >> 6 & 63,
            packed & 63,
            int.from_bytes(data[at + 5 : end], "big") * factor,
        ), end

    return read


def _time(digits: int) -> Reader:
    """Hours, minutes, seconds and the fraction are one number, of which a negative one is the
    complement, whole."""
    size = (digits + 1) // 2
    factor = 10 ** (6 - 2 * size)
    zero = 1 << (23 + 8 * size)
    shift = 8 * size
    mask = (1 << shift) - 1

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + 3 + size
        packed = int.from_bytes(data[at:end], "big") - zero
        sign, packed = (-1, -packed) if packed < 0 else (1, packed)
        clock = packed >> shift
        seconds = (clock >> 12 & 0x3FF) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
        return sign * (seconds * _SECOND_US + (packed & mask) * factor), end

    return read


def _bits(count: int) -> Reader:
    size = (count + 7) // 8

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + size
        return int.from_bytes(data[at:end], "big"), end

    return read


def _enumeration(size: int, labels: Sequence[str]) -> Reader:
    # 0 is what the server stores for a text that is none of them.
    texts = ("", *labels)

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + size
        return texts[int.from_bytes(data[at:end], "little")], end

    return read


def _set(size: int, labels: Sequence[str]) -> Reader:
    numbered = [(1 << index, label) for index, label in enumerate(labels)]

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + size
        members = int.from_bytes(data[at:end], "little")
        return ",".join(label for bit, label in numbered if members & bit), end

    return read


def _bytes(width: int) -> Reader:
    if width == 1:

        def read_short(data: bytes, at: int) -> tuple[bytes, int]:
            end = at + 1 + data[at]
            return data[at + 1 : end], end

        return read_short

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return data[start:end], end

    return read


def _inflating(of_bytes: Reader) -> Reader:
    """Columns of MariaDB that are `COMPRESSED`: a byte that says how, the length, and the data."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        value, at = of_bytes(data, at)
        if not value:
            return value, at
        method = value[0] >> 4
        if method == 0:
            return value[1:], at
        return zlib.decompress(value[1 + (value[0] & 7) :], wbits=-15), at

    return read


def _json(width: int) -> Reader:
    of_bytes = _bytes(width)

    def read(data: bytes, at: int) -> tuple[str, int]:
        value, at = of_bytes(data, at)
        return json_text(value), at

    return read


_SIMPLE: Final[Mapping[ColumnType, Reader]] = {
    ColumnType.FLOAT: _float,
    ColumnType.DOUBLE: _double,
    ColumnType.YEAR: _year,
    ColumnType.DATE: _date,
    ColumnType.NEWDATE: _date,
    ColumnType.TIME: _old_time,
    ColumnType.DATETIME: _old_datetime,
    ColumnType.TIMESTAMP: _old_timestamp,
}
_BY_SIZE: Final[Mapping[ColumnType, Callable[[int], Reader]]] = {
    ColumnType.BIT: _bits,
    ColumnType.TIMESTAMP2: _timestamp,
    ColumnType.DATETIME2: _datetime,
    ColumnType.TIME2: _time,
    ColumnType.JSON: _json,
    ColumnType.GEOMETRY: _bytes,
    ColumnType.VECTOR: _bytes,
}
