"""Avro schemas of Connect's schemas, as Confluent's AvroConverter makes them, text for text.

The same text is the same schema to a registry, so a topic can change from one converter to the
other and back without new versions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.connect.converters.avro_names import (
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    INTERNAL_TYPE,
    LOGICAL,
    MAP_ENTRY,
    NAMESPACE,
    OWN_PROPERTIES,
    PRECISION,
    RECORD_DOC,
    UNION,
    AvroConverterSettings,
    scrubbed,
)
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError

# The Avro type of each primitive type.
PRIMITIVES: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_NARROW: Final = {Type.INT8: "int8", Type.INT16: "int16"}


def is_union(schema: Schema) -> bool:
    return schema.name == UNION


def is_fixed(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in schema.parameters


def has_text_keys(schema: Schema, settings: AvroConverterSettings) -> bool:
    """Whether a map is a map in Avro too, and not a list of entries."""
    key = schema.key
    assert key is not None
    return key.type is Type.STRING and (not key.is_optional or settings.allow_optional_map_keys)


class AvroSchemas:
    """Makes the Avro schema of one schema: an object for each, because it remembers the names that
    stand in it."""

    def __init__(self, settings: AvroConverterSettings) -> None:
        self._settings = settings
        self._named: dict[str, Schema] = {}
        self._unnamed = 0

    def of(self, schema: Schema, space: str | None = None) -> Any:
        """Returns the Avro schema, as an object for JSON. `space` is the namespace around it."""
        base = self._base(schema, space)
        if not schema.is_optional or is_union(schema):
            return base
        is_first = schema.default is not None and schema.type is not Type.STRUCT
        return [base, "null"] if is_first else ["null", base]

    def _base(self, schema: Schema, space: str | None) -> Any:
        match schema.type:
            case Type.STRUCT if is_union(schema):
                members: list[Any] = ["null"] if schema.is_optional else []
                for part in schema.fields:
                    members.append(self._base(part.schema, space))
                return members
            case Type.STRUCT:
                return self._record(schema, space)
            case Type.ARRAY:
                made = {"type": "array", "items": self.of(schema.elements, space)}
            case Type.MAP if has_text_keys(schema, self._settings):
                made = {"type": "map", "values": self.of(schema.elements, space)}
            case Type.MAP:
                made = {"type": "array", "items": self._entry(schema, space)}
            case Type.STRING if self._is_enum(schema):
                return self._enum(schema, space)
            case Type.BYTES if is_fixed(schema):
                return self._fixed(schema, space)
            case _:
                made = {"type": PRIMITIVES[schema.type]}
        made |= self._properties(schema)
        return made["type"] if len(made) == 1 else made

    # Types with names

    def _record(self, schema: Schema, space: str | None) -> Any:
        schema = replace(schema, is_optional=False)
        name, own_space, known = self._name(schema, space)
        if known is not None:
            return known
        made = {"type": "record", **_named(name, own_space, space)}
        doc = schema.parameters.get(RECORD_DOC)
        if doc is not None:
            made["doc"] = doc
        made["fields"] = [
            self._field(part.name, part.schema, schema.parameters, own_space)
            for part in schema.fields
        ]
        return made | self._properties(schema)

    def _field(
        self, name: str, schema: Schema, of_parent: Mapping[str, str], space: str | None
    ) -> dict[str, Any]:
        made = {"name": self.scrubbed_name(name), "type": self.of(schema, space)}
        doc = of_parent.get(f"{FIELD_DOC}{name}")
        if doc is not None:
            made["doc"] = doc
        if schema.default is not None:
            # The default of a struct that may be null would not fit: null comes first there.
            if not (schema.type is Type.STRUCT and schema.is_optional):
                made["default"] = self._default(schema, schema.default)
        elif schema.is_optional:
            made["default"] = None
        return made

    def _entry(self, schema: Schema, space: str | None) -> Any:
        """A map whose keys are no text is a list of records with a key and a value."""
        assert schema.key is not None
        own_space: str | None = NAMESPACE
        if schema.name is None:
            name, extra = MAP_ENTRY, {}
        else:
            own_space, name = self.split(schema.name)
            extra = {INTERNAL_TYPE: MAP_ENTRY}
        fields = [
            self._field("key", schema.key, {}, own_space),
            self._field("value", schema.elements, {}, own_space),
        ]
        return {"type": "record", **_named(name, own_space, space), "fields": fields, **extra}

    def _is_enum(self, schema: Schema) -> bool:
        return self._settings.enhanced_avro_schema_support and ENUM in schema.parameters

    def _enum(self, schema: Schema, space: str | None) -> Any:
        full = schema.parameters[ENUM]
        own_space, name = self.split(full)
        if full in self._named:
            return _reference(name, own_space, space)
        self._named[full] = schema
        made = {"type": "enum", **_named(name, own_space, space)}
        doc = schema.parameters.get(f"{ENUM_DOC}{name}")
        if doc is not None:
            made["doc"] = doc
        prefix = f"{ENUM}."
        made["symbols"] = [
            parameter.removeprefix(prefix)
            for parameter in schema.parameters
            if parameter.startswith(prefix)
        ]
        default = schema.parameters.get(f"{ENUM_DEFAULT}{name}")
        if default is not None:
            made["default"] = default
        return made | self._properties(schema)

    def _fixed(self, schema: Schema, space: str | None) -> Any:
        name, own_space, known = self._name(replace(schema, is_optional=False), space)
        if known is not None:
            return known
        made = {"type": "fixed", **_named(name, own_space, space)}
        made["size"] = int(schema.parameters[FIXED_SIZE])
        return made | self._properties(schema)

    def _name(self, schema: Schema, space: str | None) -> tuple[str, str | None, str | None]:
        """Returns name and namespace of a record or fixed, and if the same one stands in the schema
        already, how it is referred to."""
        if schema.name is None:
            known = next((full for full, found in self._named.items() if found == schema), None)
            if known is not None:
                return "", None, _reference(known.rpartition(".")[2], NAMESPACE, space)
            self._unnamed += 1
            name = DEFAULT_NAME if self._unnamed == 1 else f"{DEFAULT_NAME}{self._unnamed}"
            self._named[f"{NAMESPACE}.{name}"] = schema
            return name, NAMESPACE, None
        own_space, name = self.split(schema.name)
        known_schema = self._named.get(schema.name)
        if known_schema is None:
            self._named[schema.name] = schema
            return name, own_space, None
        if known_schema != schema:
            raise DataError(f"two different schemas in one have the name {schema.name}")
        return name, own_space, _reference(name, own_space, space)

    def split(self, full: str) -> tuple[str | None, str]:
        parts = [self.scrubbed_name(part) for part in full.split(".")]
        return ".".join(parts[:-1]) or None, parts[-1]

    def scrubbed_name(self, name: str) -> str:
        return scrubbed(name) if self._settings.scrub_invalid_names else name

    # Properties

    def _properties(self, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {}
        is_decimal = schema.name == schemas.DECIMAL
        precision = int(schema.parameters.get(PRECISION, DEFAULT_PRECISION))
        if is_decimal:
            made = {"scale": schema.scale, "precision": precision}
        if self._settings.connect_meta_data:
            made |= self._meta_data(schema)
        logical = LOGICAL.get(schema.name or "")
        if logical is not None:
            made["logicalType"] = logical
        for name, text in schema.parameters.items():
            if name.startswith(OWN_PROPERTIES):
                made[name] = text
        return made

    def _meta_data(self, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if schema.doc is not None:
            made["connect.doc"] = schema.doc
        if schema.version is not None:
            made["connect.version"] = schema.version
        parameters = {
            name: text for name, text in schema.parameters.items() if name != FIELD_DEFAULT
        }
        if parameters:
            made["connect.parameters"] = parameters
        if schema.default is not None and FIELD_DEFAULT not in schema.parameters:
            made["connect.default"] = self._default(schema, schema.default)
        if schema.name is not None:
            made["connect.name"] = schema.name
        narrow = _NARROW.get(schema.type)
        if narrow is not None:
            made["connect.type"] = narrow
        return made

    def _default(self, schema: Schema, value: Any) -> Any:
        """Returns a default as Avro schemas write it."""
        if value is None:
            return None
        value = raw_logical(schema, value)
        found: Any
        match schema.type:
            case Type.BYTES:
                found = bytes(value).decode("latin-1")
            case Type.ARRAY:
                found = [self._default(schema.elements, element) for element in value]
            case Type.MAP if has_text_keys(schema, self._settings):
                found = {key: self._default(schema.elements, item) for key, item in value.items()}
            case Type.MAP:
                assert schema.key is not None
                found = [
                    [self._default(schema.key, key), self._default(schema.elements, item)]
                    for key, item in value.items()
                ]
            case Type.STRUCT if is_union(schema):
                first = schema.fields[0]
                found = self._default(first.schema, value.get(first.name))
            case Type.STRUCT:
                found = {
                    self.scrubbed_name(part.name): self._default(part.schema, value.get(part.name))
                    for part in schema.fields
                }
            case _:
                found = value
        return found


def raw_logical(schema: Schema, value: Any) -> Any:
    """Returns what stands in Avro for a value of a logical type; other values are as they are."""
    match schema.name:
        case schemas.DECIMAL:
            return values.decimal_to_bytes(value, schema.scale)
        case schemas.DATE:
            return values.date_to_days(value)
        case schemas.TIME:
            return values.time_to_ms(value)
        case schemas.TIMESTAMP:
            return values.timestamp_to_ms(value)
    return value


def _named(name: str, own_space: str | None, space: str | None) -> dict[str, Any]:
    """Returns name and namespace as they are written: a namespace that is already around is not."""
    if own_space == space:
        return {"name": name}
    return {"name": name, "namespace": own_space or ""}


def _reference(name: str, own_space: str | None, space: str | None) -> str:
    return name if own_space is None or own_space == space else f"{own_space}.{name}"
