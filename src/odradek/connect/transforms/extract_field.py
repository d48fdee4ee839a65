"""ExtractField: replaces a key or a value by one of its fields."""

from typing import Any, ClassVar

from odradek.config.kinds import boolean, string
from odradek.config.setting import Importance
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.settings import REQUIRED, PluginSettings
from odradek.connect.transforms.field_paths import path_of
from odradek.connect.transforms.transform import R, Side, as_map, as_struct

_PURPOSE = "ExtractField"


class ExtractFieldSettings(PluginSettings):
    field = string("field", REQUIRED, "The field to extract.", may_be_empty=False)
    field_syntax_version = string(
        "field.syntax.version",
        "V1",
        "V1: the name of a field. V2: a path with points, as in a.b; backquotes keep a point.",
        choices=("V1", "V2"),
        importance=Importance.HIGH,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of the field where it is null."
    )


class ExtractField:
    settings_class: ClassVar = ExtractFieldSettings

    def __init__(self, settings: ExtractFieldSettings, side: Side) -> None:
        self._side = side
        self._path = path_of(settings.field, settings.field_syntax_version)
        self._replaces_null = settings.replace_null_with_default

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if schema is None:
            return self._side.replaced(record, None, self._without_schema(value))
        return self._side.replaced(record, *self._with_schema(schema, value))

    def _without_schema(self, value: Any) -> Any:
        for name in self._path:
            if value is None:
                return None
            value = as_map(value, _PURPOSE).get(name)
        return value

    def _with_schema(self, schema: Schema, value: Any) -> tuple[Schema, Any]:
        for name in self._path:
            fields = None if value is None else as_struct(schema, value, _PURPOSE)
            part = schema.field(name) if schema.type is Type.STRUCT else None
            if part is None:
                raise DataError(f"Unknown field: {name}")
            schema = part.schema
            value = None if fields is None else fields.get(name)
            if fields is not None and self._replaces_null:
                value = with_defaults(schema, value)
        return schema, value
