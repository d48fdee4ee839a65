"""SetSchemaMetadata: gives a schema another name or version."""

from dataclasses import replace
from typing import ClassVar

from odradek.config.kinds import boolean, integer, string
from odradek.config.setting import Importance
from odradek.connect.data.schemas import Type
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.settings import PluginSettings, Problems
from odradek.connect.transforms.transform import R, Side


class SetSchemaMetadataSettings(PluginSettings):
    schema_name = string(
        "schema.name", None, "The new name of the schema.", importance=Importance.HIGH
    )
    schema_version = integer(
        "schema.version", None, "The new version of the schema.", importance=Importance.HIGH
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        if self.schema_name is None and self.schema_version is None:
            return {"schema.name": ["Neither schema.name nor schema.version is set."]}
        return {}


class SetSchemaMetadata:
    settings_class: ClassVar = SetSchemaMetadataSettings

    def __init__(self, settings: SetSchemaMetadataSettings, side: Side) -> None:
        self._side = side
        self._name, self._version = settings.schema_name, settings.schema_version
        self._replaces_null = settings.replace_null_with_default

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if schema is None and value is None:
            return record
        if schema is None:
            raise DataError("SetSchemaMetadata needs a schema, and the record has none")
        changed = replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
        if schema.type is Type.STRUCT and value is not None and self._replaces_null:
            value = {
                part.name: with_defaults(part.schema, value.get(part.name))
                for part in schema.fields
            }
        return self._side.replaced(record, changed, value)
