"""Values of a topic as text, decoded by the schemas that they name: for consoles.

Avro is printed in Avro's JSON notation, in which the member of a union has its name, as Confluent's
consoles do; a Protobuf message as its JSON; JSON as it is.
"""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odradek.schemas import framing
from odradek.schemas.errors import BadSchema, RegistryUnreachable, SchemaError
from odradek.schemas.framing import Identified
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient, Schema
from odradek.schemas.serializers.context import SerializationContext
from odradek.schemas.serializers.preparations import Preparations

_CAPACITY = 1000
Show = Callable[[bytes, int], bytes]


class Unreadable(NamedTuple):
    """A value that cannot be shown, and why."""

    reason: str


class _Shown(NamedTuple):
    show: Show
    schema_id: str


class ShownValues:
    """A deserializer that returns text as bytes, or `Unreadable`.

    With `kind` all values must have schemas of that format. Without it they are shown as they are
    if they have no frame, or if the registry does not know their schema. `id_separator` is written
    after each value with its schema id.
    """

    def __init__(
        self,
        client: RegistryClient,
        kind: SchemaType | None = None,
        id_separator: bytes | None = None,
        *,
        may_block: bool = True,
    ) -> None:
        self._client = client
        self._kind = kind
        self._id_separator = id_separator
        self._may_block = may_block
        self._shown: Preparations[_Shown] = Preparations(_CAPACITY)

    def without_blocking(self) -> "ShownValues":
        return ShownValues(self._client, self._kind, self._id_separator, may_block=False)

    def deserialize(self, value: bytes, context: Any) -> "bytes | Unreadable":
        try:
            found = framing.identify(value, context.headers, context.field)
            key = (found.schema, found.path_in[found.path_start : found.path_start + 8])
            shown = self._shown.find(key, lambda: self._prepare(found), self._may_block)
            text = shown.show(value, found.start)
        except RegistryUnreachable:
            raise
        except SchemaError as error:
            return value if self._kind is None else Unreadable(str(error))
        if self._id_separator is None:
            return text
        return text + self._id_separator + shown.schema_id.encode()

    def _prepare(self, found: Identified) -> _Shown:
        name = framing.id_text(found.schema)
        schema = self._client.by_id_or_guid(found.schema)
        if self._kind is not None and schema.kind != self._kind:
            raise BadSchema(f"schema {name} has type {schema.kind}, not {self._kind}")
        return _Shown(_shower(schema, found), name)


def _shower(schema: Schema, found: Identified) -> Show:
    if schema.kind == "AVRO":
        return _avro(schema)
    if schema.kind == "JSON":
        return lambda value, start: value[start:]
    return _protobuf(schema, found)


def _avro(schema: Schema) -> Show:
    import fastavro

    from odradek.schemas.avro import AvroCodec

    codec = AvroCodec(schema.text, schema.imports, names_records=True)

    def show(value: bytes, start: int) -> bytes:
        if codec.is_bytes:
            return json.dumps(value[start:].decode("latin-1")).encode()
        decoded, text = codec.decode(value, start), io.StringIO()
        fastavro.json_writer(text, codec.schema, [decoded])
        return json.dumps(json.loads(text.getvalue()), ensure_ascii=False).encode()

    return show


def _protobuf(schema: Schema, found: Identified) -> Show:
    from google.protobuf.json_format import MessageToJson

    from odradek.schemas.protobuf import ProtobufCodec
    from odradek.schemas.protobuf_descriptors import ProtobufSchema

    path, end = framing.read_message_path(found.path_in, found.path_start)
    length = end - found.path_start if found.start else 0
    file = ProtobufSchema.from_text(schema.text, schema.imports)
    codec = ProtobufCodec(file.message_at(path))

    def show(value: bytes, start: int) -> bytes:
        message = codec.parse(value[start + length :])
        text: str = MessageToJson(
            message, indent=None, always_print_fields_with_no_presence=True, ensure_ascii=False
        )
        return text.encode()

    return show


class DecodingFormatter:
    """A formatter of records that no consumer has deserialized, as `odradek get` has them. Raises
    `RegistryUnreachable`."""

    def __init__(self, formatter: Any, deserializers: Mapping[str, Any]) -> None:
        """`deserializers` has those that `consoles.shown_by` returns."""
        self._formatter = formatter
        self._deserializers = deserializers

    def format(self, record: Any) -> bytes:
        return bytes(
            self._formatter.format(
                record._replace(key=self._shown(record, "key"), value=self._shown(record, "value"))
            )
        )

    def _shown(self, record: Any, field: str) -> Any:
        content = getattr(record, field)
        deserializer = self._deserializers.get(f"{field}_deserializer")
        if content is None or deserializer is None:
            return content
        context = SerializationContext(record.topic, field, record.headers)
        return deserializer.deserialize(content, context)


class CheckedFormatter:
    """A formatter of records that may have `Unreadable` keys or values."""

    def __init__(self, formatter: Any) -> None:
        self._formatter = formatter

    def format(self, record: Any) -> bytes:
        for part in (record.key, record.value):
            if isinstance(part, Unreadable):
                raise ValueError(part.reason)
        formatted: bytes = self._formatter.format(record)
        return formatted
