"""InsertField: adds topic, partition, offset or time of a record, or a fixed text, as fields."""

from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from odradek.config.kinds import boolean, string
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.data.values import ms_to_timestamp, with_defaults
from odradek.connect.errors import DataError
from odradek.connect.records import Record, SinkRecord
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.transform import R, Side, as_map, as_struct

_SUFFIX: Final = " A ! at the end makes the field required, a ? optional, which is the default."


class InsertFieldSettings(PluginSettings):
    topic_field = string("topic.field", None, "The field for the topic." + _SUFFIX)
    partition_field = string("partition.field", None, "The field for the partition." + _SUFFIX)
    offset_field = string(
        "offset.field", None, "The field for the offset, of sinks only." + _SUFFIX
    )
    timestamp_field = string("timestamp.field", None, "The field for the time." + _SUFFIX)
    static_field = string("static.field", None, "The field for a fixed text." + _SUFFIX)
    static_value = string("static.value", None, "The fixed text.")
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        if self.static_field is not None and self.static_value is None:
            return {"static.value": [invalid("static.value", None, "static.field needs it")]}
        given = (
            self.topic_field, self.partition_field, self.offset_field, self.timestamp_field,
            self.static_field,
        )  # fmt: skip
        if all(name is None for name in given):
            return {"static.field": ["No field insertion configured: set one of the fields."]}
        return {}


class _Insertion(NamedTuple):
    name: str
    schema: Schema
    source: str


class InsertField:
    settings_class: ClassVar = InsertFieldSettings

    def __init__(self, settings: InsertFieldSettings, side: Side) -> None:
        self._side = side
        self._static = settings.static_value
        self._replaces_null = settings.replace_null_with_default
        given = (
            (settings.topic_field, schemas.STRING, "topic"),
            (settings.partition_field, schemas.INT32, "partition"),
            (settings.offset_field, schemas.INT64, "offset"),
            (settings.timestamp_field, schemas.timestamp(), "timestamp"),
            (settings.static_field, schemas.STRING, "static"),
        )
        self._insertions = [
            _insertion(name, schema, source) for name, schema, source in given if name is not None
        ]
        self._extended = lru_cache(1000)(self._extended_schema)

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        if value is None:
            return record
        if schema is None:
            changed = dict(as_map(value, "InsertField"))
            for insertion in self._insertions:
                changed[insertion.name] = self._value(record, insertion)
            return self._side.replaced(record, None, changed)
        fields = as_struct(schema, value, "InsertField")
        changed = {
            part.name: with_defaults(part.schema, fields.get(part.name))
            if self._replaces_null
            else fields.get(part.name)
            for part in schema.fields
        }
        for insertion in self._insertions:
            found = self._value(record, insertion)
            is_time = insertion.source == "timestamp" and found is not None
            changed[insertion.name] = ms_to_timestamp(found) if is_time else found
        return self._side.replaced(record, self._extended(schema), changed)

    def _value(self, record: Record, insertion: _Insertion) -> Any:
        found: Any
        match insertion.source:
            case "topic":
                found = record.topic
            case "partition":
                found = record.partition
            case "timestamp":
                found = record.timestamp_ms
            case "offset":
                if not isinstance(record, SinkRecord):
                    raise DataError(
                        "only the records of a sink have an offset: leave out offset.field"
                    )
                found = record.offset
            case _:
                found = self._static
        if found is None and not insertion.schema.is_optional:
            raise DataError(f"the record has no {insertion.source}, and the field is required")
        return found

    def _extended_schema(self, schema: Schema) -> Schema:
        added = tuple(Field(insertion.name, insertion.schema) for insertion in self._insertions)
        return schema.with_fields(schema.fields + added)


def _insertion(name: str, schema: Schema, source: str) -> _Insertion:
    if name.endswith("!"):
        return _Insertion(name[:-1], schema, source)
    return _Insertion(name.removesuffix("?"), schema.optional(), source)
