"""Functions that decode and encode a single framed value, as Spark's workers call them.

`odradek.spark.schemas` makes columns of them. They are sent to the workers by pickle, so they hold
schemas as text; each worker compiles a schema once, and asks the registry once for each schema that
values name.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from odradek.schemas import framing
from odradek.schemas.errors import BadPayload
from odradek.schemas.registry_client import Schema, client_of
from odradek.world.installing import install_line

try:
    from odradek.schemas.avro_columns import AvroColumns
    from odradek.schemas.json_schema import JsonCodec
    from odradek.schemas.protobuf_columns import ProtobufColumns
    from odradek.schemas.protobuf_descriptors import ProtobufSchema
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error.name} is not installed: {install_line('spark,schemas')}", name=error.name
    ) from None

Field = Literal["key", "value"]

# Avro


@cache
def _avro(schema: Schema, reader: Schema | None = None) -> AvroColumns:
    resolved_to = None if reader is None else _avro(reader)
    return AvroColumns(schema.text, schema.imports, reader=resolved_to)


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Returns what Spark takes for a value of the schema `reader`. With a registry, the value is
    read with the schema that wrote it."""

    reader: Schema
    registry: str | None
    framed: bool
    field: Field

    def __call__(self, value: bytes, header: bytes | None = None) -> Any:
        schema_id: framing.SchemaId
        if not self.framed:
            codec, payload = _avro(self.reader), value
        else:
            if header is None:
                schema_id, payload = framing.unframe(value)
            else:
                schema_id, payload = framing.identify_header(header, self.field).schema, value
            codec = _avro(self.reader)
            if self.registry is not None:
                writer = client_of(self.registry).by_id_or_guid(schema_id)
                if writer != self.reader:
                    codec = _avro(writer, self.reader)
        decoded = codec.decode(payload)
        to_row = avro_shape(self.reader).to_row
        return decoded if to_row is None or decoded is None else to_row(decoded)


@cache
def avro_shape(schema: Schema) -> Any:
    """Returns the column type of a schema, and what converts its values from and to rows."""
    return _avro(schema).shape()


@dataclass(frozen=True, slots=True)
class AvroEncoder:
    schema: Schema
    schema_id: int | None

    def __call__(self, row: Any) -> bytes:
        from_row = avro_shape(self.schema).from_row
        payload = _avro(self.schema).encode(row if from_row is None else from_row(row))
        return payload if self.schema_id is None else framing.frame(self.schema_id, payload)


# JSON


@cache
def json_codec(schema: Schema) -> JsonCodec:
    return JsonCodec(schema.text, schema.imports)


@dataclass(frozen=True, slots=True)
class JsonCheck:
    """Returns a payload as it is, or raises if it does not fit the schema."""

    schema: Schema

    def __call__(self, payload: bytes) -> bytes:
        json_codec(self.schema).decode(payload)
        return payload


# Protobuf


@cache
def _protobuf(schema: Schema | bytes) -> ProtobufSchema:
    if isinstance(schema, bytes):
        return ProtobufSchema.from_descriptor_set(schema)
    return ProtobufSchema.from_text(schema.text, schema.imports)


@cache
def protobuf_message(schema: Schema | bytes, name: str | None) -> ProtobufColumns:
    return ProtobufColumns(_protobuf(schema).message(name))


@cache
def _name_at(schema: Schema, indexes: tuple[int, ...]) -> str:
    return str(_protobuf(schema).message_at(indexes).full_name)


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    """Decodes a message. The message that the value names must be this one."""

    schema: Schema | bytes
    message: str | None
    registry: str | None
    framed: bool
    field: Field

    def __call__(self, value: bytes, header: bytes | None = None) -> Any:
        schema_id: framing.SchemaId
        codec = protobuf_message(self.schema, self.message)
        if not self.framed:
            return codec.decode(value)
        if header is None:
            schema_id, indexes, payload = framing.unframe_message(value)
        else:
            found = framing.identify_header(header, self.field)
            indexes, _ = framing.read_message_path(found.path_in, found.path_start)
            schema_id, payload = found.schema, value
        if self.registry is not None:
            name = _name_at(client_of(self.registry).by_id_or_guid(schema_id), indexes)
            if name != codec.name:
                raise BadPayload(f"a value is a {name}, not a {codec.name}")
        elif indexes != codec.indexes:
            raise BadPayload(f"a value is the message at {list(indexes)}, not {codec.name}")
        # Protobuf identifies fields by number, so values of other schema versions are read with
        # this one.
        return codec.decode(payload)


@dataclass(frozen=True, slots=True)
class ProtobufEncoder:
    schema: Schema | bytes
    message: str | None
    schema_id: int | None

    def __call__(self, row: Any) -> bytes:
        codec = protobuf_message(self.schema, self.message)
        payload = codec.encode(row)
        if self.schema_id is None:
            return payload
        return framing.frame_message(self.schema_id, codec.indexes, payload)
