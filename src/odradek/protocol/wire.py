"""Functions that generated codecs call: varints, arrays of numbers, tagged fields, errors.

Generated code handles the one-byte case of a varint inline and comes here for the rest.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.types import Buffer

_MAX_VARINT_BITS: Final = 31
_LONGEST_KEPT_ARRAY: Final = 32

MAX_STRING_BYTES: Final = 2**15 - 1


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns the value at `position`, and the position after it."""
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
    if value >> _MAX_VARINT_BITS:
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


class ArrayPackers(dict[int, Callable[..., Any]]):
    """`pack` or `unpack_from` for arrays of one fixed-size kind, by number of elements.

    Those of short arrays, mostly lists of replicas, are kept; those of long arrays are not.
    """

    def __init__(self, code: str, method: str) -> None:
        self._code = code
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(struct.Struct(f">{count}{self._code}"), self._method)
        if count <= _LONGEST_KEPT_ARRAY:
            self[count] = made
        return made


def skip_tagged_fields(buffer: Buffer, position: int, end: int, allowance: int) -> tuple[int, int]:
    """Skips a section of unknown tagged fields; returns the position after it, and how many more
    elements the message may have."""
    count, position = read_unsigned_varint(buffer, position)
    allowance -= count
    if allowance < 0:
        refuse_elements()
    for _ in range(count):
        _tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            refuse_length("tagged field")
    return position, allowance


def refuse_length(name: str) -> NoReturn:
    raise MalformedMessage(f"{name} is longer than it may be or than the bytes that remain")


def refuse_elements() -> NoReturn:
    raise MalformedMessage("its arrays have more elements than are allowed in all")


def check_string_length(length: int) -> None:
    """Refuses a string that is too long: compact lengths allow more, but Kafka does not read it."""
    if length > MAX_STRING_BYTES:
        raise TypeError(f"a string of {length} bytes is too long")


def refuse_null(name: str) -> NoReturn:
    raise MalformedMessage(f"{name} is null or has a negative length")


def refuse_tag(name: str) -> NoReturn:
    raise MalformedMessage(f"tagged field {name} does not fill its declared size")
