"""Encodes and decodes values by schemas of the registry.

`schema_formats` calls this module in worker threads, because it waits for the registry.

Avro is read and written in Avro's own JSON encoding, as Confluent's proxy does: a value of a union
names its type, as in `{"string": "x"}`. Protobuf is read and written in its JSON mapping.
"""

import io
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, Final

import msgspec

from odradek.rest.formats import NOT_SERIALIZABLE, REGISTRY_AWAY, as_json
from odradek.rest.schema_formats import SchemaOf, Written
from odradek.schemas.errors import (
    BadPayload,
    BadSchema,
    NotRegistered,
    RegistryFailed,
    RegistryUnreachable,
    SchemaError,
)
from odradek.schemas.framing import (
    Headers,
    Identified,
    frame,
    frame_message,
    id_text,
    identify,
    read_message_path,
)
from odradek.schemas.registry_client import Registered, RegistryClient, Schema, require_no_rules
from odradek.web.problems import Problem

_TYPE_OF: Final = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
_NAME_OF: Final = {kind: name for name, kind in _TYPE_OF.items()}
_STRATEGIES: Final = ("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME")
_INVALID_SCHEMA: Final = 42205


def write(
    client: RegistryClient, topic: str, wanted: SchemaOf, data: bytes, is_key: bool
) -> Written:
    """Encodes JSON after the id of its schema. A schema that the request has as text is registered
    first. Raises a `Problem`."""
    try:
        registered = _registered(client, topic, wanted, is_key)
        name = _NAME_OF[registered.schema.kind]
        if wanted.kind is not None and wanted.kind != name:
            raise Problem(422, f"the schema is {name}, not {wanted.kind}", code=NOT_SERIALIZABLE)
        content = None
        require_no_rules(registered)
        if data != b"null":
            content = codec_of(registered.schema).write(registered.id, data)
    except SchemaError as error:
        raise _problem(error) from None
    described: dict[str, Any] = {"schema_id": registered.id}
    if registered.subject:
        described = {
            "subject": registered.subject, "schema_id": registered.id,
            "schema_version": registered.version,
        }  # fmt: skip
    return Written(content, described, name)


def read(client: RegistryClient, value: bytes, headers: Headers, part: str) -> dict[str, object]:
    """Returns a key or value as JSON, with its type and the id of its schema, or the GUID. `part`
    is "key" or "value": a header of the record may name the schema in place of a frame."""
    try:
        found = identify(value, headers, part)
        schema = client.by_id_or_guid(found.schema)
        shown = codec_of(schema).read(value, found)
    except SchemaError as error:
        raise _problem(error) from None
    named = "schema_guid" if isinstance(found.schema, bytes) else "schema_id"
    name = id_text(found.schema) if isinstance(found.schema, bytes) else found.schema
    return {"type": _NAME_OF[schema.kind], named: name, "data": shown}


def _registered(client: RegistryClient, topic: str, wanted: SchemaOf, is_key: bool) -> Registered:
    """Returns the schema that a request asks for: by text, by id, or of a subject."""
    if wanted.strategy is not None and wanted.strategy.upper() not in _STRATEGIES:
        raise Problem(400, f"subject_name_strategy is one of {', '.join(_STRATEGIES)}")
    subject = wanted.subject or f"{topic}-{'key' if is_key else 'value'}"
    if wanted.text is not None:
        if wanted.kind is None:
            raise Problem(400, "a schema needs a type: AVRO, JSONSCHEMA or PROTOBUF")
        kind = _TYPE_OF[wanted.kind]
        # What is not a schema is refused here.
        codec = codec_of(Schema(kind, wanted.text))  # type: ignore[arg-type]
        subject = _by_strategy(wanted, topic, subject, codec)
        client.register(subject, kind, wanted.text)  # type: ignore[arg-type]  # one of the three
        return client.lookup(subject, kind, wanted.text)  # type: ignore[arg-type]
    if wanted.schema_id is not None:
        schema = client.by_id(wanted.schema_id)
        subject = _by_strategy(wanted, topic, subject, codec_of(schema))
        version = client.version_of_id(wanted.schema_id, subject)
        return Registered(wanted.schema_id, schema, subject if version else "", version)
    if (wanted.strategy or "TOPIC_NAME").upper() != "TOPIC_NAME":
        raise Problem(
            400,
            f"subject_name_strategy {wanted.strategy} takes the record's name from a schema:"
            " give schema or schema_id",
        )
    if wanted.version is not None:
        return _of_version(client, subject, wanted.version)
    return client.latest(subject)


def _of_version(client: RegistryClient, subject: str, version: int) -> Registered:
    try:
        return client.version(subject, version)
    except NotRegistered:
        raise Problem(
            400, f"Schema does not exist for subject: {subject}, version: {version}"
        ) from None


def _by_strategy(wanted: SchemaOf, topic: str, subject: str, codec: "Codec") -> str:
    strategy = (wanted.strategy or "TOPIC_NAME").upper()
    if wanted.subject is not None or strategy == "TOPIC_NAME":
        return subject
    record = codec.record_name()
    if record is None:
        raise Problem(422, "the schema has no name for its subject", code=NOT_SERIALIZABLE)
    return record if strategy == "RECORD_NAME" else f"{topic}-{record}"


class Codec(ABC):
    """Writes and reads JSON by one schema, with frames."""

    @abstractmethod
    def write(self, schema_id: int, data: bytes) -> bytes: ...

    @abstractmethod
    def read(self, value: bytes, found: Identified) -> Any: ...

    @abstractmethod
    def record_name(self) -> str | None: ...


@lru_cache(maxsize=500)
def codec_of(schema: Schema) -> Codec:
    """Returns the codec of a schema; its libraries are imported when they are needed."""
    kinds: dict[str, type[Any]] = {"AVRO": _Avro, "JSON": _Json, "PROTOBUF": _Protobuf}
    made: Codec = kinds[schema.kind](schema)
    return made


class _Avro(Codec):
    def __init__(self, schema: Schema) -> None:
        from odradek.schemas.avro import AvroCodec  # noqa: PLC0415

        self._codec = AvroCodec(schema.text, schema.imports)

    def write(self, schema_id: int, data: bytes) -> bytes:
        from odradek.schemas.avro_json import read_avro_json  # noqa: PLC0415

        value = read_avro_json(self._codec, data.decode("utf-8", "replace"))
        return frame(schema_id, self._codec.encode(value))

    def read(self, value: bytes, found: Identified) -> Any:
        import fastavro  # noqa: PLC0415

        text = io.StringIO()
        decoded = self._codec.decode(value, found.start)
        try:
            fastavro.json_writer(text, self._codec.schema, [decoded])
        except Exception as error:  # noqa: BLE001 - as above
            raise BadPayload(f"a value has no JSON by its Avro schema: {error!r}") from None
        return _embedded(text.getvalue().encode())

    def record_name(self) -> str | None:
        return self._codec.record_name


class _Json(Codec):
    def __init__(self, schema: Schema) -> None:
        from odradek.schemas.json_schema import JsonCodec  # noqa: PLC0415

        self._codec = JsonCodec(schema.text, schema.imports)

    def write(self, schema_id: int, data: bytes) -> bytes:
        self._codec.decode(data)
        return frame(schema_id, msgspec.json.format(data, indent=-1))

    def read(self, value: bytes, found: Identified) -> Any:
        payload = value[found.start :]
        self._codec.decode(payload)
        return _embedded(payload)

    def record_name(self) -> str | None:
        return self._codec.title


class _Protobuf(Codec):
    def __init__(self, schema: Schema) -> None:
        from odradek.schemas.protobuf_descriptors import ProtobufSchema  # noqa: PLC0415

        self._schema = ProtobufSchema.from_text(schema.text, schema.imports)

    def _codec(self, indexes: tuple[int, ...]) -> Any:
        from odradek.schemas.protobuf import ProtobufCodec  # noqa: PLC0415

        return ProtobufCodec(self._schema.message_at(indexes))

    def write(self, schema_id: int, data: bytes) -> bytes:
        from google.protobuf import json_format  # noqa: PLC0415

        message = self._codec((0,)).message_class()
        try:
            json_format.Parse(data, message)
        except (json_format.ParseError, RecursionError) as error:
            raise BadPayload(f"a value does not fit its Protobuf schema: {error}") from None
        return frame_message(schema_id, (0,), message.SerializeToString())

    def read(self, value: bytes, found: Identified) -> Any:
        from google.protobuf import json_format  # noqa: PLC0415

        indexes, end = read_message_path(found.path_in, found.path_start)
        message = self._codec(indexes).parse(value[end if found.start else 0 :])
        try:
            text = json_format.MessageToJson(
                message, always_print_fields_with_no_presence=True, indent=None
            )
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            # A time that cannot be, or an Any of a type that nobody knows.
            raise BadPayload(f"a value has no JSON by its Protobuf schema: {error}") from None
        return msgspec.Raw(text.encode())

    def record_name(self) -> str | None:
        return str(self._codec((0,)).name)


def _embedded(text: bytes) -> msgspec.Raw:
    """Returns JSON for an answer. Python's decoder takes more for JSON than clients do: NaN, and
    UTF-16."""
    found = as_json(text)
    if found is None:
        raise BadPayload("a value is not JSON that an answer can have")
    return found


def _problem(error: SchemaError) -> Problem:
    if isinstance(error, RegistryUnreachable):
        return Problem(503, str(error), code=REGISTRY_AWAY)
    if isinstance(error, BadSchema):
        return Problem(422, f"Invalid schema: {error}", code=_INVALID_SCHEMA)
    if isinstance(error, NotRegistered | RegistryFailed):
        return Problem(422, f"Error serializing message. {error}", code=NOT_SERIALIZABLE)
    return Problem(422, f"Conversion of JSON to Object failed: {error}", code=42203)
