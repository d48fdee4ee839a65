"""Changes as MongoDB's manual describes them, replayed through the connector's records."""

from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from bson.datetime_ms import DatetimeMS
from bson.timestamp import Timestamp

from odradek.connect.connectors.mongodb.connector import MongoDbConnector
from odradek.connect.connectors.mongodb.documents import (
    document_json,
    key_json,
    parsed_key,
    stored_key,
)
from odradek.connect.connectors.mongodb.positions import StreamPosition, position_of, progress_of
from odradek.connect.connectors.mongodb.records import Collection, MongoRecords
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.mongodb.task import Collections
from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.errors import DataError, InvalidConfig

GIVEN = {"topic.prefix": "p", "mongodb.connection.string": "mongodb://localhost"}
ORDERS = Collection("shop", "orders")
UPDATE: dict[str, Any] = {
    "_id": {"_data": "8263"},
    "operationType": "update",
    "clusterTime": Timestamp(1680000000, 7),
    "wallTime": DatetimeMS(1680000000123),
    "ns": {"db": "shop", "coll": "orders"},
    "documentKey": {"_id": Int64(1004)},
    "fullDocument": {"_id": Int64(1004), "name": "Anne", "tags": ["a"]},
    "updateDescription": {
        "updatedFields": {"name": "Anne", "n": 1},
        "removedFields": ["old"],
        "truncatedArrays": [{"field": "tags", "newSize": 1}],
    },
    "lsid": {"id": Binary(b"\x00" * 16, 4)},
    "txnNumber": Int64(3),
}


def _records(**properties: str) -> MongoRecords:
    given = {**GIVEN, **{name.replace("_", "."): text for name, text in properties.items()}}
    return MongoRecords(MongoDbSettings.read(given), {"server_id": "p"})


def test_an_update_has_the_document_and_its_description() -> None:
    (record,) = _records().changed(ORDERS, UPDATE, {"sec": 1})
    assert record.topic == "p.shop.orders"
    assert record.key == {"id": "1004"}
    value = record.value
    assert value["after"] == '{"_id": {"$numberLong": "1004"},"name": "Anne","tags": ["a"]}'
    assert value["updateDescription"] == {
        "removedFields": ["old"],
        "updatedFields": '{"name": "Anne", "n": 1}',
        "truncatedArrays": [{"field": "tags", "size": 1}],
    }
    source = value["source"]
    assert (source["db"], source["collection"], source["ord"]) == ("shop", "orders", 7)
    assert (source["ts_ms"], source["wallTime"]) == (1680000000123, 1680000000123)
    assert source["txnNumber"] == 3
    assert JsonConverter().from_connect("t", record.value_schema, value) is not None


def test_a_delete_has_the_document_before_it_and_a_tombstone() -> None:
    change = {
        **UPDATE,
        "operationType": "delete",
        "fullDocument": None,
        "updateDescription": None,
        "fullDocumentBeforeChange": {"_id": Int64(1004)},
    }
    deleted, tombstone = _records().changed(ORDERS, change, {})
    assert (deleted.value["op"], deleted.value["after"]) == ("d", None)
    assert deleted.value["before"] == '{"_id": {"$numberLong": "1004"}}'
    assert tombstone.value is None
    assert tombstone.key == deleted.key
    assert _records(skipped_operations="d").changed(ORDERS, change, {}) == []
    assert len(_records(tombstones_on_delete="false").changed(ORDERS, change, {})) == 1


def test_a_replaced_document_is_an_update() -> None:
    change = {**UPDATE, "operationType": "replace", "updateDescription": None}
    (record,) = _records().changed(ORDERS, change, {})
    assert (record.value["op"], record.value["updateDescription"]) == ("u", None)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        (
            "legacy",
            """{"d": {"$date": 1000},"n": {"$numberDecimal": "1.50"},"b": {"$binary": "AQ==",\
"$type": "00"},"f": 1.0,"i": 1,"l": {"$numberLong": "2"}}""",
        ),
        (
            "extended",
            """{"d": {"$date": {"$numberLong": "1000"}},"n": {"$numberDecimal": "1.50"},\
"b": {"$binary": {"base64": "AQ==","subType": "00"}},"f": {"$numberDouble": "1.0"},\
"i": {"$numberInt": "1"},"l": {"$numberLong": "2"}}""",
        ),
        (
            "relaxed",
            """{"d": {"$date": "1970-01-01T00:00:01Z"},"n": {"$numberDecimal": "1.50"},\
"b": {"$binary": {"base64": "AQ==","subType": "00"}},"f": 1.0,"i": 1,"l": 2}""",
        ),
    ],
)
def test_documents_are_json_in_several_forms(mode: str, wanted: str) -> None:
    document = {
        "d": DatetimeMS(1000),
        "n": Decimal128("1.50"),
        "b": b"\x01",
        "f": 1.0,
        "i": 1,
        "l": Int64(2),
    }
    assert document_json(document, mode) == wanted


@pytest.mark.parametrize("key", [1, Int64(1), "a", ObjectId(), {"a": 1}, None, 1.5])
def test_a_key_keeps_its_type_in_an_offset(key: Any) -> None:
    found = parsed_key(stored_key(key))
    assert found == key
    assert isinstance(found, type(key))


def test_the_key_of_a_record_is_json() -> None:
    assert key_json("a") == '"a"'
    assert key_json(ObjectId("65a000000000000000000001")) == '{"$oid": "65a000000000000000000001"}'


def test_offsets_are_those_of_debezium() -> None:
    position = StreamPosition(Timestamp(5, 6), {"_data": "8263"})
    offset = position.to_offset()
    assert offset.keys() == {"sec", "ord", "resume_token"}
    assert position_of(offset) == position
    assert position_of({"sec": 5, "ord": 6, "resume_token": "8263ab-"}).token == {
        "_data": "8263ab-"
    }
    connector = MongoDbConnector(MongoDbSettings.read(GIVEN))
    connector.check_offset({"server_id": "p"}, offset)
    with pytest.raises(DataError, match="server_id"):
        connector.check_offset({"server": "p"}, offset)
    with pytest.raises(DataError, match="sec"):
        position_of({"sec": "x"})
    with pytest.raises(DataError, match="progress"):
        progress_of({"odradek_snapshot": "{"})


@pytest.mark.parametrize(
    ("given", "selected"),
    [
        ({}, {"a.x", "a.y", "b.x"}),
        ({"collection.include.list": "a\\..*"}, {"a.x", "a.y"}),
        ({"collection.include.list": "a.x", "filters.match.mode": "literal"}, {"a.x"}),
        ({"database.exclude.list": "a"}, {"b.x"}),
        ({"capture.scope": "collection", "capture.target": "a.y"}, {"a.y"}),
    ],
)
def test_lists_select_collections(given: dict[str, str], selected: set[str]) -> None:
    collections = Collections(MongoDbSettings.read({**GIVEN, **given}))
    everything = [Collection("a", "x"), Collection("a", "y"), Collection("b", "x")]
    assert {found.full_name for found in everything if collections.selects(found)} == selected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"mongodb.connection.string": "localhost:27017"}, "begins with mongodb://"),
        ({"capture.scope": "database"}, "needs a database"),
        ({"table.include.list": "a"}, "collection.include.list"),
        ({"mongodb.hosts": "rs0/localhost"}, "mongodb.connection.string"),
        ({"cursor.pipeline": "{}"}, "JSON array"),
        ({"mongodb.ssl.truststore": "a.p12"}, "PEM"),
        ({"snapshot.mode": "custom"}, "must be one of"),
        ({"field.exclude.list": "a.b.c"}, "no effect here"),
        ({"schema.name.adjustment.mode": "latin"}, "avro_unicode"),
        ({"column.mask.with.7.chars": "a"}, "documents have no columns"),
    ],
)
def test_settings_that_are_wrong_say_what_to_do(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        MongoDbSettings.read({**GIVEN, **given})
