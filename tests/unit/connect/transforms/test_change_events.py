"""The transforms of change events: what Debezium's make of the same records."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.connect.connectors.cdc import envelope, logical_types
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.plugins import make_transform
from odradek.connect.records import Header, SourceRecord

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
ROUTER = "io.debezium.transforms.ByLogicalTableRouter"
OUTBOX = "io.debezium.transforms.outbox.EventRouter"
SOURCE = envelope.source_schema("shop.Source", Field("table", schemas.STRING))
ROW = envelope.row_schema(
    "orders",
    (
        Field("id", schemas.INT32),
        Field("name", replace(schemas.OPTIONAL_STRING, default="nobody")),
    ),
)
ORDERS = envelope.table_records(
    "orders", envelope.key_schema("orders", (Field("id", schemas.INT32),)), ROW, SOURCE
)
ORIGIN = Origin({"table": "orders", "snapshot": "false"}, {}, {})
ONE = {"id": 1, "name": None}


def changed(name: str, record: SourceRecord, **properties: str) -> SourceRecord | None:
    given = {key.replace("_", "."): text for key, text in properties.items()}
    return make_transform(name, given).apply(record)


def unwrapped(record: SourceRecord, **properties: str) -> SourceRecord:
    found = changed(UNWRAP, record, **properties)
    assert found is not None
    return found


def test_a_change_becomes_the_row_after_it() -> None:
    (created,) = ORDERS.created({"id": 1}, ONE, ORIGIN)
    found = unwrapped(created)
    assert (found.value, found.value_schema) == ({"id": 1, "name": "nobody"}, ROW)
    assert (found.key, found.topic) == ({"id": 1}, "orders")
    kept = unwrapped(created, replace_null_with_default="false")
    assert kept.value == ONE


@pytest.mark.parametrize(
    ("mode", "of_delete", "of_tombstone"),
    [
        ("tombstone", None, "dropped"),
        ("drop", "dropped", "dropped"),
        ("delete-to-tombstone", None, "dropped"),
        ("rewrite", {"id": 1, "name": "nobody", "__deleted": "true"}, "dropped"),
        ("rewrite-with-tombstone", {"id": 1, "name": "nobody", "__deleted": "true"}, None),
    ],
)
def test_deletes_become_tombstones_or_rows(mode: str, of_delete: Any, of_tombstone: Any) -> None:
    found = [
        changed(UNWRAP, record, delete_tombstone_handling_mode=mode)
        for record in ORDERS.deleted({"id": 1}, ONE, ORIGIN)
    ]
    assert ["dropped" if record is None else record.value for record in found] == [
        of_delete, of_tombstone,
    ]  # fmt: skip
    (updated,) = ORDERS.updated(None, {"id": 1}, None, ONE, ORIGIN)
    row = unwrapped(updated, delete_tombstone_handling_mode=mode).value
    assert row.get("__deleted") == ("false" if mode.startswith("rewrite") else None)


def test_parts_of_the_event_are_added() -> None:
    (created,) = ORDERS.created({"id": 1}, ONE, ORIGIN)
    found = unwrapped(
        created, add_fields="op,table:origin,source.snapshot", add_headers="op,nothing"
    )
    assert found.value == {
        "id": 1, "name": "nobody", "__op": "c", "__origin": "orders", "__source_snapshot": "false",
    }  # fmt: skip
    assert found.value_schema is not None
    assert [field.name for field in found.value_schema.fields[2:]] == [
        "__op", "__origin", "__source_snapshot",
    ]  # fmt: skip
    assert found.headers == (Header("__op", schemas.OPTIONAL_STRING, "c"),)
    bare = unwrapped(created, add_fields="op", add_fields_prefix="")
    assert bare.value["op"] == "c"


def test_a_field_names_the_topic_and_a_header_the_fields_to_drop() -> None:
    (created,) = ORDERS.created({"id": 1}, {"id": 1, "name": "vip"}, ORIGIN)
    assert unwrapped(created, route_by_field="name").topic == "vip"
    with_header = replace(created, headers=(Header("drop", None, ["id", "name"]),))
    found = unwrapped(with_header, drop_fields_header_name="drop")
    assert found.value == {"id": 1}
    found = unwrapped(
        with_header, drop_fields_header_name="drop", drop_fields_keep_schema_compatible="false"
    )
    assert found.value == {}


def test_other_records_pass_and_truncations_do_not() -> None:
    other = SourceRecord("t", value={"a": 1}, value_schema=None)
    assert unwrapped(other) is other
    (truncated,) = ORDERS.truncated(ORIGIN)
    assert changed(UNWRAP, truncated) is None
    plain = replace(ORDERS.created({"id": 1}, {"id": 1, "name": "x"}, ORIGIN)[0], value_schema=None)
    assert unwrapped(plain).value == {"id": 1, "name": "x"}


OUTBOX_ROW = envelope.row_schema(
    "outbox",
    (
        Field("id", logical_types.UUID),
        Field("aggregatetype", schemas.STRING),
        Field("aggregateid", schemas.STRING),
        Field("type", schemas.STRING),
        Field("payload", logical_types.JSON.optional()),
        Field("at", logical_types.MICRO_TIMESTAMP),
        Field("part", schemas.INT32),
    ),
)
EVENTS = envelope.table_records("outbox", None, OUTBOX_ROW, SOURCE)
EVENT = {
    "id": "a0ee", "aggregatetype": "Order", "aggregateid": "7", "type": "Made",
    "payload": '{"total": 5, "lines": [{"a": 1}, {"a": 2}], "none": null}', "at": 5_000_000,
    "part": 3,
}  # fmt: skip


def routed(row: dict[str, Any], **properties: str) -> SourceRecord:
    found = changed(OUTBOX, EVENTS.created(None, row, ORIGIN)[0], **properties)
    assert found is not None
    return found


def test_a_row_of_an_outbox_becomes_an_event() -> None:
    found = routed(EVENT, table_field_event_timestamp="at")
    assert found.topic == "outbox.event.Order"
    assert (found.key, found.key_schema) == ("7", schemas.STRING)
    assert (found.value, found.value_schema) == (EVENT["payload"], logical_types.JSON.optional())
    assert found.timestamp_ms == 5000
    assert found.headers == (Header("id", logical_types.UUID, "a0ee"),)


def test_more_columns_go_where_they_are_placed() -> None:
    found = routed(
        EVENT,
        table_fields_additional_placement="type:header:eventType,type:envelope:kind,part:partition",
        route_topic_replacement="events-${routedByValue}",
    )
    assert found.topic == "events-Order"
    assert found.headers[-1] == Header("eventType", schemas.STRING, "Made")
    assert found.value == {"payload": EVENT["payload"], "kind": "Made"}
    assert found.value_schema is not None
    assert found.value_schema.name == "outbox.Order.Value"
    assert found.partition == 3


def test_a_payload_of_json_is_expanded() -> None:
    found = routed(EVENT, table_expand_json_payload="true")
    assert found.value == {"total": 5, "lines": [{"a": 1}, {"a": 2}]}
    assert found.value_schema is not None
    assert [field.name for field in found.value_schema.fields] == ["total", "lines"]
    plain = {**EVENT, "payload": "not JSON"}
    assert routed(plain, table_expand_json_payload="true").value == "not JSON"


def test_what_an_outbox_should_not_have_is_refused_or_passed_over() -> None:
    (update,) = EVENTS.updated(None, None, None, EVENT, ORIGIN)
    assert changed(OUTBOX, update) is None
    with pytest.raises(DataError, match="events are never changed"):
        changed(OUTBOX, update, table_op_invalid_behavior="fatal")
    assert changed(OUTBOX, EVENTS.deleted(None, EVENT, ORIGIN)[0]) is None
    empty = routed({**EVENT, "payload": None}, route_tombstone_on_empty_payload="true")
    assert empty.value is None
    with pytest.raises(DataError, match=r"no column nope: set table\.field\.event\.payload"):
        routed(EVENT, table_field_event_payload="nope")
    with pytest.raises(InvalidConfig, match="is not like column:header"):
        make_transform(OUTBOX, {"table.fields.additional.placement": "type"})


def gathered(record: SourceRecord, **properties: str) -> SourceRecord:
    given = {"topic.regex": "ord(.*)", "topic.replacement": "all$1", **properties}
    found = make_transform(ROUTER, given).apply(record)
    assert found is not None
    return found


def test_changes_of_many_tables_go_to_one_topic() -> None:
    deleted, tombstone = ORDERS.deleted({"id": 1}, ONE, ORIGIN)
    for record in (deleted, tombstone):
        found = gathered(record)
        assert found.topic == "allers"
        assert found.key == {"id": 1, "__dbz__physicalTableIdentifier": "orders"}
        assert found.key_schema is not None
        assert found.key_schema.name == "allers.Key"
        assert [field.name for field in found.key_schema.fields] == [
            "id", "__dbz__physicalTableIdentifier",
        ]  # fmt: skip
        assert found.value == record.value
    schema = gathered(deleted).value_schema
    assert schema is not None
    assert schema.name == "allers.Envelope"
    names = {field.name: field.schema.name for field in schema.fields}
    assert (names["before"], names["after"]) == ("allers.Value", "allers.Value")
    assert names["source"] == "shop.Source"
    assert gathered(tombstone).value_schema is None


def test_a_key_may_say_its_table_in_other_words_or_not_at_all() -> None:
    (created,) = ORDERS.created({"id": 1}, ONE, ORIGIN)
    own = {
        "key.field.name": "from",
        "key.field.regex": "o(.)(.*)",
        "key.field.replacement": "$2-$1",
    }
    assert gathered(created, **own).key == {"id": 1, "from": "ders-r"}
    own["key.field.regex"] = "other(.)(.)"
    assert gathered(created, **own).key == {"id": 1, "from": "orders"}
    plain = gathered(created, **{"key.enforce.uniqueness": "false"})
    assert (plain.key, plain.topic) == ({"id": 1}, "allers")


def test_other_topics_are_left_as_they_are() -> None:
    (created,) = ORDERS.created({"id": 1}, ONE, ORIGIN)
    assert gathered(created, **{"topic.regex": "(rders)"}) is created
    assert gathered(created, **{"topic.replacement": "", "topic.regex": "orders"}) is created
    heartbeat = SourceRecord("orders", {"serverName": "shop"}, {"ts_ms": 1})
    assert gathered(heartbeat).value == {"ts_ms": 1}


def test_a_wrong_router_is_refused() -> None:
    for given in (
        {"topic.regex": "["},
        {"topic.replacement": "$3"},
        {"key.field.regex": "a"},
        {"schema.name.adjustment.mode": "avro"},
    ):
        with pytest.raises(InvalidConfig):
            make_transform(ROUTER, {"topic.regex": "a", "topic.replacement": "b", **given})
