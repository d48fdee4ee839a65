"""Avro schemas and values as Kafka Connect has them.

The schema's logical types are left to us: Connect knows four of them, and takes values of all
others, such as `timestamp-micros`, as the numbers that they are.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from odradek.connect.converters.avro_names import (
    ANYTHING,
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
)
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError
from odradek.schemas.avro import AvroCodec

_log = logging.getLogger("odradek.connect")
_LOGICAL_TYPE: Final = "connect:logicalType"
_TYPES: Final = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}
# Which Avro types a logical type may stand on.
_LOGICAL: Final = {
    ("decimal", "bytes"): schemas.DECIMAL,
    ("decimal", "fixed"): schemas.DECIMAL,
    ("date", "int"): schemas.DATE,
    ("time-millis", "int"): schemas.TIME,
    ("timestamp-millis", "long"): schemas.TIMESTAMP,
}
_CLASSES: Final = {
    "boolean": bool,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
    "array": list,
    "map": dict,
    "record": dict,
}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})

Convert = Callable[[Any], Any]


class ConnectCodec(AvroCodec):
    """A codec that leaves values of logical types as they stand in the payload, and says which
    record of a union a value is."""

    def __init__(self, text: str, imports: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(text, imports, names_records=True)

    def _prepared(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._prepared(member) for member in schema]
        if not isinstance(schema, dict):
            return schema
        kept = {
            _LOGICAL_TYPE if name == "logicalType" else name: part for name, part in schema.items()
        }
        for name in ("type", "items", "values"):
            if name in kept:
                kept[name] = self._prepared(kept[name])
        if isinstance(kept.get("fields"), list):
            kept["fields"] = [
                {**part, "type": self._prepared(part.get("type"))}
                if isinstance(part, dict)
                else part
                for part in kept["fields"]
            ]
        return kept

    @cached_property
    def is_bytes(self) -> bool:
        """Whether values are plain bytes. A decimal number is none: its logical type is ours."""
        source = self.source
        is_logical = isinstance(source, dict) and _LOGICAL_TYPE in source
        return super().is_bytes and not is_logical

    def named(self, name: str) -> Any:
        return self._named[name]


class AvroReader:
    """Reads payloads of one Avro schema. `schema` is None for values without one."""

    def __init__(
        self,
        text: str,
        imports: Iterable[tuple[str, str]],
        settings: AvroConverterSettings,
    ) -> None:
        self._codec = ConnectCodec(text, imports)
        self._settings = settings
        self._open: list[str] = []
        root = self._codec.schema
        self.record_name = self._codec.record_name
        self.schema: Schema | None = None
        self._convert: Convert = _anything
        if self.record_name != ANYTHING:
            self.schema = self._schema(root)
            self._convert = self._converter(root, self.schema)

    def read(self, data: bytes, start: int) -> Any:
        decoded = data[start:] if self._codec.is_bytes else self._codec.decode(data, start)
        return self._convert(decoded)

    # Schemas

    def _schema(self, avro: Any, default: Any = None, has_default: bool = False) -> Schema:
        """`default` is that of the field whose schema this is."""
        avro = self._resolved(avro)
        if isinstance(avro, list):
            return self._union(avro, default, has_default)
        name = avro.get("name") if avro["type"] in _NAMED else None
        if name is not None:
            if name in self._open:
                raise DataError(
                    f"Avro's record {name} contains itself: Connect has no recursive schemas"
                )
            self._open.append(name)
        made = self._base(avro)
        made = self._with_meta_data(made, avro)
        made = self._with_default(made, avro, default, has_default)
        if name is not None:
            self._open.pop()
        return made

    def _resolved(self, avro: Any) -> Any:
        """Returns a type as a list or a dict."""
        if isinstance(avro, str):
            return {"type": avro} if avro in _TYPES or avro == "null" else self._codec.named(avro)
        while isinstance(avro, dict) and isinstance(avro["type"], dict):
            avro = avro["type"]
        return avro

    def _union(self, avro: list[Any], default: Any, has_default: bool) -> Schema:
        rest = [member for member in avro if member != "null"]
        is_optional = len(rest) < len(avro)
        if len(rest) == 1 and (is_optional or self._settings.flatten_singleton_unions):
            found = self._schema(rest[0])
            return found.optional() if is_optional else found
        fields = []
        for member in rest:
            schema = self._schema(member)
            fields.append(Field(self._member_name(member), schema.optional()))
        if len({part.name for part in fields}) < len(fields):
            raise DataError(
                "two types of a union have the same name: set enhanced.avro.schema.support=true"
            )
        made = schemas.struct(*fields, name=UNION, is_optional=is_optional)
        if has_default and self._settings.connect_meta_data:
            made = replace(made, parameters={FIELD_DEFAULT: "true"})
        if has_default and default is not None:
            first = Field(fields[0].name, fields[0].schema)
            inner = self._read_default(rest[0], first.schema, default)
            made = replace(made, default={first.name: inner})
        return made

    def _member_name(self, member: Any) -> str:
        resolved = self._resolved(member)
        kind = str(resolved["type"])
        if kind not in _NAMED:
            return kind
        full = str(resolved["name"])
        return full if self._settings.enhanced_avro_schema_support else full.rpartition(".")[2]

    def _base(self, avro: Mapping[str, Any]) -> Schema:
        kind = avro["type"]
        if kind in {"record", "error"}:
            return self._record(avro)
        if kind == "map":
            return schemas.map_of(schemas.STRING, self._schema(avro["values"]))
        if kind == "array":
            return self._array(avro)
        if kind == "enum":
            return self._enum(avro)
        if kind == "null":
            raise DataError("a schema that is null alone cannot be read")
        logical = _LOGICAL.get((str(avro.get(_LOGICAL_TYPE)), kind))
        parameters: dict[str, str] = {}
        if logical == schemas.DECIMAL:
            parameters["scale"] = str(avro.get("scale", 0))
            precision = avro.get("precision")
            if precision is not None and precision != DEFAULT_PRECISION:
                parameters[PRECISION] = str(precision)
        if kind == "fixed":
            parameters[FIXED_SIZE] = str(avro["size"])
        narrow = _NARROW.get(str(avro.get("connect.type"))) if logical is None else None
        version = None if logical is None else 1
        return Schema(narrow or _TYPES[kind], name=logical, version=version, parameters=parameters)

    def _record(self, avro: Mapping[str, Any]) -> Schema:
        keeps = self._settings.connect_meta_data
        parameters: dict[str, str] = {}
        if keeps and avro.get("doc") is not None:
            parameters[RECORD_DOC] = avro["doc"]
        fields = []
        for part in avro["fields"]:
            if keeps and part.get("doc") is not None:
                parameters[f"{FIELD_DOC}{part['name']}"] = part["doc"]
            schema = self._schema(part["type"], part.get("default"), "default" in part)
            own = part.get("connect.parameters")
            if keeps and isinstance(own, dict):
                schema = replace(schema, parameters={**schema.parameters, **own})
            fields.append(Field(part["name"], schema))
        return Schema(Type.STRUCT, parameters=parameters, fields=tuple(fields))

    def _array(self, avro: Mapping[str, Any]) -> Schema:
        entry = self._entry(avro["items"])
        if entry is None:
            return schemas.array(self._schema(avro["items"]))
        types = {part["name"]: part["type"] for part in entry["fields"]}
        return schemas.map_of(self._schema(types["key"]), self._schema(types["value"]))

    def _entry(self, items: Any) -> Mapping[str, Any] | None:
        """Returns the record if an array is a map whose keys are no text."""
        found = self._resolved(items)
        if not isinstance(found, dict) or found["type"] != "record":
            return None
        is_entry = found["name"] == f"{NAMESPACE}.{MAP_ENTRY}"
        if is_entry or found.get(INTERNAL_TYPE) == MAP_ENTRY:
            return found
        return None

    def _enum(self, avro: Mapping[str, Any]) -> Schema:
        full = str(avro["name"])
        short = full.rpartition(".")[2]
        parameters: dict[str, str] = {}
        if self._settings.connect_meta_data:
            if avro.get("doc") is not None:
                parameters[f"{ENUM_DOC}{short}"] = avro["doc"]
            if avro.get("default") is not None:
                parameters[f"{ENUM_DEFAULT}{short}"] = avro["default"]
        parameters[ENUM] = full
        parameters |= {f"{ENUM}.{symbol}": symbol for symbol in avro["symbols"]}
        return Schema(Type.STRING, parameters=parameters)

    def _with_meta_data(self, made: Schema, avro: Mapping[str, Any]) -> Schema:
        keeps = self._settings.connect_meta_data
        version = avro.get("connect.version")
        parameters = dict(made.parameters)
        if keeps and isinstance(avro.get("connect.parameters"), dict):
            parameters |= {name: str(text) for name, text in avro["connect.parameters"].items()}
        parameters |= {
            name: str(text) for name, text in avro.items() if name.startswith(OWN_PROPERTIES)
        }
        name = avro.get("connect.name")
        if name is None and avro["type"] in _NAMED and made.name is None:
            name = avro["name"]
        if name is None or name.startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
            name = made.name
        return replace(
            made,
            name=name,
            version=made.version if version is None else int(version),
            doc=avro.get("connect.doc") if keeps else None,
            parameters=parameters,
        )

    def _with_default(
        self, made: Schema, avro: Mapping[str, Any], default: Any, has_default: bool
    ) -> Schema:
        own = avro.get("connect.default")
        given = default if has_default else own
        if has_default and own is None and self._settings.connect_meta_data:
            made = replace(made, parameters={**made.parameters, FIELD_DEFAULT: "true"})
        if given is None:
            return made
        try:
            return replace(made, default=self._read_default(avro, made, given))
        except (DataError, TypeError, ValueError, KeyError, AttributeError) as error:
            _log.warning("a default of an Avro schema does not fit and is left out: %s", error)
            return made

    # Values

    def _read_default(self, avro: Any, schema: Schema, default: Any) -> Any:
        found = self._converter(avro, schema)(self._plain_default(avro, default))
        values.check(schema, found, "the default")
        return found

    def _plain_default(self, avro: Any, default: Any) -> Any:
        """Returns a default as the codec would decode it: bytes are text in schemas."""
        avro = self._resolved(avro)
        if isinstance(avro, list):
            return None if default is None else self._plain_default(avro[0], default)
        found: Any
        match avro["type"]:
            case "bytes" | "fixed" if isinstance(default, str):
                found = default.encode("latin-1", "replace")
            case "float" | "double" if isinstance(default, int):
                found = float(default)
            case "array" if isinstance(default, list):
                found = [self._plain_default(avro["items"], item) for item in default]
            case "map" if isinstance(default, dict):
                found = {
                    key: self._plain_default(avro["values"], item) for key, item in default.items()
                }
            case "record" if isinstance(default, dict):
                found = {
                    part["name"]: self._plain_default(
                        part["type"], default.get(part["name"], part.get("default"))
                    )
                    for part in avro["fields"]
                }
            case _:
                found = default
        return found

    def _converter(self, avro: Any, schema: Schema) -> Convert:
        avro = self._resolved(avro)
        if isinstance(avro, list):
            return self._union_converter(avro, schema)
        kind = avro["type"]
        if kind in {"record", "error"}:
            return self._record_converter(avro, schema)
        if kind == "map":
            convert = self._converter(avro["values"], schema.elements)
            return lambda value: {key: convert(item) for key, item in _dict(value).items()}
        if kind == "array":
            return self._array_converter(avro, schema)
        if schema.name in LOGICAL:
            return _from_logical(schema)
        return _as_it_is

    def _record_converter(self, avro: Mapping[str, Any], schema: Schema) -> Convert:
        parts = [
            (part["name"], self._converter(part["type"], field.schema))
            for part, field in zip(avro["fields"], schema.fields, strict=True)
        ]

        def read(value: Any) -> Any:
            if value.__class__ is tuple:
                value = value[1]
            found = _dict(value)
            return {name: convert(found.get(name)) for name, convert in parts}

        return read

    def _array_converter(self, avro: Mapping[str, Any], schema: Schema) -> Convert:
        entry = self._entry(avro["items"])
        if entry is None:
            convert = self._converter(avro["items"], schema.elements)
            return lambda value: [convert(element) for element in value]
        types = {part["name"]: part["type"] for part in entry["fields"]}
        assert schema.key is not None
        of_key = self._converter(types["key"], schema.key)
        of_item = self._converter(types["value"], schema.elements)

        def read(value: Any) -> Any:
            entries = (pair[1] if pair.__class__ is tuple else pair for pair in value)
            return {of_key(pair["key"]): of_item(pair["value"]) for pair in entries}

        return read

    def _union_converter(self, avro: list[Any], schema: Schema) -> Convert:
        rest = [member for member in avro if member != "null"]
        if schema.name != UNION:
            convert = self._converter(rest[0], schema)
            return lambda value: None if value is None else convert(value)
        members = [
            (part.name, self._resolved(member), self._converter(member, part.schema))
            for member, part in zip(rest, schema.fields, strict=True)
        ]

        def read(value: Any) -> Any:
            if value is None:
                return None
            for name, member, convert in members:
                if _is_of(member, value):
                    return {name: convert(value)}
            raise DataError("no type of a union fits the value")

        return read


def _is_of(avro: Mapping[str, Any], value: Any) -> bool:
    """Whether a decoded value of a union is of this type."""
    kind = str(avro["type"])
    if value.__class__ is tuple:
        return kind in _NAMED and bool(value[0] == avro["name"])
    if kind == "enum":
        return value in avro["symbols"]
    if kind == "fixed":
        return isinstance(value, bytes) and len(value) == avro["size"]
    if kind == "int":
        return value.__class__ is int and -(1 << 31) <= value < 1 << 31
    return value.__class__ is _CLASSES[kind]


def _as_it_is(value: Any) -> Any:
    # An enum or fixed of a union may come with its name.
    return value[1] if value.__class__ is tuple else value


def _from_logical(schema: Schema) -> Convert:
    match schema.name:
        case schemas.DECIMAL:
            scale = schema.scale
            return lambda value: values.bytes_to_decimal(value, scale)
        case schemas.DATE:
            return values.days_to_date
        case schemas.TIME:
            return values.ms_to_time
    return values.ms_to_timestamp


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"a record or map is needed, and this is {type(value).__name__}")
    return value


def _anything(value: Any) -> Any:
    """Returns a value that was written without a schema."""
    found = value[1] if value.__class__ is tuple else value
    for name, part in found.items():
        if part is None:
            continue
        if name == "array":
            return [_anything(element) for element in part]
        if name == "map":
            entries = [pair[1] if pair.__class__ is tuple else pair for pair in part]
            return {_anything(pair["key"]): _anything(pair["value"]) for pair in entries}
        return part
    return None
