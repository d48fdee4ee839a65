"""Converts Connect's schemas to Protobuf schemas, and values to what our Protobuf codec takes.

A struct is a message, and nested structs are nested messages. A key or value that is not a struct
is one of Google's wrappers, such as StringValue. Arrays of arrays, and arrays or maps as a whole
key or value, cannot be written in Protobuf.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

from odradek.connect.converters.avro_names import scrubbed
from odradek.connect.converters.protobuf_names import (
    DEFAULT_NAME,
    ENUM,
    FILES,
    LOGICAL,
    META,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPER,
    WRAPPERS,
    WRAPPERS_FILE,
    ProtobufConverterSettings,
)
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError

Convert = Callable[[Any], Any]

SCALARS: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_NARROW: Final = {Type.INT8: "int8", Type.INT16: "int16"}


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (schema.name or "").startswith(UNION)


@dataclass
class _Message:
    """A message as it is written: its lines, and the names of the types within it."""

    lines: list[str] = field(default_factory=list)
    types: dict[str, Schema] = field(default_factory=dict)
    used_tags: set[int] = field(default_factory=set)
    next_tag: int = 1


class ProtobufText:
    """Writes the `.proto` text of one schema. `message` is the full name of its message."""

    def __init__(self, schema: Schema, settings: ProtobufConverterSettings) -> None:
        self._settings = settings
        self._imports: set[str] = set()
        self._unnamed = 0
        if schema.type is not Type.STRUCT:
            self.message = _wrapper_of(schema)
            self.text = _WRAPPERS_TEXT
            self.is_wrapper = True
            return
        self.is_wrapper = False
        self._unnamed = int(schema.name is None)
        full = schema.name or f"{DEFAULT_NAME}1"
        parts = [self._scrubbed(part) for part in full.split(".")]
        package, name = ".".join(parts[:-1]), parts[-1]
        self.message = ".".join(parts)
        body = self._message(name, schema)
        head = ['syntax = "proto3";']
        if package:
            head.append(f"package {package};")
        imports = [f'import "{name}";' for name in sorted(self._imports)]
        self.text = "\n".join([*head, "", *imports, *([""] if imports else []), *body]) + "\n"

    def _message(self, name: str, schema: Schema) -> list[str]:
        made = _Message()
        for part in schema.fields:
            tag = part.schema.parameters.get(TAG)
            if tag is not None:
                made.used_tags.add(int(tag))
        for part in schema.fields:
            if is_union(part.schema):
                self._one_of(part.name, part.schema, made)
            else:
                made.lines.append(self._field(part.name, part.schema, made))
        return [f"message {name} {{", *(f"  {line}" for line in made.lines), "}"]

    def _one_of(self, field_name: str, schema: Schema, made: _Message) -> None:
        name = (schema.name or "").removeprefix(f"{UNION}.").rpartition(".")[2] or field_name
        lines = [
            f"  {self._field(part.name, part.schema, made, is_member=True)}"
            for part in schema.fields
        ]
        made.lines += [f"oneof {self._scrubbed(name)} {{", *lines, "}"]

    def _field(self, name: str, schema: Schema, made: _Message, *, is_member: bool = False) -> str:
        own = self._scrubbed(name)
        label, of = "", schema
        if schema.type is Type.ARRAY:
            label, of = "repeated ", schema.elements
            if of.type in {Type.ARRAY, Type.MAP}:
                raise DataError(f"field {name}: Protobuf has no arrays of {of.type}s")
        elif self._settings.optional_for_nullables and schema.is_optional and not is_member:
            label = "" if schema.type is Type.MAP else "optional "
        params: dict[str, str] = {}
        if of.type is Type.MAP:
            kind = self._map(own, of, made)
        else:
            kind = self._type(own, of, made, params, is_member=is_member)
        options = ""
        if params:
            self._imports.add(META)
            pairs = ", ".join(
                f'{{key: "{key}", value: "{value}"}}' for key, value in params.items()
            )
            options = f" [(confluent.field_meta) = {{params: [{pairs}]}}]"
        return f"{label}{kind} {own} = {self._tag(schema, made)}{options};"

    @staticmethod
    def _tag(schema: Schema, made: _Message) -> int:
        given = schema.parameters.get(TAG)
        if given is not None:
            return int(given)
        while made.next_tag in made.used_tags:
            made.next_tag += 1
        made.used_tags.add(made.next_tag)
        return made.next_tag

    def _type(
        self,
        name: str,
        schema: Schema,
        made: _Message,
        params: dict[str, str],
        *,
        is_member: bool = False,
    ) -> str:
        logical = LOGICAL.get(schema.name or "")
        if logical is not None:
            self._imports.add(FILES[logical])
            if schema.name == schemas.DECIMAL:
                precision = schema.parameters.get(PRECISION)
                if precision is not None:
                    params["precision"] = precision
                params["scale"] = str(schema.scale)
            return logical
        if schema.type is Type.STRUCT:
            return self._nested(name, schema, made)
        if ENUM in schema.parameters:
            return self._enum(schema, made)
        narrow = _NARROW.get(schema.type)
        if narrow is not None:
            params["connect.type"] = narrow
        kind = schema.parameters.get(TYPE) or SCALARS[schema.type]
        if wraps(schema, self._settings, is_member=is_member):
            self._imports.add(WRAPPERS_FILE)
            return _wrapper(kind)
        return kind

    def _nested(self, field_name: str, schema: Schema, made: _Message) -> str:
        name = self._unqualified(schema.name)
        if name == field_name:
            name += "Message"
        known = made.types.get(name)
        bare = _without_place(schema)
        if known is None:
            made.types[name] = bare
            made.lines += self._message(name, schema)
        elif known != bare:
            raise DataError(f"two different structs in one have the name {name}")
        return name

    def _map(self, name: str, schema: Schema, made: _Message) -> str:
        assert schema.key is not None
        if schema.key.type not in {*_KEYS}:
            raise DataError(
                f"field {name}: Protobuf has no maps with keys of type {schema.key.type}"
            )
        if schema.elements.type in {Type.ARRAY, Type.MAP}:
            raise DataError(f"field {name}: Protobuf has no maps of {schema.elements.type}s")
        key = schema.key.parameters.get(TYPE) or SCALARS[schema.key.type]
        return f"map<{key}, {self._type(name, schema.elements, made, {}, is_member=True)}>"

    def _enum(self, schema: Schema, made: _Message) -> str:
        name = self._unqualified(schema.name or schema.parameters[ENUM])
        if name not in made.types:
            made.types[name] = schema
            symbols = sorted(_symbols(schema).items(), key=lambda pair: pair[1] != 0)
            lines = [f"  {symbol} = {number};" for symbol, number in symbols]
            made.lines += [f"enum {name} {{", *lines, "}"]
        return name

    def _unqualified(self, name: str | None) -> str:
        if not name:
            self._unnamed += 1
            name = f"{DEFAULT_NAME}{self._unnamed}"
        return self._scrubbed(name.rpartition(".")[2])

    def _scrubbed(self, name: str) -> str:
        return scrubbed(name) if self._settings.scrub_invalid_names else name


_KEYS: Final = (Type.STRING, Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN)


def wraps(schema: Schema, settings: ProtobufConverterSettings, *, is_member: bool) -> bool:
    """Whether a value is in one of Google's wrappers. A member of a oneof may be null anyway."""
    if not settings.wrapper_for_nullables or not schema.is_optional:
        return False
    return not is_member or schema.parameters.get(WRAPPER) == "true"


def _wrapper(kind: str) -> str:
    """Returns the wrapper of a scalar type. There is one for each width, not for each encoding."""
    found = WRAPPERS.get(kind)
    if found is not None:
        return found
    is_unsigned = kind.startswith("fixed")
    return WRAPPERS[f"{'uint' if is_unsigned else 'int'}{kind[-2:]}"]


def _wrapper_of(schema: Schema) -> str:
    if schema.type in {Type.ARRAY, Type.MAP}:
        raise DataError(f"Protobuf has no {schema.type} that is a whole key or value")
    return _wrapper(SCALARS[schema.type])


def _without_place(schema: Schema) -> Schema:
    """Returns a struct as it is for every field that has it."""
    return Schema(Type.STRUCT, name=schema.name, fields=schema.fields)


def _symbols(schema: Schema) -> dict[str, int]:
    prefix = f"{ENUM}."
    return {
        name.removeprefix(prefix): int(number)
        for name, number in schema.parameters.items()
        if name.startswith(prefix)
    }


_WRAPPERS_TEXT: Final = (
    'syntax = "proto3";\npackage google.protobuf;\n\n'
    + "\n".join(
        f"message {name.rpartition('.')[2]} {{\n  {kind} value = 1;\n}}"
        for kind, name in WRAPPERS.items()
    )
    + "\n"
)


# Values


class ProtobufValues:
    """Makes the functions that convert values of a schema for the codec."""

    def __init__(self, settings: ProtobufConverterSettings) -> None:
        self._settings = settings

    def writer(self, schema: Schema) -> Convert:
        """Returns the function for whole keys or values."""
        convert = self._of(schema)
        if schema.type is Type.STRUCT:
            return convert
        return lambda value: {"value": convert(value)}

    def _of(self, schema: Schema, *, is_member: bool = False) -> Convert:
        convert = self._without_null(schema)
        default = None if self._settings.ignore_default_for_nullables else schema.default
        is_wrapped = SCALARS.get(schema.type) is not None and (
            schema.name not in LOGICAL
            and ENUM not in schema.parameters
            and wraps(schema, self._settings, is_member=is_member)
        )

        def write(value: Any) -> Any:
            if value is None:
                value = default
                if value is None:
                    if schema.is_optional:
                        return None
                    raise DataError("a value is null, and its schema does not allow that")
            return {"value": convert(value)} if is_wrapped else convert(value)

        return write

    def _without_null(self, schema: Schema) -> Convert:
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                of_item = self._of(schema.elements, is_member=False)
                return lambda value: [of_item(element) for element in value]
            case Type.MAP:
                assert schema.key is not None
                of_key = self._of(schema.key, is_member=True)
                of_value = self._of(schema.elements, is_member=True)
                return lambda value: {of_key(key): of_value(item) for key, item in value.items()}
        to_message = _MESSAGES.get(schema.name or "")

        def write(value: Any) -> Any:
            values.check(schema, value)
            if to_message is not None:
                return to_message(schema, value)
            return bytes(value) if schema.type is Type.BYTES else value

        return write

    def _struct(self, schema: Schema) -> Convert:
        parts = [
            (part.name, self._name(part.name), self._of(part.schema), is_union(part.schema))
            for part in schema.fields
        ]
        members = is_union(schema)
        if members:
            parts = [
                (part.name, self._name(part.name), self._of(part.schema, is_member=True), False)
                for part in schema.fields
            ]

        def write(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise DataError(f"a struct is needed, and this is {type(value).__name__}")
            written: dict[str, Any] = {}
            for name, own, convert, is_one_of in parts:
                try:
                    found = convert(value.get(name))
                except DataError as error:
                    raise DataError(f"field {name}: {error}") from None
                if is_one_of:
                    written |= found or {}
                elif found is not None:
                    written[own] = found
            return written

        return write

    def _name(self, name: str) -> str:
        return scrubbed(name) if self._settings.scrub_invalid_names else name


def _decimal(schema: Schema, value: Any) -> dict[str, Any]:
    scale = values.decimal_scale(value)
    precision = max(len(value.as_tuple().digits), 1)
    unscaled = values.decimal_to_bytes(value, scale)
    return {"value": unscaled, "precision": precision, "scale": scale}


def _date(_: Schema, value: Any) -> dict[str, Any]:
    return {"year": value.year, "month": value.month, "day": value.day}


def _time(_: Schema, value: Any) -> dict[str, Any]:
    nanos = value.microsecond // 1000 * 1_000_000
    return {
        "hours": value.hour, "minutes": value.minute, "seconds": value.second, "nanos": nanos,
    }  # fmt: skip


def _timestamp(_: Schema, value: Any) -> Any:
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


_MESSAGES: Final = {
    schemas.DECIMAL: _decimal,
    schemas.DATE: _date,
    schemas.TIME: _time,
    schemas.TIMESTAMP: _timestamp,
}
