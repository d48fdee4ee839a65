"""MaskField: hides the values of fields: with the null of their type, or with a replacement."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

from odradek.config.kinds import boolean, names, string
from odradek.config.setting import Importance
from odradek.connect.data.schemas import INTEGERS, Schema
from odradek.connect.data.values import days_to_date, ms_to_time, ms_to_timestamp, with_defaults
from odradek.connect.errors import DataError
from odradek.connect.settings import REQUIRED, PluginSettings, not_empty
from odradek.connect.transforms.transform import R, Side, as_map, as_struct


class MaskFieldSettings(PluginSettings):
    fields = names(
        "fields",
        REQUIRED,
        "The fields whose values are hidden.",
        check=not_empty,
        importance=Importance.HIGH,
    )
    replacement = string(
        "replacement",
        None,
        "What stands in their place, for text and numbers. If unset: nothing, 0, false, and so on.",
        may_be_empty=False,
        importance=Importance.LOW,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )


class MaskField:
    settings_class: ClassVar = MaskFieldSettings

    def __init__(self, settings: MaskFieldSettings, side: Side) -> None:
        self._side = side
        self._fields = frozenset(settings.fields)
        self._replacement = settings.replacement
        self._replaces_null = settings.replace_null_with_default

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if value is None:
            return record
        if schema is None:
            changed = dict(as_map(value, "MaskField"))
            for name in self._fields:
                changed[name] = self._mask(changed.get(name))
            return self._side.replaced(record, None, changed)
        fields = as_struct(schema, value, "MaskField")
        changed = {}
        for part in schema.fields:
            found = fields.get(part.name)
            if self._replaces_null:
                found = with_defaults(part.schema, found)
            is_masked = part.name in self._fields
            changed[part.name] = self._mask(found, part.schema) if is_masked else found
        return self._side.replaced(record, schema, changed)

    def _mask(self, value: Any, schema: Schema | None = None) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return _null_of(value)
        try:
            match value:
                case bool():
                    pass
                case str():
                    return self._replacement
                case int():
                    return _narrowed(Decimal(self._replacement), schema)
                case float():
                    return float(Decimal(self._replacement))
                case Decimal():
                    return Decimal(self._replacement)
        except (ValueError, ArithmeticError):
            raise DataError(f"{self._replacement!r} is no {type(value).__name__}") from None
        raise DataError(f"a value of type {type(value).__name__} takes no replacement")


def _narrowed(number: Decimal, schema: Schema | None) -> int:
    """Returns the number as Java narrows it: without its fraction and its first bits."""
    bits = 64 if schema is None else INTEGERS.get(schema.type, 64)
    return (int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _null_of(value: Any) -> Any:
    match value:
        case datetime():
            return ms_to_timestamp(0)
        case date():
            return days_to_date(0)
        case time():
            return ms_to_time(0)
        case Decimal():
            exponent = value.as_tuple().exponent
            return Decimal((0, (0,), exponent if isinstance(exponent, int) else 0))
        case bool() | int() | float() | str() | list() | dict() | bytes():
            return type(value)()
    raise DataError(f"a value of type {type(value).__name__} cannot be masked")
