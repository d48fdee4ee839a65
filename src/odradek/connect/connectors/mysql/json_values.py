"""The binary form in which MySQL stores JSON, as text. (MariaDB stores JSON as text.)

A value is one byte for its type and then its data. An object or an array begins with the number of
its elements and its size; then come where the keys are, then the values or where they are, all in
two bytes each, or in four if it is large.
"""

import base64
import json
import struct
from typing import Final

from odradek.connect.connectors.mysql.decimals import decimal_reader
from odradek.connect.errors import DataError
from odradek.javatext.numbers import double_text

_DEEPEST: Final = 100  # It is what MySQL allows.
_LITERALS: Final = ("null", "true", "false")
# Types whose values stand in place of an offset: in small values, and besides those in large ones.
_INLINE: Final = frozenset({4, 5, 6})
_INLINE_LARGE: Final = frozenset({4, 5, 6, 7, 8})
_INTEGERS: Final = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DECIMAL, _DATE, _TIME, _TIMESTAMP, _DATETIME = 246, 10, 11, 7, 12


def json_text(data: bytes) -> str:
    """Returns the value as JSON. Raises `DataError` if it is damaged."""
    if not data:
        return "null"  # What a server stores that was told to ignore errors.
    try:
        return _value(data[0], data, 1)
    except (IndexError, struct.error, ValueError) as error:
        raise DataError(f"the binary log has damaged JSON: {error}") from error


def _value(kind: int, data: bytes, at: int, depth: int = 0) -> str:
    if kind < 4:
        if depth > _DEEPEST:
            raise ValueError("it is too deep")
        return _container(data, at, depth, is_object=kind < 2, is_large=bool(kind & 1))
    if kind == 4:
        return _LITERALS[data[at]]
    if kind in _INTEGERS:
        return str(struct.unpack_from(_INTEGERS[kind], data, at)[0])
    if kind == 11:
        return double_text(struct.unpack_from("<d", data, at)[0])
    if kind == 12:
        size, at = _length(data, at)
        return _text(data[at : at + size].decode("utf-8", "replace"))
    if kind != 15:
        raise DataError(f"the binary log has JSON with a type that is not known: {kind}")
    # The type of the column that the value was made from, and the value in that type.
    of_column = data[at]
    size, at = _length(data, at + 1)
    return _opaque(of_column, data[at : at + size])


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits of each byte, the lowest first; the highest bit says that more follow."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return size, at
        shift += 7


def _container(data: bytes, start: int, depth: int, *, is_object: bool, is_large: bool) -> str:
    width = 4 if is_large else 2
    inline = _INLINE_LARGE if is_large else _INLINE

    def number(at: int) -> int:
        return int.from_bytes(data[at : at + width], "little")

    count = number(start)
    at = start + 2 * width
    keys = []
    if is_object:
        for _ in range(count):
            key = start + number(at)
            size = int.from_bytes(data[at + width : at + width + 2], "little")
            keys.append(_text(data[key : key + size].decode("utf-8", "replace")))
            at += width + 2
    values = []
    for _ in range(count):
        kind = data[at]
        place = at + 1 if kind in inline else start + number(at + 1)
        values.append(_value(kind, data, place, depth + 1))
        at += 1 + width
    if is_object:
        pairs = (f"{key}:{value}" for key, value in zip(keys, values, strict=True))
        return f"{{{','.join(pairs)}}}"
    return f"[{','.join(values)}]"


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return _decimal(data)
    if kind in {_DATE, _TIMESTAMP, _DATETIME}:
        packed = int.from_bytes(data, "little")
        microsecond, clock = packed & 0xFFFFFF, packed >> 24
        months, day = clock >> 22, clock >> 17 & 31
        text = f"{months // 13:04}-{months % 13:02}-{day:02}"
        if kind != _DATE:
            text += f" {clock >> 12 & 31:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{microsecond:06}"
        return _text(text)
    if kind == _TIME:
        packed = int.from_bytes(data, "little", signed=True)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        clock = packed >> 24
        hours, minutes, seconds = clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63
        return _text(f"{sign}{hours:02}:{minutes:02}:{seconds:02}.{packed & 0xFFFFFF:06}")
    return _text(base64.b64encode(data).decode())


def _decimal(data: bytes) -> str:
    value, _ = decimal_reader(data[0], data[1])(data, 2)
    return f"{value:f}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
