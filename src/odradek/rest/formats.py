"""Keys and values in JSON: how requests write them, and how answers show them.

    BINARY                       base64
    STRING                       text
    JSON                         any JSON, kept as it was written but for spaces
    AVRO, JSONSCHEMA, PROTOBUF   by a schema of the registry (`schema_formats`)

JSON is checked and copied, and never built as objects: a number keeps all of its digits.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Final

import msgspec

from odradek.web.problems import Problem

BINARY: Final = "BINARY"
STRING: Final = "STRING"
JSON: Final = "JSON"
WITH_SCHEMA: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
INVALID_PAYLOAD: Final = 42206
NOT_SERIALIZABLE: Final = 42207
REGISTRY_AWAY: Final = 50301
JSON_CONVERSION: Final = 42203


def null() -> msgspec.Raw:
    """Returns JSON's null: the data of a key or value that a request leaves out. It is a function,
    for OpenAPI cannot describe a default of this type."""
    return msgspec.Raw(b"null")


def decode_base64(text: str) -> bytes:
    """Returns the bytes of base64, with or without padding, in either alphabet."""
    plain = text.translate(_TO_STANDARD)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Problem(
            422, f"data={text[:100]!r} is not a valid base64 string", code=JSON_CONVERSION
        ) from None


_TO_STANDARD: Final = str.maketrans("-_", "+/")


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def is_null(data: msgspec.Raw) -> bool:
    return bytes(data) == b"null"


def serialized(kind: str, data: msgspec.Raw) -> bytes | None:
    """Returns the bytes of a key or value without a schema; null is none at all."""
    if is_null(data):
        return None
    if kind == JSON:
        return msgspec.json.format(bytes(data), indent=-1)
    try:
        text = msgspec.json.decode(data, type=str)
    except msgspec.DecodeError:
        shown_data = bytes(data)[:100].decode("utf-8", "replace")
        wanted = "a base64 string" if kind == BINARY else "a string"
        raise Problem(
            422,
            f"data={shown_data} is not {wanted}. Data that is not text needs the type JSON, or in"
            " version 2 Content-Type: application/vnd.kafka.json.v2+json",
            code=JSON_CONVERSION,
        ) from None
    if kind == BINARY:
        return decode_base64(text)
    return text.encode("utf-8", "surrogatepass")


def milliseconds(time: datetime) -> int:
    """Returns a time of a request as Kafka has it. Without a zone it is UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return max(0, int(time.timestamp() * 1000))


def as_json(value: bytes) -> msgspec.Raw | None:
    """Returns bytes that are JSON, to be put into an answer; None if they are not.

    They come from whoever may produce. Line breaks are taken out: one within an event of a stream
    would end it.
    """
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return msgspec.Raw(msgspec.json.format(value, indent=-1))


def shown(value: bytes | None) -> dict[str, object] | None:
    """Returns a key or value of a record with its type, as far as the bytes tell it."""
    if value is None:
        return None
    if value[:1] != b"\x00":
        found = as_json(value)
        if found is not None:
            return {"type": JSON, "data": found}
        try:
            return {"type": STRING, "data": value.decode()}
        except UnicodeDecodeError:
            pass
    return {"type": BINARY, "data": encode_base64(value)}
