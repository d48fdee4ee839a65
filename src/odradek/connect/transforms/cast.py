"""Cast: makes fields, or a whole key or value, values of another primitive type."""

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Final

from odradek.config.kinds import boolean, names
from odradek.config.setting import Importance
from odradek.connect.converters.primitives import java_string
from odradek.connect.data import values
from odradek.connect.data.schemas import INTEGERS, Field, Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.transform import R, Side, as_map, as_struct
from odradek.javatext.numbers import in_32_bits

_WHOLE: Final = None
_TYPES: Final = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
}


class CastSettings(PluginSettings):
    spec = names(
        "spec",
        REQUIRED,
        "The types: field:type for each field, as in id:int64,price:string; or one type for the "
        f"whole key or value. Types are {', '.join(_TYPES)}.",
        importance=Importance.HIGH,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        try:
            read_spec(self.spec)
        except InvalidConfig as error:
            return {"spec": [invalid("spec", ",".join(self.spec), str(error))]}
        return {}


def read_spec(spec: tuple[str, ...]) -> dict[str | None, Type]:
    """Returns the type of each field; that of a whole key or value has no name."""
    found: dict[str | None, Type] = {}
    for part in spec:
        field, colon, kind = part.rpartition(":")
        name = field if colon else _WHOLE
        if kind.lower() not in _TYPES:
            raise InvalidConfig(f"{kind!r} is not one of the types {', '.join(_TYPES)}")
        found[name] = _TYPES[kind.lower()]
    if not found:
        raise InvalidConfig("a type is needed, as in id:int64")
    if _WHOLE in found and len(found) > 1:
        raise InvalidConfig("a type for the whole cannot stand beside types of fields")
    return found


class Cast:
    settings_class: ClassVar = CastSettings

    def __init__(self, settings: CastSettings, side: Side) -> None:
        self._side = side
        self._types = read_spec(settings.spec)
        self._whole = self._types.get(_WHOLE)
        self._replaces_null = settings.replace_null_with_default
        self._schema = lru_cache(1000)(self._cast_schema)

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if value is None:
            return record
        if schema is None:
            return self._side.replaced(record, None, self._without_schema(value))
        if self._whole is not None:
            target = _converted(schema, self._whole)
            return self._side.replaced(record, target, cast_value(schema, value, self._whole))
        fields = as_struct(schema, value, "Cast")
        changed = {}
        for part in schema.fields:
            found = fields.get(part.name)
            if self._replaces_null:
                found = values.with_defaults(part.schema, found)
            kind = self._types.get(part.name)
            changed[part.name] = found if kind is None else cast_value(part.schema, found, kind)
        return self._side.replaced(record, self._schema(schema), changed)

    def _without_schema(self, value: Any) -> Any:
        if self._whole is not None:
            return cast_value(None, value, self._whole)
        changed = dict(as_map(value, "Cast"))
        for name, kind in self._types.items():
            assert name is not None
            changed[name] = cast_value(None, changed.get(name), kind)
        return changed

    def _cast_schema(self, schema: Schema) -> Schema:
        fields = tuple(
            Field(part.name, _converted(part.schema, self._types[part.name]))
            if part.name in self._types
            else part
            for part in schema.fields
        )
        return schema.with_fields(fields)


def _converted(schema: Schema, kind: Type) -> Schema:
    default = None
    if schema.default is not None:
        default = cast_value(schema, schema.default, kind)
    return Schema(kind, is_optional=schema.is_optional, default=default)


def cast_value(schema: Schema | None, value: Any, kind: Type) -> Any:
    """Returns the value as another type, as Java casts: whole numbers wrap, fractions are cut."""
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise DataError(f"Cast works on primitive values, and this is {type(value).__name__}")
    if kind is Type.STRING:
        return _text(schema, value)
    value = _number_of(value)
    if kind is Type.BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else bool(int(value))
    try:
        if kind in INTEGERS:
            return _integer(value, INTEGERS[kind])
        number = float(value)
        if kind is Type.FLOAT32:
            number = in_32_bits(number)
    except (ValueError, OverflowError):
        raise DataError(f"{value!r:.40} cannot be cast to {kind}") from None
    return number


def _number_of(value: Any) -> Any:
    """Returns the number that stands for a logical type; other values stay as they are."""
    match value:
        case datetime():
            return values.timestamp_to_ms(value)
        case date():
            return values.date_to_days(value)
        case time():
            return values.time_to_ms(value)
        case bytes() | bytearray() | memoryview():
            raise DataError("bytes can be cast to string only")
    return value


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        number = int(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(value)
        return number
    number = int(value)
    if isinstance(value, float):
        # Java's floating-point numbers do not wrap: they end at the limits of int and long.
        limit = 1 << (63 if bits == 64 else 31)
        number = max(-limit, min(limit - 1, number))
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _text(schema: Schema | None, value: Any) -> str:
    match value:
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
                f"{moment.microsecond // 1000:03d}Z"
            )
        case time():
            return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
    return java_string(value, schema)
