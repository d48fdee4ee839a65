"""ReplaceField: leaves out or renames fields."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from odradek.config.kinds import boolean, names
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.data.values import with_defaults
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.transform import R, Side, as_map, as_struct


class ReplaceFieldSettings(PluginSettings):
    exclude = names("exclude", (), "The fields to leave out; before `include`.")
    include = names("include", (), "The fields to keep; if empty, all others.")
    renames = names("renames", (), "New names of fields, as in old:new,other:another.")
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        for pair in self.renames:
            old, colon, new = pair.partition(":")
            if not (colon and old and new) or ":" in new:
                reason = f"{pair!r} is not like old:new"
                return {"renames": [invalid("renames", ",".join(self.renames), reason)]}
        return {}


class ReplaceField:
    settings_class: ClassVar = ReplaceFieldSettings

    def __init__(self, settings: ReplaceFieldSettings, side: Side) -> None:
        self._side = side
        self._exclude, self._include = frozenset(settings.exclude), frozenset(settings.include)
        self._renames = dict(pair.split(":") for pair in settings.renames)
        self._replaces_null = settings.replace_null_with_default
        self._schema = lru_cache(1000)(self._changed_schema)

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if value is None:
            return record
        if schema is None:
            fields = as_map(value, "ReplaceField")
            changed = {
                self._renames.get(name, name): part
                for name, part in fields.items()
                if self._keeps(name)
            }
            return self._side.replaced(record, None, changed)
        fields = as_struct(schema, value, "ReplaceField")
        changed = {}
        for part in schema.fields:
            if self._keeps(part.name):
                found = fields.get(part.name)
                if self._replaces_null:
                    found = with_defaults(part.schema, found)
                changed[self._renames.get(part.name, part.name)] = found
        return self._side.replaced(record, self._schema(schema), changed)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _changed_schema(self, schema: Schema) -> Schema:
        fields = tuple(
            Field(self._renames.get(part.name, part.name), part.schema)
            for part in schema.fields
            if self._keeps(part.name)
        )
        # A default of the whole would have the old fields.
        return replace(schema, fields=fields, default=None)
