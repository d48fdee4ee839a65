"""JSON Schemas of Connect's schemas, as Confluent's JsonSchemaConverter makes them.

What JSON Schema cannot say stands in properties of its own: `connect.type` (`int32`, `bytes`,
`map`), `connect.index` (the order of fields), `connect.version` and `connect.parameters`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from odradek.config.kinds import boolean, string
from odradek.connect.converters.json_converter import BASE64, NUMERIC
from odradek.connect.converters.registry_converter import RegistryConverterSettings
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
NULL_SYMBOL: Final = "<NULL>"
CONNECT_TYPES: Final = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
}
_NULL: Final[dict[str, Any]] = {"type": "null"}


class JsonSchemaConverterSettings(RegistryConverterSettings):
    decimal_format = string(
        "decimal.format",
        BASE64,
        "How decimals are written: BASE64 or NUMERIC.",
        choices=(BASE64.lower(), NUMERIC.lower()),
        folds_case=True,
    )
    object_additional_properties = boolean(
        "object.additional.properties", True, "Allow fields that the schema does not name."
    )
    use_optional_for_nonrequired = boolean(
        "use.optional.for.nonrequired", False, "Read fields that are not required as optional."
    )


def is_union(schema: Schema) -> bool:
    return schema.name == ONE_OF


def field_of_union(index: int) -> str:
    return f"{ONE_OF}.field.{index}"


class JsonSchemas:
    """`written` returns a value as JSON text, for defaults."""

    def __init__(
        self, settings: JsonSchemaConverterSettings, written: Callable[[Schema, Any], str]
    ) -> None:
        self._settings = settings
        self._written = written

    def text(self, schema: Schema) -> str:
        return json.dumps(self._of(schema), separators=(",", ":"), ensure_ascii=False)

    def _of(self, schema: Schema, index: int | None = None) -> dict[str, Any]:
        """`index` says which field of a struct the schema is for."""
        position: dict[str, Any] = {} if index is None else {"connect.index": index}
        if is_union(schema):
            members: list[dict[str, Any]] = [_NULL] if schema.is_optional else []
            members += [
                {**self._not_null(part.schema), "connect.index": number}
                for number, part in enumerate(schema.fields)
            ]
            return {"oneOf": members, **position}
        made = self._not_null(schema)
        if schema.is_optional:
            made = {"oneOf": [_NULL, made]}
        return {**made, **position}

    def _not_null(self, schema: Schema) -> dict[str, Any]:
        made = self._base(schema)
        if schema.name is not None:
            made["title"] = schema.name
        if schema.doc is not None:
            made["description"] = schema.doc
        if schema.version is not None:
            made["connect.version"] = schema.version
        parameters = {
            name: text for name, text in schema.parameters.items() if not name.startswith(NAMESPACE)
        }
        if parameters:
            made["connect.parameters"] = parameters
        if schema.default is not None:
            made["default"] = json.loads(self._written(schema, schema.default))
        return made

    def _base(self, schema: Schema) -> dict[str, Any]:
        found: dict[str, Any]
        match schema.type:
            case Type.BOOLEAN:
                found = {"type": "boolean"}
            case Type.STRING if ENUM in schema.parameters:
                found = {"enum": _symbols(schema)}
            case Type.STRING:
                found = {"type": "string"}
            case Type.BYTES:
                is_number = (
                    schema.name == schemas.DECIMAL
                    and self._settings.decimal_format.upper() == NUMERIC
                )
                found = {"type": "number" if is_number else "string", "connect.type": "bytes"}
            case Type.ARRAY:
                found = {"type": "array", "items": self._of(schema.elements)}
            case Type.MAP:
                found = self._map(schema)
            case Type.STRUCT:
                found = self._struct(schema)
            case _:
                kind, connect_type = CONNECT_TYPES[schema.type]
                found = {"type": kind, "connect.type": connect_type}
        return found

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.key is not None
        if schema.key.type is Type.STRING and not schema.key.is_optional:
            item = self._of(schema.elements)
            return {"type": "object", "connect.type": "map", "additionalProperties": item}
        properties = {"key": self._of(schema.key, 0), "value": self._of(schema.elements, 1)}
        items = {"type": "object", "properties": properties}
        return {"type": "array", "connect.type": "map", "items": items}

    def _struct(self, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {
            "type": "object",
            "properties": {
                part.name: self._of(part.schema, number)
                for number, part in enumerate(schema.fields)
            },
        }
        if not self._settings.object_additional_properties:
            made["additionalProperties"] = False
        return made


def _symbols(schema: Schema) -> list[str | None]:
    prefix = f"{ENUM}."
    found = [name.removeprefix(prefix) for name in schema.parameters if name.startswith(prefix)]
    if not found:
        raise DataError("the schema of an enum names no symbols")
    return [None if symbol == NULL_SYMBOL else symbol for symbol in found]
