"""Columns of framed Avro, JSON and Protobuf, and back.

    from odradek.spark import schemas

    clicks.select(schemas.decode_avro("value", registry=URL, subject="clicks-value").alias("click"))
    rows.select(schemas.encode_avro(f.struct("*"), SCHEMA, registry=URL, subject="rows-value"))

The driver asks the registry for the schema that gives the column its type. Workers ask it for the
schemas that values name, once for each schema. Without a registry the given schema is used for all
values. JSON is decoded and encoded by Spark itself, and checked only if asked to.

A record may name its schema in a header in place of the frame. To read such records too, give the
column of the headers: `decode_avro("value", headers="headers", ...)`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    TimestampType,
)

from odradek.schemas import framing
from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import Schema, client_of
from odradek.spark.framed_values import (
    AvroDecoder,
    AvroEncoder,
    Field,
    JsonCheck,
    ProtobufDecoder,
    ProtobufEncoder,
    avro_shape,
    json_codec,
    protobuf_message,
)

Mode = Literal["failfast", "permissive"]
Imports = Mapping[str, str]

_NO_IMPORTS: Final[Imports] = {}
_TO_THE_END: Final = (1 << 31) - 1
_NOT_FRAMED: Final = "a value does not begin with 00 and a schema's id: it was not framed"


class _Choice(NamedTuple):
    """The schema of a column. `id` is the schema id that is written before each value, if any."""

    schema: Schema
    id: int | None


def _to_decode(
    kind: SchemaType,
    schema: str | None,
    imports: Imports,
    registry: str | None,
    subject: str | None,
) -> Schema:
    if schema is not None:
        return Schema(kind, schema, tuple(imports.items()))
    return _newest(kind, registry, subject).schema


def _to_encode(
    kind: SchemaType,
    schema: str | None,
    imports: Imports,
    registry: str | None,
    subject: str | None,
) -> _Choice:
    """Registers the given schema, or takes the newest version of the subject."""
    if schema is not None:
        local = Schema(kind, schema, tuple(imports.items()))
        if registry is None or subject is None:
            return _Choice(local, None)
        if imports:
            raise BadSchema(
                "a schema with imports is registered by the registry's own means, which name its"
                " references: leave the schema out to take the newest version of the subject"
            )
        return _Choice(local, client_of(registry).register(subject, kind, schema))
    return _newest(kind, registry, subject)


def _newest(kind: SchemaType, registry: str | None, subject: str | None) -> _Choice:
    if registry is None or subject is None:
        raise BadSchema("give a schema, or registry and subject to take the newest version of")
    newest = client_of(registry).latest(subject)
    if newest.schema.kind != kind:
        raise BadSchema(f"{subject} has schemas of type {newest.schema.kind}, not {kind}")
    return _Choice(newest.schema, newest.id)


def _frame_id(choice: _Choice, schema_id: int | None, framed: bool) -> int | None:
    """Returns the schema id that is written before values; None for payloads without a frame."""
    if not framed:
        return None
    frame_id = choice.id if schema_id is None else schema_id
    if frame_id is None:
        raise BadSchema(
            "values get a schema's id: give registry and subject, or schema_id, or framed=False"
        )
    return frame_id


# Python functions on columns


def _header(headers: Column | str, field: Field) -> Column:
    """Returns the header of a record that names its schema; null without one. `headers` is an array
    of structs of key and value, as sources of Kafka have it."""
    name = f.lit(framing.header_name(field))
    named = f.filter(_column(headers), lambda one: (one.key == name) & one.value.isNotNull())
    return f.get(named, 0).value


def _decoding(
    convert: Callable[..., Any],
    kind: str,
    column: Column | str,
    mode: Mode,
    header: Column | None = None,
) -> Column:
    """Returns the column of what `convert` returns for each value. With `header`, it also gets the
    value of that column, which may be None."""
    if mode not in ("failfast", "permissive"):
        raise BadSchema(f"mode {mode!r} is neither failfast nor permissive")
    data_type = DataType.fromDDL(kind)
    zone = SparkSession.active().conf.get("spark.sql.session.timeZone", "UTC")
    arrow_type = _arrow_type(data_type, zone or "UTC")
    is_patient = mode == "permissive"

    def decode(*columns: pa.Array) -> pa.Array:
        rows = []
        for given in zip(*(column.to_pylist() for column in columns), strict=True):
            try:
                rows.append(None if given[0] is None else convert(*given))
            except BadPayload:
                if not is_patient:
                    raise
                rows.append(None)
        return pa.array(rows, arrow_type)

    inputs = [_column(column)] if header is None else [_column(column), header]
    return f.arrow_udf(decode, data_type)(*inputs)


_ARROW: Final = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
}


def _arrow_type(kind: DataType, zone: str) -> pa.DataType:
    """Returns the Arrow type that Spark expects for one of its types. Spark has such a function,
    but it is private."""
    if isinstance(kind, StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType, zone)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType, zone)))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_type(kind.keyType, zone), _arrow_type(kind.valueType, zone))
    if isinstance(kind, TimestampType):
        return pa.timestamp("us", tz=zone)
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind.simpleString()]


def _encoding(convert: Callable[[Any], bytes], column: Column | str) -> Column:
    def encode(values: pa.Array) -> pa.Array:
        rows = values.to_pylist()
        return pa.array([None if value is None else convert(value) for value in rows], pa.binary())

    return f.arrow_udf(encode, BinaryType())(_column(column))


def _column(column: Column | str) -> Column:
    return f.col(column) if isinstance(column, str) else column


def _header_if_framed(headers: Column | str | None, field: Field, framed: bool) -> Column | None:
    if field not in ("key", "value"):
        raise BadSchema(f"field {field!r} is neither key nor value")
    if headers is None:
        return None
    if not framed:
        raise BadSchema("headers name schemas of framed values: leave framed=False out")
    return _header(headers, field)


# Avro


def decode_avro(
    column: Column | str,
    schema: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
    headers: Column | str | None = None,
    field: Field = "value",
    mode: Mode = "failfast",
) -> Column:
    """Decodes values into columns of `schema`, or of the newest version of `subject`.

    With a registry each value is read with the schema that wrote it, and resolved to this one.
    With `permissive`, values that cannot be decoded become null. `framed=False` is for payloads
    without a frame. `headers` is the column of the headers, where a schema may be named in place of
    the frame; `field` says whether the column is the key or the value.
    """
    reader = _to_decode("AVRO", schema, imports, registry, subject)
    decoder = AvroDecoder(reader, registry, framed, field)
    header = _header_if_framed(headers, field, framed)
    return _decoding(decoder, avro_shape(reader).type, column, mode, header)


def encode_avro(
    column: Column | str,
    schema: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    schema_id: int | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
) -> Column:
    """Encodes a column of the schema's type, usually a struct, as framed binary.

    The given schema is registered under the subject; without one, the newest version is used.
    """
    choice = _to_encode("AVRO", schema, imports, registry, subject)
    avro_shape(choice.schema)
    return _encoding(AvroEncoder(choice.schema, _frame_id(choice, schema_id, framed)), column)


# JSON


def decode_json(
    column: Column | str,
    schema: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
    headers: Column | str | None = None,
    field: Field = "value",
    mode: Mode = "failfast",
    validate: bool = False,
) -> Column:
    """Decodes JSON values into columns of a JSON schema. Spark decodes them; with `validate` each
    is checked against the schema first."""
    choice = _to_decode("JSON", schema, imports, registry, subject)
    kind = json_codec(choice).column_type()
    payload = _column(column)
    header = _header_if_framed(headers, field, framed)
    if framed:
        begins = f.substring(payload, 1, 1) == f.lit(b"\0")
        other = f.lit(None) if mode == "permissive" else f.raise_error(f.lit(_NOT_FRAMED))
        rest = f.substring(payload, framing.HEADER_SIZE + 1, _TO_THE_END)
        is_bare = payload.isNull() if header is None else payload.isNull() | header.isNotNull()
        payload = f.when(is_bare, payload).when(begins, rest).otherwise(other)
    if validate:
        payload = _decoding(JsonCheck(choice), "binary", payload, mode)
    text = payload.cast("string")
    if not kind.startswith(("struct<", "array<", "map<")):
        return text
    return f.from_json(text, kind, {"mode": mode.upper()})


def encode_json(
    column: Column | str,
    schema: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    schema_id: int | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
    validate: bool = False,
) -> Column:
    """Encodes a struct, map or array as framed JSON. Fields that are null are left out."""
    choice = _to_encode("JSON", schema, imports, registry, subject)
    json_codec(choice.schema)
    payload = f.to_json(_column(column)).cast("binary")
    if validate:
        payload = _decoding(JsonCheck(choice.schema), "binary", payload, "failfast")
    frame_id = _frame_id(choice, schema_id, framed)
    if frame_id is None:
        return payload
    return f.concat(f.lit(framing.frame(frame_id, b"")), payload)


# Protobuf


def decode_protobuf(
    column: Column | str,
    schema: str | bytes | None = None,
    *,
    message: str | None = None,
    registry: str | None = None,
    subject: str | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
    headers: Column | str | None = None,
    field: Field = "value",
    mode: Mode = "failfast",
) -> Column:
    """Decodes messages into columns. `schema` is `.proto` text, or a descriptor set as bytes.
    `message` names the message; by default it is the first one of the file."""
    source: Schema | bytes
    if isinstance(schema, bytes):
        source = schema
    else:
        source = _to_decode("PROTOBUF", schema, imports, registry, subject)
    kind = protobuf_message(source, message).column_type()
    decoder = ProtobufDecoder(source, message, registry, framed, field)
    return _decoding(decoder, kind, column, mode, _header_if_framed(headers, field, framed))


def encode_protobuf(
    column: Column | str,
    schema: str | bytes | None = None,
    *,
    message: str | None = None,
    registry: str | None = None,
    subject: str | None = None,
    schema_id: int | None = None,
    imports: Imports = _NO_IMPORTS,
    framed: bool = True,
) -> Column:
    """Encodes a struct as a framed message. Fields that are null are not set."""
    source: Schema | bytes
    if isinstance(schema, bytes):
        source, frame_id = schema, schema_id
        if framed and schema_id is None:
            raise BadSchema("a descriptor set cannot be registered: give schema_id")
    else:
        choice = _to_encode("PROTOBUF", schema, imports, registry, subject)
        source, frame_id = choice.schema, _frame_id(choice, schema_id, framed)
    protobuf_message(source, message)
    encoder = ProtobufEncoder(source, message, frame_id if framed else None)
    return _encoding(encoder, column)
