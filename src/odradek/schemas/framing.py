"""How a value says which schema it was written with.

In front of the payload: magic byte 0, then the schema id in four bytes, big-endian. Or in a header
of the record, `__key_schema_id` or `__value_schema_id`: magic byte 1, then the schema's GUID in
16 bytes; the payload has no frame then. A header may have magic byte 0 and an id too.

For Protobuf the path to the message follows: the number of indexes, then each index, as zigzag
varints. The first message of a file, by far the most common, is written as a single 0. Confluent's
first serializers wrote plain varints (`use.deprecated.format`).
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.schemas.errors import BadPayload

MAGIC: Final = 0
MAGIC_GUID: Final = 1
GUID_SIZE: Final = 16
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
HEADER_SIZE: Final = 5
FIRST_MESSAGE: Final = (0,)
_HEADER: Final = struct.Struct(">BI")
_MAX_INDEXES: Final = 100


Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None
SchemaId = int | bytes
"""How a record names a schema: by an id, or by a GUID in 16 bytes."""


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
    return Framed(unframe_id(data), data[HEADER_SIZE:])


def unframe_id(data: bytes) -> int:
    if len(data) < HEADER_SIZE or data[0] != MAGIC:
        begin = data[:HEADER_SIZE].hex(" ") or "nothing"
        raise BadPayload(
            f"the value begins with {begin}, not with 00 and a schema's id: it was not framed by a"
            " serializer with a registry"
        )
    schema_id: int = _HEADER.unpack_from(data)[1]
    return schema_id


def frame_message(schema_id: int, indexes: tuple[int, ...], payload: bytes) -> bytes:
    return frame(schema_id, message_path(indexes) + payload)


def unframe_message(data: bytes) -> FramedMessage:
    schema_id, _ = unframe(data)
    indexes, position = read_message_path(data, HEADER_SIZE)
    return FramedMessage(schema_id, indexes, data[position:])


def message_path(indexes: tuple[int, ...], *, zigzag: bool = True) -> bytes:
    if indexes == FIRST_MESSAGE:
        return b"\0"
    return b"".join(_varint(number, zigzag) for number in (len(indexes), *indexes))


def read_message_path(
    data: bytes, position: int, *, zigzag: bool = True
) -> tuple[tuple[int, ...], int]:
    """Returns the indexes and the position after them."""
    count, position = _read_varint(data, position, zigzag)
    if count == 0:
        return FIRST_MESSAGE, position
    if not 0 < count <= _MAX_INDEXES:
        raise BadPayload(f"a path of {count} indexes to a Protobuf message cannot be")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position, zigzag)
        indexes.append(index)
    return tuple(indexes), position


class Identified(NamedTuple):
    """The schema that a value was written with.

    The path to a Protobuf message begins at `path_start` of `path_in`; the payload of the value
    begins at `start`, or after that path if it is in the value itself.
    """

    schema: SchemaId
    start: int
    path_in: bytes
    path_start: int


def identify(data: bytes, headers: Headers, field: str) -> Identified:
    """Reads the frame of a value or the header in its place. Raises `BadPayload`."""
    content = header_content(headers, field)
    if content is not None:
        return identify_header(content, field)
    return Identified(unframe_id(data), HEADER_SIZE, data, HEADER_SIZE)


def header_name(field: str) -> str:
    return KEY_HEADER if field == "key" else VALUE_HEADER


def header_content(headers: Headers, field: str) -> bytes | None:
    """Returns the first header that may name the schema of a key or value; None without one."""
    if not headers:
        return None
    name = header_name(field)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return next(
        (content for found, content in pairs if found == name and content is not None), None
    )


def identify_header(content: bytes, field: str) -> Identified:
    """Reads the header in place of a frame. Raises `BadPayload`."""
    if len(content) >= HEADER_SIZE and content[0] == MAGIC:
        return Identified(_HEADER.unpack_from(content)[1], 0, content, HEADER_SIZE)
    end = 1 + GUID_SIZE
    if len(content) < end or content[0] != MAGIC_GUID:
        begin = content[:end].hex(" ") or "empty"
        raise BadPayload(f"header {header_name(field)} is {begin}: it names no schema")
    return Identified(content[1:end], 0, content, end)


def id_text(schema: SchemaId) -> str:
    """Returns an id as decimal digits, or a GUID as registries write it."""
    return str(UUID(bytes=schema)) if isinstance(schema, bytes) else str(schema)


def guid_header(guid: bytes, path: bytes = b"") -> bytes:
    return bytes((MAGIC_GUID,)) + guid + path


def _varint(number: int, zigzag: bool) -> bytes:
    rest = (number << 1) ^ (number >> 63) if zigzag else number
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_varint(data: bytes, position: int, zigzag: bool) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise BadPayload("the path to a Protobuf message is cut off")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1) if zigzag else number, position
        shift += 7
