"""The sink for MongoDB with mongo-java-server: ids, ways to write, deletes, and what is refused."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import bson
import pymongo
import pytest
from bson import Decimal128, Int64, ObjectId

from odradek.connect import plugins
from odradek.connect.connectors.mongodb.sink import MongoSink, MongoSinkTask
from odradek.connect.connectors.mongodb.sink_settings import MongoSinkSettings
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, struct
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SinkRecord

pytestmark = pytest.mark.xdist_group("mongodb")

NAME = "com.mongodb.kafka.connect.MongoSinkConnector"
IDS = "com.mongodb.kafka.connect.sink.processor.id.strategy."
WRITES = "com.mongodb.kafka.connect.sink.writemodel.strategy."
Make = Callable[..., "Bench"]


class Bench:
    def __init__(self, server: str, **properties: str) -> None:
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(server)
        self.name = f"db{uuid.uuid4().hex[:8]}"
        given = {name.replace("_", "."): text for name, text in properties.items()}
        settings = {"connection.uri": server, "database": self.name, **given}
        self.task: MongoSinkTask = MongoSink(MongoSinkSettings.read(settings)).task()
        self.offset = 0

    def write(self, *found: tuple[Any, Any], topic: str = "items") -> list[str]:
        """Writes keys and values; returns why some were refused."""
        records = []
        for key, value in found:
            records.append(SinkRecord(topic, key, value, offset=self.offset, original_topic=topic))
            self.offset += 1
        return [str(failed.error) for failed in self.task.write(records)]

    def all(self, collection: str = "items") -> list[dict[str, Any]]:
        return list(self.client[self.name][collection].find().sort("_id", 1))

    def close(self) -> None:
        with suppress(pymongo.errors.PyMongoError):
            self.client.drop_database(self.name)
        self.client.close()
        self.task.close()


@pytest.fixture
def bench(mongodb: str) -> Iterator[Make]:
    made: list[Bench] = []

    def make(**properties: str) -> Bench:
        made.append(Bench(mongodb, **properties))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_records_become_documents(bench: Make) -> None:
    here = bench()
    schema = struct(
        Field("a", schemas.INT64),
        Field("d", schemas.decimal(2)),
        Field("day", schemas.date()),
        Field("parts", schemas.array(schemas.INT64)),
    )
    value = {"a": 1, "d": Decimal("1.50"), "day": date(2026, 1, 31), "parts": [2]}
    record = SinkRecord("items", None, value, value_schema=schema)
    assert not here.task.write([record])
    (found,) = here.all()
    assert isinstance(found.pop("_id"), ObjectId)
    assert found == {
        "a": Int64(1), "d": Decimal128("1.50"), "day": datetime(2026, 1, 31),  # noqa: DTZ001
        "parts": [Int64(2)],
    }  # fmt: skip
    text = '{"_id": 5, "at": {"$date": "2026-01-31T00:00:00Z"}}'
    assert here.write((None, text), (None, bson.encode({"_id": 6})), topic="others") == []
    assert here.all("others") == [{"_id": 5, "at": datetime(2026, 1, 31)}, {"_id": 6}]  # noqa: DTZ001
    (no_json, no_document) = here.write((None, "{"), (None, [1]))
    assert "no JSON" in no_json
    assert "not a document" in no_document


@pytest.mark.parametrize(
    ("strategy", "more", "wanted"),
    [
        ("KafkaMetaDataStrategy", {}, "items#0#0"),
        ("FullKeyStrategy", {}, {"_id": 7, "k": 1}),
        ("ProvidedInKeyStrategy", {}, 7),
        ("PartialKeyStrategy",
         {"document.id.strategy.partial.key.projection.list": "k"}, {"k": 1}),
        ("PartialValueStrategy",
         {"document.id.strategy.partial.value.projection.list": "v",
          "document.id.strategy.partial.value.projection.type": "BlockList"}, {"w": 3}),
    ],
)  # fmt: skip
def test_ids(bench: Make, strategy: str, more: dict[str, str], wanted: Any) -> None:
    here = bench(**{"document.id.strategy": f"{IDS}{strategy}"}, **more)
    assert here.write(({"_id": 7, "k": 1}, {"v": 2, "w": 3})) == []
    assert here.all() == [{"_id": wanted, "v": 2, "w": 3}]


def test_a_record_that_comes_again_changes_nothing(bench: Make) -> None:
    here = bench(**{"document.id.strategy": "ProvidedInValueStrategy"})
    rows = [(None, {"_id": 1, "v": 1}), (None, {"_id": 2, "v": 1}), (None, {"_id": 1, "v": 2})]
    here.write(*rows)
    here.write(*rows)
    assert here.all() == [{"_id": 1, "v": 2}, {"_id": 2, "v": 1}]
    assert here.write((None, {"v": 1})) == ["the value has no _id"]


def test_ways_to_write(bench: Make) -> None:
    ids = {"document.id.strategy": f"{IDS}ProvidedInKeyStrategy"}
    update = bench(writemodel_strategy=f"{WRITES}UpdateOneDefaultStrategy", **ids)
    update.write(({"_id": 1}, {"a": 1}), ({"_id": 1}, {"b": 2}))
    assert update.all() == [{"_id": 1, "a": 1, "b": 2}]
    timed = bench(writemodel_strategy=f"{WRITES}UpdateOneTimestampsStrategy", **ids)
    began = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    timed.write(({"_id": 1}, {"a": 1}))
    timed.write(({"_id": 1}, {"a": 2}))
    (found,) = timed.all()
    assert found["a"] == 2
    assert began <= found["_insertedTS"] <= found["_modifiedTS"]
    business = bench(
        **{
            "writemodel.strategy": f"{WRITES}ReplaceOneBusinessKeyStrategy",
            "document.id.strategy": f"{IDS}PartialValueStrategy",
            "document.id.strategy.partial.value.projection.list": "k",
        }
    )
    business.write((None, {"k": 1, "v": 1}), (None, {"k": 1, "v": 2}))
    assert [(one["k"], one["v"]) for one in business.all()] == [(1, 2)]


def test_documents_are_deleted(bench: Make) -> None:
    here = bench(
        delete_on_null_values="true", **{"document.id.strategy": f"{IDS}ProvidedInKeyStrategy"}
    )
    here.write(({"_id": 1}, {"a": 1}), ({"_id": 2}, {"a": 2}), ({"_id": 1}, None))
    assert here.all() == [{"_id": 2, "a": 2}]
    keeps = bench()
    assert keeps.write(({"_id": 1}, None)) == []
    assert keeps.all() == []


def test_what_the_server_refuses_fails_alone(bench: Make) -> None:
    here = bench(writemodel_strategy="InsertOneDefaultStrategy", max_batch_size="2")
    rows = [(None, {"_id": number}) for number in (1, 1, 2, 3)]
    (reason,) = here.write(*rows)
    assert "uplicate" in reason
    assert here.all() == [{"_id": 1}, {"_id": 2}, {"_id": 3}]


def test_collections_of_topics(bench: Make) -> None:
    here = bench(collection="all", topic_override_b_collection="special")
    here.write((None, {"_id": 1}), topic="a")
    here.write((None, {"_id": 2}), topic="b")
    assert (here.all("all"), here.all("special")) == ([{"_id": 1}], [{"_id": 2}])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"connection.uri": "http://a"}, "must begin with mongodb"),
        ({"database": ""}, "database"),
        ({"document.id.strategy": "com.x.Own"}, "must be one of BsonOidStrategy"),
        ({"delete.on.null.values": "true"}, "to delete documents"),
        ({"document.id.strategy": "PartialKeyStrategy"}, "PartialKeyStrategy needs it"),
        ({"writemodel.strategy": "ReplaceOneBusinessKeyStrategy"}, "needs PartialKeyStrategy"),
        ({"change.data.capture.handler": "x"}, "it has no effect here"),
        ({"topic.override.a.max.batch.size": "1"}, "only the database and the collection"),
    ],
)
def test_wrong_settings(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        MongoSinkSettings.read({"database": "d", **given})


def test_it_is_found_by_its_name_and_has_as_many_tasks_as_it_may() -> None:
    plugin = plugins.find_connector("MongoSink")
    assert plugin.name == NAME
    made = plugin.load()(plugin.settings_class.read({"database": "d"}))
    assert made.task_properties({"a": "b"}, 3) == [{"a": "b"}] * 3


def test_a_server_that_is_not_there_is_tried_again() -> None:
    settings = {
        "connection.uri": "mongodb://127.0.0.1:1/?directConnection=true",
        "database": "d",
        "odradek.server.selection.timeout.ms": "200",
    }
    made = MongoSink(MongoSinkSettings.read(settings))
    assert "does not answer" in made.wrong_outside()["connection.uri"][0]
    with closing(made.task()) as task, pytest.raises(Unavailable):
        task.write([SinkRecord("t", None, {"a": 1})])
    wrong = MongoSink(MongoSinkSettings.read({**settings, "connection.uri": "mongodb://:x@/"}))
    with closing(wrong.task()) as task, pytest.raises(DataError, match=r"connection\.uri"):
        task.check()
