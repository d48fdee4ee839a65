"""The wire format of Protocol Buffers: a message is a sequence of fields, each a number, a type and
a value.

Reading trusts nothing: a length beyond the end of the message raises `MalformedTelemetry`.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

_FIXED64: Final = struct.Struct("<Q")
_FIXED32: Final = struct.Struct("<I")
_DOUBLE: Final = struct.Struct("<d")
_SIGNED64: Final = struct.Struct("<q")
_MAX_VARINT_BYTES: Final = 10


class MalformedTelemetry(ValueError):
    """The bytes are not the message that they should be."""


class WireType(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


Value = int | memoryview


def fields(message: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Yields the number, the wire type and the value of each field: a number for numeric types,
    unsigned as it stands there, and the bytes of a text or of a message."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position, end)
        number, wire_type = tag >> 3, tag & 7
        value: Value
        if wire_type == WireType.BYTES:
            length, position = _varint(message, position, end)
            if length > end - position:
                raise MalformedTelemetry("a field goes beyond the end of its message")
            value = message[position : position + length]
            position += length
        elif wire_type == WireType.VARINT:
            value, position = _varint(message, position, end)
        elif wire_type in (WireType.FIXED64, WireType.FIXED32):
            layout = _FIXED64 if wire_type == WireType.FIXED64 else _FIXED32
            if layout.size > end - position:
                raise MalformedTelemetry("a field goes beyond the end of its message")
            (value,) = layout.unpack_from(message, position)
            position += layout.size
        else:
            raise MalformedTelemetry(f"there is no wire type {wire_type}")
        yield number, wire_type, value


def _varint(message: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        if position >= end:
            raise MalformedTelemetry("the message ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedTelemetry("a number is longer than ten bytes")


def as_bytes(value: Value) -> memoryview:
    """Returns the value of a field that is a text or a message."""
    if isinstance(value, int):
        raise MalformedTelemetry("a field is a number and should be a message")
    return value


def as_number(value: Value) -> int:
    """Returns the value of a field that is a number."""
    if not isinstance(value, int):
        raise MalformedTelemetry("a field is a message and should be a number")
    return value


def as_text(value: Value) -> str:
    return bytes(as_bytes(value)).decode(errors="replace")


def as_double(value: Value) -> float:
    """Returns the number whose eight bytes were read as `FIXED64`."""
    number: float = _DOUBLE.unpack(_FIXED64.pack(as_number(value)))[0]
    return number


def as_signed(value: Value) -> int:
    """Returns a signed number of `FIXED64`."""
    number: int = _SIGNED64.unpack(_FIXED64.pack(as_number(value)))[0]
    return number


def write_varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def write_bytes(number: int, content: bytes) -> bytes:
    """Returns a field that is a text or a message."""
    return write_varint(number << 3 | WireType.BYTES) + write_varint(len(content)) + content


def write_text(number: int, text: str) -> bytes:
    return write_bytes(number, text.encode())


def write_number(number: int, value: int) -> bytes:
    """Returns a field that is a varint: an enumeration or a boolean."""
    return write_varint(number << 3 | WireType.VARINT) + write_varint(value)


def write_fixed64(number: int, value: int) -> bytes:
    return write_varint(number << 3 | WireType.FIXED64) + _FIXED64.pack(value)


def write_double(number: int, value: float) -> bytes:
    return write_varint(number << 3 | WireType.FIXED64) + _DOUBLE.pack(value)
