"""HoistField: wraps a key or a value in a struct, or in a map if there is no schema."""

from typing import ClassVar

from odradek.config.kinds import string
from odradek.connect.data.schemas import Field, struct
from odradek.connect.settings import REQUIRED, PluginSettings
from odradek.connect.transforms.transform import R, Side


class HoistFieldSettings(PluginSettings):
    field = string("field", REQUIRED, "The name of the only field.", may_be_empty=False)


class HoistField:
    settings_class: ClassVar = HoistFieldSettings

    def __init__(self, settings: HoistFieldSettings, side: Side) -> None:
        self._field = settings.field
        self._side = side

    def apply(self, record: R) -> R | None:
        schema = self._side.schema(record)
        wrapped = None if schema is None else struct(Field(self._field, schema))
        return self._side.replaced(record, wrapped, {self._field: self._side.content(record)})
