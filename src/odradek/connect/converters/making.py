"""Makes converters of their properties: those of `value.converter.` without that prefix."""

from collections.abc import Mapping
from typing import Final

from odradek.config.kinds import boolean, integer, string
from odradek.connect.converters.by_schema import DEFAULT_CAPACITY
from odradek.connect.converters.json_converter import BASE64, NUMERIC, JsonConverter
from odradek.connect.converters.primitives import (
    BooleanConverter,
    BytesConverter,
    NumberConverter,
    StringConverter,
)
from odradek.connect.data import schemas
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import PluginSettings

Properties = Mapping[str, str | None]

_ENCODING: Final = "converter.encoding"


class ConverterSettings(PluginSettings):
    converter_type = string("converter.type", None, "What it converts: key, value or header.")


class StringConverterSettings(ConverterSettings):
    encoding = string("converter.encoding", "UTF-8", "The encoding of texts.")


class JsonConverterSettings(ConverterSettings):
    schemas_enable = boolean(
        "schemas.enable", True, "Write the schema beside each value, and expect it there."
    )
    decimal_format = string(
        "decimal.format",
        BASE64,
        "How decimals are written: BASE64 or NUMERIC.",
        choices=(BASE64.lower(), NUMERIC.lower()),
        folds_case=True,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Write the default of a schema where a value is null."
    )
    schemas_cache_size = integer(
        "schemas.cache.size", DEFAULT_CAPACITY, "How many schemas are kept as JSON.", at_least=0
    )
    schema_content = string(
        "schema.content",
        None,
        "The schema, as JSON, of all values that are read: then there is none beside the values.",
    )


def json_converter(properties: Properties) -> JsonConverter:
    settings = JsonConverterSettings.read(properties)
    try:
        return _json_converter(settings)
    except DataError as error:
        raise InvalidConfig(f"schema.content: {error}") from None


def _json_converter(settings: JsonConverterSettings) -> JsonConverter:
    return JsonConverter(
        has_schemas=settings.schemas_enable,
        decimal_format=settings.decimal_format,
        replaces_null=settings.replace_null_with_default,
        capacity=settings.schemas_cache_size,
        schema_content=settings.schema_content,
    )


def string_converter(properties: Properties) -> StringConverter:
    try:
        return StringConverter(properties.get(_ENCODING) or "UTF-8")
    except DataError as error:
        raise InvalidConfig(str(error)) from None


def bytes_converter(_: Properties) -> BytesConverter:
    return BytesConverter()


def boolean_converter(_: Properties) -> BooleanConverter:
    return BooleanConverter()


def short_converter(_: Properties) -> NumberConverter:
    return NumberConverter(schemas.INT16)


def integer_converter(_: Properties) -> NumberConverter:
    return NumberConverter(schemas.INT32)


def long_converter(_: Properties) -> NumberConverter:
    return NumberConverter(schemas.INT64)


def float_converter(_: Properties) -> NumberConverter:
    return NumberConverter(schemas.FLOAT32)


def double_converter(_: Properties) -> NumberConverter:
    return NumberConverter(schemas.FLOAT64)


def settings_of(function: str) -> type[ConverterSettings]:
    """Returns the settings of the converter that a function of this module makes."""
    found: dict[str, type[ConverterSettings]] = {
        json_converter.__name__: JsonConverterSettings,
        string_converter.__name__: StringConverterSettings,
    }
    return found.get(function, ConverterSettings)
