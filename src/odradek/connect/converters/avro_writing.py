"""Values of Connect as our Avro codec takes them.

For each schema a function is made once, which converts and checks its values. Logical types become
what stands for them in Avro; the codec takes both.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.connect.converters.avro_names import (
    ANYTHING,
    LOGICAL,
    MAP_ENTRY,
    AvroConverterSettings,
)
from odradek.connect.converters.avro_schemas import (
    AvroSchemas,
    has_text_keys,
    is_union,
    raw_logical,
)
from odradek.connect.data import values
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError

Convert = Callable[[Any], Any]

_NAMES: Final = ("boolean", "bytes", "double", "float", "int", "long", "string")
ANYTHING_SCHEMA: Final = {
    "type": "record",
    "name": "Anything",
    "namespace": ANYTHING.rpartition(".")[0],
    "fields": [
        *({"name": name, "type": ["null", name], "default": None} for name in _NAMES),
        {
            "name": "array",
            "type": ["null", {"type": "array", "items": "Anything"}],
            "default": None,
        },
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY,
                        "fields": [
                            {"name": "key", "type": "Anything"},
                            {"name": "value", "type": "Anything"},
                        ],
                    },
                },
            ],
            "default": None,
        },
    ],
}
"""The schema of values that have none: a record in which the field of the value's type is set."""


def avro_text(schema: Schema | None, settings: AvroConverterSettings) -> str:
    made = ANYTHING_SCHEMA if schema is None else AvroSchemas(settings).of(schema)
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def writer(schema: Schema | None, settings: AvroConverterSettings) -> Convert:
    return anything if schema is None else _Writers(settings).of(schema)


def anything(value: Any) -> dict[str, Any]:
    """Returns a value without a schema."""
    found: dict[str, Any]
    match value:
        case None:
            found = {}
        case bool():
            found = {"boolean": value}
        case bytes() | bytearray() | memoryview():
            found = {"bytes": bytes(value)}
        case float():
            found = {"double": value}
        case int():
            found = {"long": value}
        case str():
            found = {"string": value}
        case Mapping():
            entries = [
                {"key": anything(key), "value": anything(item)} for key, item in value.items()
            ]
            found = {"map": entries}
        case list() | tuple():
            found = {"array": [anything(item) for item in value]}
        case _:
            raise DataError(f"{type(value).__name__} without a schema cannot be Avro")
    return found


class _Writers:
    def __init__(self, settings: AvroConverterSettings) -> None:
        self._settings = settings
        # Only the parts of the schema as it is written know their names.
        self._schemas = AvroSchemas(settings)

    def of(self, schema: Schema) -> Convert:
        convert = self._without_null(schema)
        default = None if self._settings.ignore_default_for_nullables else schema.default
        is_optional = schema.is_optional

        def write(value: Any) -> Any:
            if value is None:
                value = default
                if value is None:
                    if is_optional:
                        return None
                    raise DataError("a value is null, and its schema does not allow that")
            return convert(value)

        return write

    def _without_null(self, schema: Schema) -> Convert:
        if not schema.type.is_primitive:
            return self._with_parts(schema)
        if schema.name in LOGICAL:
            return lambda value: _logical(schema, value)
        if schema.type in INTEGERS:
            return _integer(schema)
        if schema.type is Type.BYTES:
            return lambda value: bytes(_checked(schema, value))
        return lambda value: _checked(schema, value)

    def _with_parts(self, schema: Schema) -> Convert:
        if schema.type is Type.STRUCT:
            return self._union(schema) if is_union(schema) else self._struct(schema)
        return self._array(schema) if schema.type is Type.ARRAY else self._map(schema)

    def _struct(self, schema: Schema) -> Convert:
        scrub = self._schemas.scrubbed_name
        parts = [(part.name, scrub(part.name), self.of(part.schema)) for part in schema.fields]

        def write(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise DataError(f"a struct is needed, and this is {type(value).__name__}")
            written = {}
            for name, own, convert in parts:
                try:
                    written[own] = convert(value.get(name))
                except DataError as error:
                    raise DataError(f"field {name}: {error}") from None
            return written

        return write

    def _union(self, schema: Schema) -> Convert:
        """A union is a struct whose fields are its members, of which one is set. The codec is told
        which record it is; for other types it finds out."""
        parts = [
            (part.name, self._union_member(part.schema), self._without_null(part.schema))
            for part in schema.fields
        ]

        def write(value: Any) -> Any:
            for name, record, convert in parts:
                found = value.get(name) if isinstance(value, Mapping) else None
                if found is not None:
                    written = convert(found)
                    return written if record is None else (record, written)
            if schema.is_optional:
                return None
            raise DataError("no field of a union is set")

        return write

    def _union_member(self, schema: Schema) -> str | None:
        if schema.type is not Type.STRUCT or schema.name is None:
            return None
        space, name = self._schemas.split(schema.name)
        return name if space is None else f"{space}.{name}"

    def _array(self, schema: Schema) -> Convert:
        convert = self.of(schema.elements)

        def write(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                raise DataError(f"an array is needed, and this is {type(value).__name__}")
            return [convert(element) for element in value]

        return write

    def _map(self, schema: Schema) -> Convert:
        assert schema.key is not None
        of_key, of_item = self.of(schema.key), self.of(schema.elements)
        is_text = has_text_keys(schema, self._settings)

        def write(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise DataError(f"a map is needed, and this is {type(value).__name__}")
            if is_text:
                return {of_key(key): of_item(item) for key, item in value.items()}
            return [{"key": of_key(key), "value": of_item(item)} for key, item in value.items()]

        return write


def _logical(schema: Schema, value: Any) -> Any:
    values.check(schema, value)
    return raw_logical(schema, value)


def _checked(schema: Schema, value: Any) -> Any:
    values.check(schema, value)
    return value


def _integer(schema: Schema) -> Convert:
    limit = 1 << INTEGERS[schema.type] - 1

    def write(value: Any) -> Any:
        if value.__class__ is int and -limit <= value < limit:
            return value
        return _checked(schema, value)

    return write
