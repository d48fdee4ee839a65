"""The transform ValueToKey: makes a key from fields of the value."""

from typing import ClassVar

from odradek.config.kinds import boolean, names
from odradek.config.setting import Importance
from odradek.connect.data.schemas import Field, struct
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.settings import REQUIRED, PluginSettings, not_empty
from odradek.connect.transforms.transform import R, as_map, as_struct

_PURPOSE = "ValueToKey"


class ValueToKeySettings(PluginSettings):
    fields = names(
        "fields",
        REQUIRED,
        "The fields of the value that become the key.",
        check=not_empty,
        importance=Importance.HIGH,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )


class ValueToKey:
    settings_class: ClassVar = ValueToKeySettings

    def __init__(self, settings: ValueToKeySettings) -> None:
        self._fields = settings.fields
        self._replaces_null = settings.replace_null_with_default

    def apply(self, record: R) -> R | None:
        schema = record.value_schema
        if schema is None:
            value = as_map(record.value, _PURPOSE)
            return record.with_key(None, {name: value.get(name) for name in self._fields})  # type: ignore[return-value]
        value = as_struct(schema, record.value, _PURPOSE)
        parts, key = [], {}
        for name in self._fields:
            part = schema.field(name)
            if part is None:
                raise DataError(f"Field does not exist: {name}")
            parts.append(Field(name, part.schema))
            found = value.get(name)
            key[name] = with_defaults(part.schema, found) if self._replaces_null else found
        return record.with_key(struct(*parts), key)  # type: ignore[return-value]
