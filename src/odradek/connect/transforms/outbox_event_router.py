"""EventRouter: rows of an outbox table as events of their own, in topics by their kind.

A service writes its events into a table in the transaction of its other changes. Change data
capture sees the insert, and this transform makes the event of it: the payload as the value, the
aggregate's identifier as the key, and a topic for each kind of aggregate.
"""

import json
import logging
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from odradek.config.kinds import boolean, names, string
from odradek.connect.connectors.cdc import logical_types
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, struct
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import Header
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.change_events import ChangeEvent, change_event
from odradek.connect.transforms.java_patterns import java_pattern, java_replacement
from odradek.connect.transforms.json_payloads import PayloadSchemas, fitting
from odradek.connect.transforms.transform import R

_log = logging.getLogger("odradek.connect")
_PLACES: Final = ("header", "envelope", "partition")
_TO_MS: Final = {
    logical_types.TIMESTAMP.name: 1,
    logical_types.MICRO_TIMESTAMP.name: 1_000,
    logical_types.NANO_TIMESTAMP.name: 1_000_000,
}


class EventRouterSettings(PluginSettings):
    table_field_event_id = string("table.field.event.id", "id", "The column with the event's id.")
    table_field_event_key = string(
        "table.field.event.key", "aggregateid", "The column with the key of the record."
    )
    table_field_event_type = string(
        "table.field.event.type", "type", "The column with the kind of event."
    )
    table_field_event_payload = string(
        "table.field.event.payload", "payload", "The column with the event itself."
    )
    table_field_event_timestamp = string(
        "table.field.event.timestamp",
        "",
        "The column with the time; by default that of the change.",
    )
    table_field_event_schema_version = string(
        "table.field.event.schema.version", "", "The column with the version of the schema."
    )
    table_fields_additional_placement = names(
        "table.fields.additional.placement",
        (),
        "More columns and where they go: column:header, column:envelope:name, column:partition.",
    )
    table_field_additional_missing = string(
        "table.field.additional.missing",
        "error",
        "Whether a row may lack one of them.",
        choices=("error", "ignore"),
        folds_case=True,
    )
    table_expand_json_payload = boolean(
        "table.expand.json.payload", False, "Read a payload of JSON text, and write its fields."
    )
    table_json_payload_null_behavior = string(
        "table.json.payload.null.behavior",
        "ignore",
        "What becomes of null in it.",
        choices=("ignore", "optional_bytes"),
        folds_case=True,
    )
    table_json_payload_empty_array_behavior = string(
        "table.json.payload.empty.array.behavior",
        "ignore",
        "What becomes of empty lists in it.",
        choices=("ignore", "optional_string"),
        folds_case=True,
    )
    table_op_invalid_behavior = string(
        "table.op.invalid.behavior",
        "warn",
        "What an update of the table does: a warning, an error in the log, or the end.",
        choices=("warn", "error", "fatal"),
        folds_case=True,
    )
    route_by_field = string(
        "route.by.field", "aggregatetype", "The column that decides about the topic."
    )
    route_topic_regex = string(
        "route.topic.regex", "(?<routedByValue>.*)", "A pattern for its value."
    )
    route_topic_replacement = string(
        "route.topic.replacement", "outbox.event.${routedByValue}", "The name of the topic."
    )
    route_tombstone_on_empty_payload = boolean(
        "route.tombstone.on.empty.payload", False, "An event without a payload is a tombstone."
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        try:
            java_replacement(self.route_topic_replacement, java_pattern(self.route_topic_regex))
        except InvalidConfig as error:
            name = "route.topic.regex"
            problems[name] = [invalid(name, self.route_topic_regex, str(error))]
        for text in self.table_fields_additional_placement:
            parts = text.split(":")
            if len(parts) not in (2, 3) or parts[1].strip().lower() not in _PLACES:
                name = "table.fields.additional.placement"
                given = ",".join(self.table_fields_additional_placement)
                reason = f"{text!r} is not like column:header or column:envelope:name"
                problems[name] = [invalid(name, given, reason)]
        return problems


class _Additional(NamedTuple):
    column: str
    place: str
    name: str


class EventRouter:
    settings_class: ClassVar = EventRouterSettings

    def __init__(self, settings: EventRouterSettings) -> None:
        self._settings = settings
        self._pattern = java_pattern(settings.route_topic_regex)
        self._replacement = java_replacement(settings.route_topic_replacement, self._pattern)
        self._additional = [
            _additional(text) for text in settings.table_fields_additional_placement
        ]
        self._payloads = PayloadSchemas(
            keeps_null=settings.table_json_payload_null_behavior == "optional_bytes",
            keeps_empty=settings.table_json_payload_empty_array_behavior == "optional_string",
        )
        self._has_envelope = any(extra.place == "envelope" for extra in self._additional)

    def apply(self, record: R) -> R | None:
        if record.value is None:
            return None
        event = change_event(record)
        if event is None:
            return record
        if event.operation in {"d", "t", "m"}:
            return None
        if event.operation == "u":
            self._note_update(record.key)
            return None
        if event.row_schema is None:
            raise DataError("the outbox router needs events with schemas")
        return self._event(record, event, event.row_schema, event.after)

    def _note_update(self, key: Any) -> None:
        behavior = self._settings.table_op_invalid_behavior
        message = f"a row of the outbox table was updated, and events are never changed: {key}"
        if behavior == "fatal":
            raise DataError(message)
        _log.log(logging.ERROR if behavior == "error" else logging.WARNING, "%s", message)

    def _event(self, record: R, event: ChangeEvent, schema: Schema, row: dict[str, Any]) -> R:
        settings = self._settings
        id_schema = _needed(schema, settings.table_field_event_id, "table.field.event.id")
        payload_name = settings.table_field_event_payload
        payload_schema = _needed(schema, payload_name, "table.field.event.payload")
        payload = row.get(payload_name)
        if settings.table_expand_json_payload and isinstance(payload, str):
            payload_schema, payload = self._expanded(payload_schema, payload)
        route = str(row.get(settings.route_by_field) or "")
        _needed(schema, settings.route_by_field, "route.by.field")
        headers = [Header("id", id_schema, row.get(settings.table_field_event_id))]
        fields, values = [Field("payload", payload_schema)], {"payload": payload}
        partition = None
        for extra in self._additional:
            found = schema.field(extra.column)
            if found is None:
                if settings.table_field_additional_missing == "error":
                    raise DataError(f"the outbox table has no column {extra.column}")
                continue
            content = row.get(extra.column)
            if extra.place == "header":
                headers.append(Header(extra.name, found.schema, content))
            elif extra.place == "partition":
                partition = content
            else:
                fields.append(Field(extra.name, found.schema))
                values[extra.name] = content
        value_schema: Schema | None = payload_schema
        value: Any = payload
        if settings.route_tombstone_on_empty_payload and _is_empty(payload):
            value_schema = value = None
        elif self._has_envelope:
            value_schema, value = self._envelope(schema, row, route, fields), values
        key = schema.field(settings.table_field_event_key)
        return replace(
            record,
            topic=self._topic(route),
            partition=partition,
            key_schema=schemas.STRING if key is None else key.schema,
            key=row.get(settings.table_field_event_key),
            value_schema=value_schema,
            value=value,
            timestamp_ms=self._time(event, schema, row),
            headers=(*record.headers, *headers),
        )

    def _envelope(
        self, schema: Schema, row: dict[str, Any], route: str, fields: list[Field]
    ) -> Schema:
        before, point, last = (schema.name or "").rpartition(".")
        name = f"{before}{point}{route}.{last}" if last else route
        made = struct(*fields, name=name)
        column = self._settings.table_field_event_schema_version
        return replace(made, version=row.get(column)) if column else made

    def _topic(self, route: str) -> str:
        match = self._pattern.fullmatch(route)
        return route if match is None else self._replacement(match)

    def _time(self, event: ChangeEvent, schema: Schema, row: dict[str, Any]) -> int | None:
        column = self._settings.table_field_event_timestamp
        found = event.value.get("ts_ms")
        if not column:
            return found
        kind = _needed(schema, column, "table.field.event.timestamp")
        factor = _TO_MS.get(kind.name)
        if factor is None:
            raise DataError(f"column {column} of the outbox table is not a timestamp")
        value = row.get(column)
        return found if value is None else value // factor

    def _expanded(self, schema: Schema, payload: str) -> tuple[Schema, Any]:
        if not payload.startswith(("{", "[")):
            _log.warning("the payload of an outbox event is not a JSON object or list")
            return schema, payload
        try:
            found = json.loads(payload)
        except ValueError as error:
            _log.warning("the payload of an outbox event is not JSON: %s", error)
            return schema, payload
        made = self._payloads.schema_of(found, self._settings.table_field_event_payload)
        return (schema, payload) if made is None else (made, fitting(made, found))


def _additional(text: str) -> _Additional:
    column, place, *name = [part.strip() for part in text.split(":")]
    return _Additional(column, place.lower(), name[0] if name else column)


def _needed(schema: Schema, name: str, setting: str) -> Schema:
    found = schema.field(name)
    if found is None:
        raise DataError(f"the outbox table has no column {name}: set {setting}")
    return found.schema


def _is_empty(payload: Any) -> bool:
    return payload is None or not str(payload).strip()
