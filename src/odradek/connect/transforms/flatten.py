"""Flatten: makes fields of a struct's or map's inner fields, with the names on the way joined."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from odradek.config.kinds import string
from odradek.connect.data.schemas import Field, Schema, Type, struct
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.settings import PluginSettings
from odradek.connect.transforms.transform import R, Side, as_map, as_struct


class FlattenSettings(PluginSettings):
    delimiter = string("delimiter", ".", "What stands between the names on the way.")


class Flatten:
    settings_class: ClassVar = FlattenSettings

    def __init__(self, settings: FlattenSettings, side: Side) -> None:
        self._side = side
        self._delimiter = settings.delimiter
        self._flat = lru_cache(1000)(self._flat_schema)

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if value is None:
            return record
        if schema is None:
            flat = dict(self._pairs(as_map(value, "Flatten"), ""))
            return self._side.replaced(record, None, flat)
        fields = as_struct(schema, value, "Flatten")
        return self._side.replaced(
            record, self._flat(schema), dict(self._values(schema, fields, ""))
        )

    def _pairs(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for name, part in value.items():
            if isinstance(part, Mapping):
                yield from self._pairs(part, f"{prefix}{name}{self._delimiter}")
            else:
                yield f"{prefix}{name}", part

    def _flat_schema(self, schema: Schema) -> Schema:
        flat = struct(*self._fields(schema, "", is_optional=schema.is_optional))
        if schema.default is not None:
            default = dict(self._values(schema, schema.default, ""))
            flat = replace(flat, default=default)
        return replace(
            flat,
            is_optional=schema.is_optional,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
        )

    def _fields(self, schema: Schema, prefix: str, *, is_optional: bool) -> Iterator[Field]:
        for part in schema.fields:
            inner = part.schema
            may_be_null = is_optional or inner.is_optional
            if inner.type is Type.STRUCT:
                deeper = f"{prefix}{part.name}{self._delimiter}"
                yield from self._fields(inner, deeper, is_optional=may_be_null)
            elif inner.type is Type.MAP:
                raise DataError(
                    f"Flatten does not support maps in records with schemas ({part.name} is one)"
                )
            else:
                yield Field(f"{prefix}{part.name}", inner.optional() if may_be_null else inner)

    def _values(
        self, schema: Schema, value: Mapping[str, Any] | None, prefix: str
    ) -> Iterator[tuple[str, Any]]:
        for part in schema.fields:
            found = None if value is None else with_defaults(part.schema, value.get(part.name))
            if part.schema.type is Type.STRUCT:
                yield from self._values(part.schema, found, f"{prefix}{part.name}{self._delimiter}")
            else:
                yield f"{prefix}{part.name}", found
