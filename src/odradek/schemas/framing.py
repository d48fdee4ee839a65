"""The frame before a payload: magic byte 0, then the schema id in four bytes, big-endian.

For Protobuf the path to the message follows: the number of indexes, then each index, as zigzag
varints. The first message of a file, by far the most common, is written as a single 0.
"""

import struct
from typing import Final, NamedTuple

from odradek.schemas.errors import BadPayload

MAGIC: Final = 0
HEADER_SIZE: Final = 5
FIRST_MESSAGE: Final = (0,)
_HEADER: Final = struct.Struct(">BI")
_MAX_INDEXES: Final = 100


class Framed(NamedTuple):
    schema_id: int
    payload: bytes


class FramedMessage(NamedTuple):
    schema_id: int
    indexes: tuple[int, ...]
    payload: bytes


def frame(schema_id: int, payload: bytes) -> bytes:
    return _HEADER.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> Framed:
    if len(data) < HEADER_SIZE or data[0] != MAGIC:
        begin = data[:HEADER_SIZE].hex(" ") or "nothing"
        raise BadPayload(
            f"the value begins with {begin}, not with 00 and a schema's id: it was not framed by a"
            " serialiser with a registry"
        )
    return Framed(_HEADER.unpack_from(data)[1], data[HEADER_SIZE:])


def frame_message(schema_id: int, indexes: tuple[int, ...], payload: bytes) -> bytes:
    path = (0,) if indexes == FIRST_MESSAGE else (len(indexes), *indexes)
    return frame(schema_id, b"".join(map(_varint, path)) + payload)


def unframe_message(data: bytes) -> FramedMessage:
    schema_id, rest = unframe(data)
    count, position = _read_varint(rest, 0)
    if count == 0:
        return FramedMessage(schema_id, FIRST_MESSAGE, rest[position:])
    if not 0 < count <= _MAX_INDEXES:
        raise BadPayload(f"a path of {count} indexes to a Protobuf message cannot be")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(rest, position)
        indexes.append(index)
    return FramedMessage(schema_id, tuple(indexes), rest[position:])


def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise BadPayload("the path to a Protobuf message is cut off")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
