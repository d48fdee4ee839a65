"""ByLogicalTableRouter: the changes of many tables, such as parts of one, in one topic.

    transforms.route.type=io.debezium.transforms.ByLogicalTableRouter
    transforms.route.topic.regex=(.*)orders_\\d+
    transforms.route.topic.replacement=$1orders

Rows of different tables may have the same key, so a field of the key says which table it is of.
Schemas get the names that they would have if the topic were that of a table.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final

from odradek.config.kinds import boolean, integer, string
from odradek.config.setting import Importance
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern, java_replacement
from odradek.connect.transforms.transform import R

_ROWS: Final = ("before", "after")
_SCHEMAS: Final = 1000


class LogicalTableRouterSettings(PluginSettings):
    topic_regex = string(
        "topic.regex", REQUIRED, "The pattern of topics to change.", importance=Importance.LOW
    )
    topic_replacement = string(
        "topic.replacement", REQUIRED, "The new name; $1 is the first group of the pattern.",
        importance=Importance.LOW,
    )  # fmt: skip
    key_enforce_uniqueness = boolean(
        "key.enforce.uniqueness", True, "Add a field to keys that says which table they are of."
    )
    key_field_name = string(
        "key.field.name", "__dbz__physicalTableIdentifier", "The name of that field."
    )
    key_field_regex = string(
        "key.field.regex", "", "What is changed in the name of the topic that stands there."
    )
    key_field_replacement = string("key.field.replacement", "", "What is made of that.")
    schema_name_adjustment_mode = string(
        "schema.name.adjustment.mode",
        "none",
        "Names are adjusted by the connector's setting; nothing is done here.",
        choices=("none",),
    )
    logical_table_cache_size = integer(
        "logical.table.cache.size", 16, "It changes nothing here.", at_least=1
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, regex, text in (
            ("topic.regex", self.topic_regex, self.topic_replacement),
            ("key.field.regex", self.key_field_regex, self.key_field_replacement),
        ):
            try:
                java_replacement(text, java_pattern(regex))
            except InvalidConfig as error:
                problems[name] = [invalid(name, regex, str(error))]
        if self.key_field_regex and not self.key_field_replacement:
            name = "key.field.replacement"
            reason = "must be non-empty if key.field.regex is set."
            problems[name] = [invalid(name, "", reason)]
        return problems


class LogicalTableRouter:
    settings_class: ClassVar = LogicalTableRouterSettings

    def __init__(self, settings: LogicalTableRouterSettings) -> None:
        self._topic = java_pattern(settings.topic_regex)
        self._replaced = java_replacement(settings.topic_replacement, self._topic)
        self._own_field = settings.key_field_name if settings.key_enforce_uniqueness else None
        pattern = java_pattern(settings.key_field_regex)
        self._identifies = pattern if settings.key_field_regex else None
        self._identified = java_replacement(settings.key_field_replacement, pattern)
        self._key_schema = lru_cache(_SCHEMAS)(self._new_key_schema)
        self._value_schema = lru_cache(_SCHEMAS)(_new_value_schema)

    def apply(self, record: R) -> R | None:
        if self._topic.fullmatch(record.topic) is None:
            return record
        topic = self._topic.sub(self._replaced, record.topic, 1)
        if not topic:
            return record
        key, key_schema = record.key, record.key_schema
        if key is not None:
            key = self._new_key(key, record.topic)
            key_schema = None if key_schema is None else self._key_schema(key_schema, topic)
        schema = record.value_schema
        if record.value is not None and schema is not None and _is_envelope(schema):
            schema = self._value_schema(schema, topic)
        return replace(record, topic=topic, key=key, key_schema=key_schema, value_schema=schema)

    def _new_key(self, key: Any, topic: str) -> dict[str, Any]:
        if not isinstance(key, Mapping):
            raise DataError(f"the key of a change is a struct, and not {type(key).__name__}")
        if self._own_field is None:
            return dict(key)
        name = topic
        if self._identifies is not None and self._identifies.fullmatch(topic):
            name = self._identifies.sub(self._identified, topic, 1)
        return {**key, self._own_field: name}

    def _new_key_schema(self, schema: Schema, topic: str) -> Schema:
        own = (Field(self._own_field, schemas.STRING),) if self._own_field else ()
        return replace(schema, name=f"{topic}.Key", fields=(*schema.fields, *own))


def _is_envelope(schema: Schema) -> bool:
    return (schema.name or "").endswith(".Envelope") and schema.field("before") is not None


def _new_value_schema(schema: Schema, topic: str) -> Schema:
    fields = [
        replace(field, schema=replace(field.schema, name=f"{topic}.Value"))
        if field.name in _ROWS
        else field
        for field in schema.fields
    ]
    return replace(schema, name=f"{topic}.Envelope", fields=tuple(fields))
