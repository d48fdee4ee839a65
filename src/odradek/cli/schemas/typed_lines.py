"""Lines of JSON as values with a schema: what the producers of consoles send.

Avro is read in Avro's JSON notation, in which the member of a union has its name, and in plain
JSON.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odradek.cli.records.line_reader import LineReader
from odradek.schemas.errors import BadPayload, SchemaError
from odradek.schemas.parsed import Reference, SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.serializers.own_schema import Schema, schema_text
from odradek.tools.failures import CommandFailed, UsageError

Parse = Callable[[str], Any]


class Field(NamedTuple):
    """How the texts of keys, or of values, become bytes."""

    parse: Parse
    serializer: Any


class TypedLine(NamedTuple):
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]


class TypedLineReader(LineReader):
    """A `LineReader` whose lines have JSON. A key without a schema stays text."""

    def __init__(self, properties: dict[str, str], key: Field | None, value: Field) -> None:
        super().__init__(properties)
        self._fields = (key, value)

    def read(self, line: bytes) -> Any:
        found = super().read(line)
        key, value = (
            data if data is None or field is None else self._parsed(field, data)
            for field, data in zip(self._fields, (found.key, found.value), strict=True)
        )
        return TypedLine(key, value, found.headers)

    def _parsed(self, field: Field, data: bytes) -> Any:
        try:
            return field.parse(data.decode())
        except (ValueError, SchemaError) as error:
            raise CommandFailed(f"line {self._line_number}: {error}") from None


def field_of(
    kind: SchemaType, client: RegistryClient, properties: Mapping[str, str], name: str
) -> Field | None:
    """Returns what the properties say about keys or values; None if they name no schema."""
    schema_id, text = properties.get(f"{name}.schema.id"), schema_text(properties, name)
    conf: dict[str, object] = {
        setting: properties[setting]
        for setting in (
            *("auto.register.schemas", "normalize.schemas", "use.latest.version"),
            *("subject.name.strategy", "schema.id.serializer"),
        )
        if setting in properties
    }
    own = properties.get(f"{name}.subject.name.strategy")
    if own is not None:
        conf["subject.name.strategy"] = own
    references = _references(properties.get(f"{name}.refs", ""))
    if schema_id is not None:
        if not schema_id.isdecimal():
            raise UsageError(f"{name}.schema.id={schema_id} must be a number")
        known = client.by_id(int(schema_id))
        if known.kind != kind:
            raise UsageError(f"schema {schema_id} has type {known.kind}, not {kind}")
        conf["use.schema.id"] = int(schema_id)
        text, imports = known.text, known.imports
    elif text is not None:
        found: dict[str, str] = {}
        for reference in references:
            schema = client.version(reference.subject, reference.version).schema
            found.update(schema.imports)
            found[reference.name] = schema.text
        imports = tuple(found.items())
    else:
        return None
    given = Schema(text, kind, references)
    return _MAKERS[kind](client, given, imports, conf)


def _references(text: str) -> tuple[Reference, ...]:
    """Reads references as Confluent's consoles take them: a JSON array."""
    if not text:
        return ()
    try:
        return tuple(
            Reference(item["name"], item["subject"], int(item["version"]))
            for item in json.loads(text)
        )
    except (ValueError, KeyError, TypeError):
        example = '[{"name":"shop.Click","subject":"click","version":1}]'
        raise UsageError(f"references must be JSON like {example}") from None


_Imports = tuple[tuple[str, str], ...]


def _avro(
    client: RegistryClient, given: Schema, imports: _Imports, conf: dict[str, object]
) -> Field:
    from odradek.schemas.avro import AvroCodec
    from odradek.schemas.avro_json import UnknownField, read_avro_json
    from odradek.schemas.serializers.avro import AvroSerializer

    codec = AvroCodec(given.schema_str, imports)
    strict = AvroCodec(given.schema_str, imports, strict_allow_default=True)

    def parse(text: str) -> Any:
        plain = _plain_json(text)
        try:
            return read_avro_json(codec, text)
        except UnknownField:
            raise
        except BadPayload:
            strict.encode(plain)  # It may be plain JSON. If not, this says what does not fit.
            return plain

    own = None if "use.schema.id" in conf else given
    return Field(parse, AvroSerializer(client, own, None, conf))


def _json(
    client: RegistryClient, given: Schema, imports: _Imports, conf: dict[str, object]
) -> Field:
    from odradek.schemas.serializers.json_schema import JSONSerializer

    own = None if "use.schema.id" in conf else given
    return Field(_plain_json, JSONSerializer(own, client, None, conf))


def _plain_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}; each line is one JSON value") from None


def _protobuf(
    client: RegistryClient, given: Schema, imports: _Imports, conf: dict[str, object]
) -> Field:
    from google.protobuf.json_format import Parse, ParseError

    from odradek.schemas.protobuf import ProtobufCodec
    from odradek.schemas.protobuf_descriptors import ProtobufSchema
    from odradek.schemas.serializers.protobuf import ProtobufSerializer

    codec = ProtobufCodec(ProtobufSchema.from_text(given.schema_str, imports).message())

    def parse(text: str) -> Any:
        try:
            return Parse(text, codec.message_class())
        except ParseError as error:
            raise ValueError(str(error)) from None

    return Field(parse, ProtobufSerializer(given, client, conf))


_MAKERS: dict[
    SchemaType, Callable[[RegistryClient, Schema, _Imports, dict[str, object]], Field]
] = {
    "AVRO": _avro,
    "JSON": _json,
    "PROTOBUF": _protobuf,
}
