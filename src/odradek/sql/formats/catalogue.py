"""Which codec a format has."""

import re
from collections.abc import Mapping
from typing import Any, Final

from odradek.connect.converters.avro_converter import Avro
from odradek.connect.converters.avro_names import AvroConverterSettings
from odradek.connect.converters.json_schema_converter import JsonSchema
from odradek.connect.converters.json_schema_writing import JsonSchemaConverterSettings
from odradek.connect.converters.protobuf_converter import Protobuf
from odradek.connect.converters.protobuf_names import ProtobufConverterSettings
from odradek.connect.converters.registry_converter import Format as Made
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.formats.names import (
    AVRO_NAME,
    avro_field,
    named_for_avro,
    named_for_protobuf,
)
from odradek.sql.formats.registered import PlainProtobufCodec, RegisteredCodec
from odradek.sql.formats.types import schema_of
from odradek.sql.planning.sources import UNWRAPPING, Format, make_codec
from odradek.streams.formats.columns import UnfitColumns
from odradek.streams.plan.nodes import Codec
from odradek.streams.plan.types import Column

_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Formats:
    """Makes the codecs of all formats. `registry` is None where there is none."""

    def __init__(self, registry: RegistryClient | None) -> None:
        self.registry = registry

    def make(self, form: Format, wanted: tuple[Column, ...], is_key: bool, topic: str) -> Codec:
        """Returns the codec of a format. Raises `UnfitColumns`."""
        columns = tuple(column for column in wanted if column.header is None)
        is_registered = form.is_registered
        if not columns or (not is_registered and form.name != "PROTOBUF_NOSR"):
            return make_codec(form, wanted, is_key, topic)
        is_wrapped = is_wrapped_row(form, columns, is_key)
        schema = _schema(columns, is_wrapped)
        if not is_registered:
            return PlainProtobufCodec(
                columns, is_key=is_key, schema=schema, properties=_protobuf_properties(form)
            )
        registry = self.required(form.name, topic)
        return RegisteredCodec(
            columns, is_key=is_key, is_wrapped=is_wrapped, topic=topic, made=made_of(form),
            schema=_named(form, schema), client=registry, schema_id=form.schema_id,
            name_of=avro_field if form.name == "AVRO" else str,
        )  # fmt: skip

    def required(self, format_name: str, topic: str) -> RegistryClient:
        if self.registry is None:
            raise UnfitColumns(
                f"Cannot create topic '{topic}' with format {format_name} without configuring"
                " 'ksql.schema.registry.url'"
            )
        return self.registry


def is_wrapped_row(form: Format, columns: tuple[Column, ...], is_key: bool) -> bool:
    """Returns whether rows are records of their columns, and not the value of the only one."""
    if len(columns) > 1 or form.name not in UNWRAPPING:
        return True
    return not is_key if form.is_wrapped is None else form.is_wrapped


def _schema(columns: tuple[Column, ...], is_wrapped: bool) -> Schema:
    if not is_wrapped:
        return schema_of(columns[0].kind)
    return schemas.struct(*(Field(column.name, schema_of(column.kind)) for column in columns))


def _named(form: Format, schema: Schema) -> Schema:
    if form.name == "AVRO":
        return named_for_avro(schema, form.full_name or AVRO_NAME)
    if form.name == "PROTOBUF":
        return named_for_protobuf(schema, form.full_name)
    return schema


def _protobuf_properties(form: Format) -> dict[str, str]:
    return {
        "wrapper.for.raw.primitives": "false",
        "optional.for.nullables": str(form.nullable == "OPTIONAL").lower(),
        "wrapper.for.nullables": str(form.nullable == "WRAPPER").lower(),
        "enhanced.protobuf.schema.support": "true",
    }


def made_of(form: Format) -> Made:
    """Returns what makes schemas and values of a format."""
    if form.name == "AVRO":
        return CheckedAvro(AvroConverterSettings.read({}))
    if form.name == "JSON_SR":
        return JsonSchema(JsonSchemaConverterSettings.read({"decimal.format": "NUMERIC"}))
    return Protobuf(ProtobufConverterSettings.read(_protobuf_properties(form)))


class CheckedAvro(Avro):
    """Avro whose schemas are checked when they are made: not every name of a column is one of
    Avro's."""

    def writing(
        self, schema: Schema | None, client: RegistryClient, conf: Mapping[str, object]
    ) -> Any:
        if schema is not None:
            _check_avro(schema)
        return super().writing(schema, client, conf)


def _check_avro(schema: Schema) -> None:
    for part in schema.fields:
        if not _AVRO_NAME.fullmatch(part.name):
            raise DataError(
                f"Schema is not compatible with Avro: Illegal character in: {part.name}"
            )
        _check_avro(part.schema)
    if schema.type is Type.MAP and schema.key is not None and schema.key.type is not Type.STRING:
        raise DataError("Avro only supports MAPs with STRING keys")
    if schema.item is not None:
        _check_avro(schema.item)
