"""The source of change events under MongoDB's own class name: topics, records, and going on."""

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import bson
import pymongo
import pytest
from bson import Decimal128, Int64, ObjectId
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.timestamp import Timestamp

from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.mongodb.event_connector import MongoEventConnector
from odradek.connect.connectors.mongodb.event_positions import (
    EventPosition,
    copies_elsewhere,
    event_position,
)
from odradek.connect.connectors.mongodb.event_records import EventRecords, text_writer
from odradek.connect.connectors.mongodb.event_schemas import EVENT, KEY, fitted, inferred
from odradek.connect.connectors.mongodb.event_settings import MongoEventSettings
from odradek.connect.connectors.mongodb.event_topics import EventTopics
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Type
from odradek.connect.data.values import check
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.plugins import find_connector
from odradek.connect.records import SourceRecord

pytestmark = pytest.mark.xdist_group("mongodb")

_NAME = "com.mongodb.kafka.connect.MongoSourceConnector"
_FORMATTERS = "com.mongodb.kafka.connect.source.json.formatter."
_MOST_CALLS = 100


def _settings(**properties: str) -> MongoEventSettings:
    return MongoEventSettings.read(
        {name.replace("_", "."): text for name, text in properties.items()}
    )


# Topics


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("shop.orders", "p-orders-s"),
        ("shop.items", "p-all-items-s"),
        ("shop.", "p-all-s"),
        ("logs.a", "p-logs-a-s"),
        ("logs.", "p-logs-s"),
        ("other.a", "p-rest-s"),
    ],
)
def test_the_map_of_topics_is_read_in_its_order(name: str, topic: str) -> None:
    text = json.dumps(
        {
            "*": "rest",
            "/logs(\\..*)?": "{db}{sep_coll}",
            "/.*never": "",
            "shop": "all",
            "shop.orders": "orders",
        }
    )
    topics = EventTopics("p", "s", "-", text)
    database, _, collection = name.partition(".")
    assert topics.of(database, collection) == topic


def test_without_a_map_the_topic_has_database_and_collection() -> None:
    assert EventTopics("", "", ".", "").of("shop", "orders") == "shop.orders"
    assert EventTopics("pre", "suf", "_", "").of("shop", "") == "pre_shop_suf"


@pytest.mark.parametrize(
    "text",
    ["[]", '{"a": 1}', '{"a/b": "c"}', '{"/a": "{nothing}"}', '{"/a": "{db"}', '{"/[": "a"}'],
)
def test_a_wrong_map_is_refused(text: str) -> None:
    with pytest.raises((ValueError, InvalidConfig)):
        EventTopics("", "", ".", text)


# Settings


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"output.schema.value": "{}"}, "output.schema.value"),
        ({"mongo.errors.tolerance": "all"}, "mongo.errors.tolerance"),
        ({"topic.mapper": "my.Mapper"}, "topic.mapper"),
        ({"output.json.formatter": "my.Json"}, "output.json.formatter"),
        ({"collection": "orders"}, "collection"),
        ({"pipeline": "{}"}, "pipeline"),
        ({"copy.existing.pipeline": "[1]"}, "startup.mode.copy.existing.pipeline"),
        ({"topic.namespace.map": '{"a": 1}'}, "topic.namespace.map"),
        ({"connection.uri": "http://x"}, "connection.uri"),
        (
            {"startup.mode.timestamp.start.at.operation.time": "yesterday"},
            "startup.mode.timestamp.start.at.operation.time",
        ),
    ],
)
def test_what_is_not_obeyed_is_refused_by_name(properties: dict[str, str], named: str) -> None:
    assert list(MongoEventSettings.validate(properties)) == [named]


def test_settings_of_mongodb_that_change_nothing_are_taken() -> None:
    assert not MongoEventSettings.validate(
        {
            "mongo.errors.tolerance": "none",
            "copy.existing.max.threads": "4",
            "copy.existing.queue.size": "16000",
            "output.schema.infer.value": "false",
            "change.stream.full.document": "updateLookup",
            "output.json.formatter": f"{_FORMATTERS}SimplifiedJson",
        }
    )


def test_the_old_names_of_copying_count_too() -> None:
    old = _settings(**{"copy.existing": "true", "copy.existing.namespace.regex": "a"})
    assert old.copies_existing
    assert old.copy_namespace_regex == "a"
    assert not _settings(**{"copy.existing": "true", "startup.mode": "latest"}).copies_existing


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0", Timestamp(0, 0)),
        ("1700000000", Timestamp(1_700_000_000, 0)),
        ("2023-11-14T22:13:20Z", Timestamp(1_700_000_000, 0)),
        ('{"$timestamp": {"t": 5, "i": 6}}', Timestamp(5, 6)),
    ],
)
def test_a_time_to_begin_has_three_forms(text: str, time: Timestamp) -> None:
    found = _settings(**{"startup.mode.timestamp.start.at.operation.time": text})
    assert found.start_time() == time


def test_the_offset_has_the_name_that_mongodb_gives_it() -> None:
    uri = "mongodb://u:p@b:1,a:2/admin?replicaSet=r"
    assert _settings(connection_uri=uri, database="shop").offset_name == "mongodb://a:2,b:1/shop"
    found = _settings(connection_uri="mongodb+srv://u@h.example", database="d", collection="c")
    assert found.offset_name == "mongodb+srv://h.example/d.c"
    assert _settings(**{"offset.partition.name": "mine"}).offset_name == "mine"


# Records

_EVENT = {
    "_id": {"_data": "82"},
    "operationType": "insert",
    "clusterTime": Timestamp(5, 1),
    "fullDocument": {"_id": ObjectId("65a000000000000000000001"), "n": Int64(5), "l": [1, 2.5]},
    "ns": {"db": "shop", "coll": "orders"},
    "documentKey": {"_id": ObjectId("65a000000000000000000001")},
}
_DELETE = {
    "_id": {"_data": "83"},
    "operationType": "delete",
    "ns": {"db": "shop", "coll": "orders"},
    "documentKey": {"_id": 1},
}


def _of(event: dict[str, Any], **properties: str) -> list[SourceRecord]:
    return EventRecords(_settings(**properties), {"ns": "x"}).of(event, {"_id": "y"})


def test_an_event_is_written_as_it_is() -> None:
    (record,) = _of(_EVENT)
    assert record.topic == "shop.orders"
    assert record.key == '{"_id": {"$oid": "65a000000000000000000001"}}'
    assert record.value == (
        '{"_id": {"_data": "82"}, "operationType": "insert",'
        ' "clusterTime": {"$timestamp": {"t": 5, "i": 1}},'
        ' "fullDocument": {"_id": {"$oid": "65a000000000000000000001"},'
        ' "n": {"$numberLong": "5"}, "l": [1, 2.5]},'
        ' "ns": {"db": "shop", "coll": "orders"},'
        ' "documentKey": {"_id": {"$oid": "65a000000000000000000001"}}}'
    )
    assert (record.key_schema, record.value_schema) == (schemas.STRING, schemas.STRING)
    (record,) = _of(_EVENT, **{"change.stream.document.key.as.key": "false"})
    assert record.key == '{"_id": {"_data": "82"}}'


def test_only_the_document_is_written_if_that_is_wanted() -> None:
    only = {"publish.full.document.only": "true"}
    (record,) = _of(_EVENT, **only)
    assert json.loads(record.value)["n"] == {"$numberLong": "5"}
    assert not _of(_DELETE, **only)
    (record,) = _of(_DELETE, **only, **{"publish.full.document.only.tombstone.on.delete": "true"})
    assert (record.key, record.value) == ('{"_id": 1}', None)
    gone = {**_EVENT, "operationType": "update", "fullDocument": None}
    assert not _of(gone, **only)


def test_bson_is_bytes() -> None:
    (record,) = _of(_EVENT, **{"output.format.value": "bson", "output.format.key": "bson"})
    assert bson.decode(record.value)["documentKey"] == _EVENT["documentKey"]
    assert bson.decode(record.key) == _EVENT["documentKey"]
    assert (record.key_schema, record.value_schema) == (schemas.BYTES, schemas.BYTES)


def test_simple_json_has_texts_for_what_json_lacks() -> None:
    document = {
        "_id": ObjectId("65a000000000000000000001"),
        "at": DatetimeMS(1_700_000_000_120),
        "whole": DatetimeMS(0),
        "price": Decimal128("1.50"),
        "data": b"\x00\xff",
        "n": Int64(5),
    }
    (record,) = _of(
        {**_EVENT, "fullDocument": document},
        **{
            "publish.full.document.only": "true",
            "output.json.formatter": f"{_FORMATTERS}SimplifiedJson",
        },
    )
    assert json.loads(record.value) == {
        "_id": "65a000000000000000000001",
        "at": "2023-11-14T22:13:20.12Z",
        "whole": "1970-01-01T00:00:00Z",
        "price": "1.50",
        "data": "AP8=",
        "n": 5,
    }


def test_events_and_keys_have_a_schema_of_their_own() -> None:
    event = {**_EVENT, "wallTime": DatetimeMS(7), "txnNumber": Int64(3)}
    (record,) = _of(event, **{"output.format.value": "schema", "output.format.key": "schema"})
    assert (record.key, record.key_schema) == ({"_id": '{"_data": "82"}'}, KEY)
    assert record.value_schema == EVENT
    assert {name: value for name, value in record.value.items() if value is not None} == {
        "_id": '{"_data": "82"}',
        "operationType": "insert",
        "fullDocument": (
            '{"_id": {"$oid": "65a000000000000000000001"}, "n": {"$numberLong": "5"},'
            ' "l": [1, 2.5]}'
        ),
        "ns": {"db": "shop", "coll": "orders"},
        "documentKey": '{"_id": {"$oid": "65a000000000000000000001"}}',
        "clusterTime": '{"$timestamp": {"t": 5, "i": 1}}',
        "wallTime": 7,
        "txnNumber": 3,
    }
    check(EVENT, record.value)


def test_a_document_shows_its_schema() -> None:
    document = {
        "b": True,
        "_id": ObjectId("65a000000000000000000001"),
        "A": 1,
        "long": Int64(2),
        "d": 1.5,
        "dec": Decimal128("1.50"),
        "at": DatetimeMS(7),
        "stamp": Timestamp(5, 6),
        "data": b"\x00",
        "none": None,
        "code": Code("x"),
        "deep": {"_id": {"x": 1}, "more": {"y": "z"}},
    }
    schema = inferred(document)
    names = [field.name for field in schema.fields]
    assert names == [
        "_id", "A", "at", "b", "code", "d", "data", "dec", "deep", "long", "none", "stamp",
    ]  # fmt: skip
    assert (schema.name, schema.is_optional) == ("default", False)
    deep = schema.field("deep")
    assert deep is not None
    assert [part.schema.name for part in (deep, *deep.schema.fields)] == [
        "deep", "_id", "deep_more",
    ]  # fmt: skip
    value = fitted(schema, document, text_writer("strict"))
    check(schema, value)
    assert (value["_id"], value["code"]) == (
        '{"$oid": "65a000000000000000000001"}',
        '{"$code": "x"}',
    )
    assert (value["dec"], value["long"], value["none"]) == (Decimal("1.50"), 2, None)
    assert value["stamp"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert value["deep"] == {"_id": {"x": 1}, "more": {"y": "z"}}


@pytest.mark.parametrize(
    ("elements", "kind", "values"),
    [
        ([1, 2], Type.INT32, [1, 2]),
        ([None, 1.5, None], Type.FLOAT64, [None, 1.5, None]),
        ([1, "a", {"b": 1}], Type.STRING, ["1", "a", '{"b": 1}']),
        ([1, Int64(2)], Type.STRING, ["1", '{"$numberLong": "2"}']),
        ([], Type.STRING, []),
        ([None], Type.STRING, [None]),
        (
            [{"b": 1}, {"a": "x", "b": None}, {"c": [1]}],
            Type.STRUCT,
            [
                {"a": None, "b": 1, "c": None},
                {"a": "x", "b": None, "c": None},
                {"a": None, "b": None, "c": [1]},
            ],
        ),
        ([[1], [], ["a"]], Type.ARRAY, [["1"], [], ["a"]]),
    ],
)
def test_elements_of_an_array_have_one_schema(
    elements: list[Any], kind: Type, values: list[Any]
) -> None:
    schema = inferred({"list": elements})
    (field,) = schema.fields
    assert (field.schema.name, field.schema.elements.type) == ("list", kind)
    value = fitted(schema, {"list": elements}, text_writer("strict"))
    check(schema, value)
    assert value == {"list": values}


@pytest.mark.parametrize(
    "value", [Decimal128("NaN"), {"dec": Decimal128("Infinity")}, [Decimal128("sNaN")]]
)
def test_what_has_no_schema_is_a_failed_record(value: Any) -> None:
    with pytest.raises(DataError):
        _of({**_EVENT, "fullDocument": {"v": value}}, **{
            "output.format.value": "schema", "output.schema.infer.value": "true",
        })  # fmt: skip


def test_an_event_of_no_database_has_no_record() -> None:
    assert not _of({"_id": {"_data": "1"}, "operationType": "invalidate"})


# Positions


def test_offsets_are_those_of_mongodb() -> None:
    offset = EventPosition({"_data": "82"}).to_offset()
    assert offset == {"_id": '{"_data": "82"}'}
    assert event_position(offset) == EventPosition({"_data": "82"})
    time = EventPosition(time=Timestamp(5, 6))
    assert event_position(time.to_offset()) == time
    assert copies_elsewhere({"_id": '{"_id": 1, "copyingData": true}', "copy": "true"})
    for wrong in ({}, {"_id": "[]"}, {"_id": "{"}):
        with pytest.raises(DataError):
            event_position(wrong)


def test_an_offset_of_another_partition_is_refused() -> None:
    connector = MongoEventConnector(_settings(**{"offset.partition.name": "mine"}))
    connector.check_offset({"ns": "mine"}, {"_id": '{"_data": "82"}'})
    with pytest.raises(DataError, match="mine"):
        connector.check_offset({"ns": "yours"}, None)


# A server


class Bench:
    def __init__(self, server: str, **properties: str) -> None:
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(server)
        self.database = f"db{uuid.uuid4().hex[:8]}"
        self.items = self.client[self.database]["items"]
        self._properties = {
            "connector.class": _NAME,
            "connection.uri": server,
            "database": self.database,
            "collection": "items",
            "poll.await.time.ms": "200",
            **properties,
        }
        self.positions = Positions()
        self.task = self._new_task()

    def _new_task(self) -> SourceTask:
        connector = find_connector(_NAME).load()
        task: SourceTask = connector(MongoEventSettings.read(self._properties)).task()
        return task

    def restart(self) -> None:
        self.task.close()
        self.task = self._new_task()

    def close(self) -> None:
        self.task.close()
        self.client.close()

    def step(self, max_records: int = 1000) -> list[dict[str, Any]]:
        end = self.task.reach(self.positions, max_records)
        found = [*self.task.read(self.positions, end)] if end != self.positions else []
        self.task.stored(end)
        self.positions = end
        return [json.loads(record.value) for record in found]

    def until(self, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(_MOST_CALLS):
            found += self.step()
            if any(map(is_last, found)):
                return found
        raise AssertionError(found)


@pytest.fixture
def bench(mongodb: str) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**properties: str) -> Bench:
        made.append(Bench(mongodb, **properties))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _is_of(key: Any) -> Callable[[dict[str, Any]], bool]:
    return lambda event: bool(event.get("documentKey", {}).get("_id") == key)


def test_changes_come_from_now_on(bench: Callable[..., Bench]) -> None:
    here = bench()
    here.items.insert_one({"_id": 1})
    here.step()
    here.items.insert_one({"_id": 2, "a": "ü"})
    (event,) = [event for event in here.until(_is_of(2)) if event["documentKey"]["_id"] == 2]
    assert event["operationType"] == "insert"
    assert event["fullDocument"] == {"_id": 2, "a": "ü"}


def test_documents_that_are_there_are_copied_first(bench: Callable[..., Bench]) -> None:
    here = bench(**{"startup.mode": "copy_existing"})
    mixed: list[Any] = [*range(5), "a", ObjectId("65a000000000000000000001")]
    here.items.insert_many([{"_id": key} for key in mixed])
    found: list[dict[str, Any]] = []
    for _ in range(_MOST_CALLS):
        found += here.step(max_records=2)
        here.restart()
        if len(found) >= len(mixed):
            break
    keys = [event["documentKey"]["_id"] for event in found[: len(mixed)]]
    assert keys == [*range(5), "a", {"$oid": "65a000000000000000000001"}]
    assert found[0] == {
        "_id": {"_id": 0, "copyingData": True},
        "operationType": "insert",
        "documentKey": {"_id": 0},
        "fullDocument": {"_id": 0},
        "ns": {"db": here.database, "coll": "items"},
    }
    here.items.insert_one({"_id": 100})
    assert any(map(_is_of(100), here.until(_is_of(100))))


def test_copied_documents_can_be_selected(bench: Callable[..., Bench]) -> None:
    here = bench(
        **{
            "copy.existing": "true",
            "copy.existing.pipeline": '[{"$match": {"n": {"$gt": 2}}}]',
            "publish.full.document.only": "true",
        }
    )
    here.items.insert_many([{"_id": number, "n": number} for number in range(5)])
    found = here.until(lambda document: document["n"] == 4)
    assert [document["n"] for document in found[:2]] == [3, 4]


def test_a_new_task_goes_on_where_the_last_one_was(bench: Callable[..., Bench]) -> None:
    here = bench()
    here.step()
    for number in range(10):
        here.items.insert_one({"_id": number})
    keys: list[Any] = []
    for _ in range(_MOST_CALLS):
        keys += [event["documentKey"]["_id"] for event in here.step(max_records=3)]
        here.restart()
        if 9 in keys:
            break
    assert keys == [*range(10)]
