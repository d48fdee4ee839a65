"""The few things generated code calls: variable-length integers, tagged fields, refusals.

Generated code handles the one-byte case of a varint inline and comes here for the rest.
"""

from typing import Final, NoReturn

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.types import Buffer

_MOST_VARINT_BITS: Final = 31


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position`, and the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than five bytes")
    if value >> _MOST_VARINT_BITS:
        raise MalformedMessage("a varint is larger than any length can be")
    return value, position


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """The position after a section of tagged fields of which none is known."""
    count, position = read_unsigned_varint(buffer, position)
    for _ in range(count):
        _tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            refuse_length("tagged field")
    return position


def refuse_length(name: str) -> NoReturn:
    raise MalformedMessage(f"{name} is longer than the bytes that remain")


def refuse_null(name: str) -> NoReturn:
    raise MalformedMessage(f"{name} is null or has a negative length")


def refuse_tag(name: str) -> NoReturn:
    raise MalformedMessage(f"tagged field {name} does not fill its declared size")
