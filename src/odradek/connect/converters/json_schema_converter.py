"""JSON with a schema registry: `io.confluent.connect.json.JsonSchemaConverter`."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from odradek.connect.converters.json_converter import JsonConverter, Number, Write
from odradek.connect.converters.json_schema_reading import ConnectSchemas
from odradek.connect.converters.json_schema_writing import (
    JsonSchemaConverterSettings,
    JsonSchemas,
    is_union,
)
from odradek.connect.converters.registry_converter import Format, Reading, Writing
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError
from odradek.schemas.json_schema import JsonCodec
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.json_schema import JSONSerializer
from odradek.schemas.serializers.serializer import Write as WriteValue


class JsonSchema(Format):
    kind: ClassVar[SchemaType] = "JSON"
    # Confluent's converter does not check values unless it is told to.
    conf: ClassVar[Mapping[str, object]] = {"json.fail.invalid.schema": "false"}

    def __init__(self, settings: JsonSchemaConverterSettings) -> None:
        self._settings = settings
        self._values = _Values(
            has_schemas=False,
            decimal_format=settings.decimal_format,
            replaces_null=not settings.ignore_default_for_nullables,
        )

    def writing(
        self, schema: Schema | None, client: RegistryClient, conf: Mapping[str, object]
    ) -> Writing:
        if schema is None:
            raise DataError(
                "the value has no schema, and JSON Schema needs one: use"
                " org.apache.kafka.connect.json.JsonConverter with schemas.enable=false"
            )
        text = JsonSchemas(self._settings, self._values.written).text(schema)
        written = self._values.written
        return Writing(
            _TextSerializer(text, client, conf=conf), lambda value: written(schema, value)
        )

    def reading(self, known: KnownSchema, path: tuple[int, ...]) -> Reading:
        codec = JsonCodec(known.text, known.imports)
        imports = {name: json.loads(text) for name, text in known.imports}
        read = self._values.read
        schema = ConnectSchemas(codec.schema, imports, self._settings, read).schema()
        return Reading(schema, _reader(schema, read), codec.title)


def _reader(schema: Schema, read: Callable[[Schema, Any], Any]) -> Callable[[bytes, int], Any]:
    def decode(data: bytes, start: int) -> Any:
        try:
            found = json.loads(data[start:], parse_float=Number)
        except (ValueError, RecursionError) as error:
            raise DataError(f"this is not JSON: {error}") from None
        return read(schema, found)

    return decode


class _TextSerializer(JSONSerializer):
    """Takes values that are JSON text already."""

    def _encoder(self, codec: JsonCodec, prefix: bytes) -> WriteValue:
        validates, check = self.settings.validate, codec.check

        def write(text: str, _: Any) -> bytes:
            if validates:
                check(json.loads(text))
            return prefix + text.encode("utf-8", "surrogatepass")

        return write


class _Values(JsonConverter):
    """Values as JsonConverter writes them, but for maps with keys that are no text, which are lists
    of objects with a key and a value, and for unions, which are the value of their one field."""

    def written(self, schema: Schema, value: Any) -> str:
        return self._written(schema, value)

    def read(self, schema: Schema, found: Any) -> Any:
        return self._read(schema, found)

    def _writer_of_values(self, schema: Schema) -> Write:
        if not is_union(schema):
            return super()._writer_of_values(schema)
        parts = [(part.name, self._make_writer(part.schema)) for part in schema.fields]

        def write(value: Any) -> str:
            for name, written in parts:
                found = value.get(name) if isinstance(value, Mapping) else None
                if found is not None:
                    return written(found)
            raise DataError("no field of a union is set")

        return write

    def _pair(self, key: str, item: str) -> str:
        return f'{{"key":{key},"value":{item}}}'

    def _read_by_type(self, schema: Schema, found: Any) -> Any:
        if schema.type is not Type.STRUCT:
            return super()._read_by_type(schema, found)
        if is_union(schema):
            return self._read_union(schema, found)
        if not isinstance(found, dict):
            raise DataError("a struct is an object in JSON")
        return {
            part.name: self._read(part.schema, found[part.name])
            if part.name in found
            else part.schema.default
            for part in schema.fields
        }

    def _read_union(self, schema: Schema, found: Any) -> Any:
        """A union's value says its type by itself; of several structs, the one that has most of
        the fields is meant."""
        best, most = None, 0
        for part in schema.fields:
            if _is_of(part.schema, found):
                best = part
                break
            matching = _matching_fields(part.schema, found)
            if matching > most:
                best, most = part, matching
        if best is None:
            raise DataError("no type of a union fits the value")
        return {best.name: self._read(best.schema, found)}

    def _read_map(self, schema: Schema, found: Any) -> dict[Any, Any]:
        assert schema.key is not None
        if isinstance(found, list) and all(
            isinstance(pair, dict) and pair.keys() == {"key", "value"} for pair in found
        ):
            found = [[pair["key"], pair["value"]] for pair in found]
        return super()._read_map(schema, found)


_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_TYPES_OF: Final[dict[type, frozenset[Type]]] = {
    bool: frozenset({Type.BOOLEAN}),
    int: _FLOATS | INTEGERS.keys(),
    Number: _FLOATS | {Type.BYTES},
    str: frozenset({Type.STRING, Type.BYTES}),
    list: frozenset({Type.ARRAY, Type.MAP}),
    dict: frozenset({Type.MAP}),
}


def _is_of(schema: Schema, found: Any) -> bool:
    return schema.type in _TYPES_OF.get(found.__class__, frozenset())


def _matching_fields(schema: Schema, found: Any) -> int:
    if schema.type is not Type.STRUCT or not isinstance(found, dict):
        return 0
    return sum(
        1 + _matching_fields(part.schema, found[part.name])
        for part in schema.fields
        if part.name in found
    )
