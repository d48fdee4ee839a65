"""Whether a value fits the schema that its frame or a header names, for any format.

The schema validation of brokers uses it in a process of its own (`broker.schema_validation`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import Identified, read_message_path

Check = Callable[[bytes, Identified], str | None]
_Decode = Callable[[bytes, Identified], object]
_MAX_CHARACTERS: Final = 300


def decoder_of(source: Mapping[str, Any]) -> Check:
    """Returns a function that says why a value, whose frame or header has been read, does not fit
    the schema; None if it does. `source` has the schema's kind, its text, and the texts that it
    imports."""
    imports = [(name, text) for name, text in source["imports"]]
    try:
        decode = _decoder(source["kind"], source["text"], imports)
    except SchemaError as error:
        reason = f"its schema cannot be used: {_short(error)}"
        return lambda *_: reason

    def check(value: bytes, found: Identified) -> str | None:
        try:
            decode(value, found)
        except SchemaError as error:
            return _short(error)
        return None

    return check


def _short(error: SchemaError) -> str:
    return str(error)[:_MAX_CHARACTERS]


def _decoder(kind: str, text: str, imports: list[tuple[str, str]]) -> _Decode:
    # Each format has a library of its own, so only those that are used are imported.
    if kind == "AVRO":
        from odradek.schemas.avro import AvroCodec  # noqa: PLC0415

        avro = AvroCodec(text, imports)
        if avro.is_bytes:
            return lambda *_: None  # Any bytes are a value.
        return lambda value, found: avro.decode(value, found.start)
    if kind == "JSON":
        from odradek.schemas.json_schema import JsonCodec  # noqa: PLC0415

        json = JsonCodec(text, imports)
        return lambda value, found: json.decode(value[found.start :])
    from odradek.schemas.protobuf import ProtobufCodec  # noqa: PLC0415
    from odradek.schemas.protobuf_descriptors import ProtobufSchema  # noqa: PLC0415

    protobuf = ProtobufSchema.from_text(text, imports)

    def decode(value: bytes, found: Identified) -> object:
        indexes, end = read_message_path(found.path_in, found.path_start)
        start = end if found.start else 0
        return ProtobufCodec(protobuf.message_at(indexes)).decode(value[start:])

    return decode
