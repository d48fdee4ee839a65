"""TimestampConverter: makes a time one of text, a number, Date, Time or Timestamp."""

from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any, ClassVar, Final

from odradek.config.kinds import boolean, string
from odradek.config.setting import Importance
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.data.values import ms_to_timestamp, timestamp_to_ms, with_defaults
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_dates import JavaDateFormat
from odradek.connect.transforms.transform import R, Side, as_map, as_struct

_UNITS_PER_MS: Final = {
    "seconds": (1000, 1),
    "milliseconds": (1, 1),
    "microseconds": (1, 1000),
    "nanoseconds": (1, 1_000_000),
}


class TimestampConverterSettings(PluginSettings):
    field = string(
        "field",
        "",
        "The field with the time. If empty, the whole key or value is it.",
        importance=Importance.HIGH,
    )
    target_type = string(
        "target.type",
        REQUIRED,
        "What the time becomes.",
        choices=("string", "unix", "Date", "Time", "Timestamp"),
        importance=Importance.HIGH,
    )
    format = string("format", "", "How text is written, by Java's SimpleDateFormat.")
    unix_precision = string(
        "unix.precision",
        "milliseconds",
        "The unit of numbers, both read and written.",
        choices=tuple(_UNITS_PER_MS),
        importance=Importance.LOW,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        if self.target_type == "string" and not self.format.strip():
            reason = "it is needed for target.type=string"
            return {"format": [invalid("format", self.format, reason)]}
        if self.format:
            try:
                JavaDateFormat(self.format)
            except InvalidConfig as error:
                return {"format": [invalid("format", self.format, str(error))]}
        return {}


_MOMENTS: Final = frozenset({schemas.DATE, schemas.TIME, schemas.TIMESTAMP})
_TARGETS: Final = {
    "string": schemas.STRING,
    "unix": schemas.INT64,
    "Date": schemas.date(),
    "Time": schemas.time(),
    "Timestamp": schemas.timestamp(),
}


class TimestampConverter:
    settings_class: ClassVar = TimestampConverterSettings

    def __init__(self, settings: TimestampConverterSettings, side: Side) -> None:
        self._side = side
        self._field = settings.field
        self._target = settings.target_type
        self._format = JavaDateFormat(settings.format) if settings.format else None
        self._multiply, self._divide = _UNITS_PER_MS[settings.unix_precision]
        self._replaces_null = settings.replace_null_with_default
        self._schema = lru_cache(1000)(self._changed_schema)

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if not self._field:
            if schema is None:
                return self._side.replaced(record, None, self._converted(value))
            _check(schema)
            return self._side.replaced(record, self._target_schema(schema), self._converted(value))
        if schema is not None and value is None and schema.type is Type.STRUCT:
            return self._side.replaced(record, self._schema(schema), None)
        if schema is None and value is None:
            return record
        if schema is None:
            fields = dict(as_map(value, "TimestampConverter"))
            fields[self._field] = self._converted(fields.get(self._field))
            return self._side.replaced(record, None, fields)
        given = as_struct(schema, value, "TimestampConverter")
        fields = {}
        for part in schema.fields:
            found = given.get(part.name)
            if self._replaces_null:
                found = with_defaults(part.schema, found)
            if part.name == self._field:
                _check(part.schema)
                found = self._converted(found)
            fields[part.name] = found
        return self._side.replaced(record, self._schema(schema), fields)

    def _target_schema(self, schema: Schema) -> Schema:
        target = _TARGETS[self._target]
        return target.optional() if schema.is_optional else target

    def _changed_schema(self, schema: Schema) -> Schema:
        return schema.with_fields(
            tuple(
                Field(part.name, self._target_schema(part.schema))
                if part.name == self._field
                else part
                for part in schema.fields
            )
        )

    def _converted(self, value: Any) -> Any:
        if value is None:
            return None
        moment = self._moment(value)
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.text(moment)
            case "unix":
                return _shortened(timestamp_to_ms(moment), self._multiply) * self._divide
            case "Date":
                return moment.date()
            case "Time":
                return moment.time().replace(microsecond=moment.microsecond // 1000 * 1000)
        return moment

    def _moment(self, value: Any) -> datetime:
        match value:
            case datetime():
                return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            case date():
                return datetime.combine(value, time(), UTC)
            case time():
                return datetime.combine(ms_to_timestamp(0).date(), value, UTC)
            case bool():
                pass
            case int():
                return ms_to_timestamp(_shortened(value * self._multiply, self._divide))
            case str():
                if self._format is None:
                    raise DataError("a time as text needs `format`")
                return self._format.parse(value)
        raise DataError(f"a time is needed, and this is {type(value).__name__}")


def _check(schema: Schema) -> None:
    if schema.name not in _MOMENTS and schema.type not in {Type.STRING, Type.INT64}:
        raise DataError(f"a time is needed, and the schema says {schema.name or schema.type}")


def _shortened(number: int, divisor: int) -> int:
    """Divides as Java does: towards zero."""
    return number // divisor if number >= 0 else -(-number // divisor)
