"""Makes the converters that need a schema registry, and the libraries of the extra `schemas`."""

from collections.abc import Callable, Mapping

from odradek.connect.converters.converter import Converter
from odradek.connect.errors import InvalidConfig
from odradek.world.installing import install_line

Properties = Mapping[str, str | None]
# Kafka Connect's name for whether a converter is for keys or for values.
CONVERTER_TYPE = "converter.type"


def avro_converter(properties: Properties) -> Converter:
    return _made(_avro, properties)


def json_schema_converter(properties: Properties) -> Converter:
    return _made(_json_schema, properties)


def protobuf_converter(properties: Properties) -> Converter:
    return _made(_protobuf, properties)


def _made(make: Callable[[Properties, str], Converter], properties: Properties) -> Converter:
    try:
        return make(properties, properties.get(CONVERTER_TYPE) or "value")
    except ImportError as error:
        raise InvalidConfig(
            f"the converter needs a library that is missing ({error.name}):"
            f" {install_line('schemas')}"
        ) from None


def _avro(properties: Properties, field: str) -> Converter:
    from odradek.connect.converters import avro_converter as module  # noqa: PLC0415 - an extra
    from odradek.connect.converters.avro_names import AvroConverterSettings  # noqa: PLC0415
    from odradek.connect.converters.registry_converter import RegistryConverter  # noqa: PLC0415

    settings = AvroConverterSettings.read(properties)
    return RegistryConverter(module.Avro(settings), properties, field, settings)


def _json_schema(properties: Properties, field: str) -> Converter:
    from odradek.connect.converters import json_schema_converter as module  # noqa: PLC0415
    from odradek.connect.converters.json_schema_writing import (  # noqa: PLC0415
        JsonSchemaConverterSettings,
    )
    from odradek.connect.converters.registry_converter import RegistryConverter  # noqa: PLC0415

    settings = JsonSchemaConverterSettings.read(properties)
    return RegistryConverter(module.JsonSchema(settings), properties, field, settings)


def _protobuf(properties: Properties, field: str) -> Converter:
    from odradek.connect.converters import protobuf_converter as module  # noqa: PLC0415
    from odradek.connect.converters.protobuf_names import (  # noqa: PLC0415
        ProtobufConverterSettings,
    )
    from odradek.connect.converters.registry_converter import RegistryConverter  # noqa: PLC0415

    settings = ProtobufConverterSettings.read(properties)
    return RegistryConverter(module.Protobuf(settings), properties, field, settings)
