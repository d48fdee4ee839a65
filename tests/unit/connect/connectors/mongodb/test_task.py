"""The connector for MongoDB with mongo-java-server: a snapshot, changes, and going on."""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from bson import Int64, ObjectId

from odradek.connect.connectors.mongodb.connector import MongoDbConnector
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.mongodb.task import MongoDbTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.errors import Unavailable
from odradek.connect.records import SourceRecord

pytestmark = pytest.mark.xdist_group("mongodb")

_MOST_CALLS = 100


class Bench:
    def __init__(self, server: str, **properties: str) -> None:
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(server)
        self.database = f"db{uuid.uuid4().hex[:8]}"
        self.items = self.client[self.database]["items"]
        self._properties = {
            "topic.prefix": "shop",
            "mongodb.connection.string": server,
            "capture.scope": "collection",
            "capture.target": f"{self.database}.items",
            "poll.interval.ms": "200",
            **{name.replace("_", "."): text for name, text in properties.items()},
        }
        self.task = self._new_task()
        self.positions = Positions()

    def _new_task(self) -> MongoDbTask:
        return MongoDbConnector(MongoDbSettings.read(self._properties)).task()

    def restart(self) -> None:
        self.task.close()
        self.task = self._new_task()

    def close(self) -> None:
        self.task.close()
        self.client.close()

    def step(self, max_records: int = 1000) -> list[SourceRecord]:
        end = self.task.reach(self.positions, max_records)
        found = [*self.task.read(self.positions, end)] if end != self.positions else []
        self.task.stored(end)
        self.positions = end
        return found

    def drain(self, is_last: Callable[[SourceRecord], bool]) -> list[SourceRecord]:
        """Drains until a record. The stand-in's clock has seconds, so changes of the second before
        a snapshot come again behind it; MongoDB counts the changes of a second."""
        found: list[SourceRecord] = []
        for _ in range(_MOST_CALLS):
            found += self.step()
            if any(map(is_last, found)):
                return found
        raise AssertionError(f"{[_short(record) for record in found]} came")


@pytest.fixture
def bench(mongodb: str) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**properties: str) -> Bench:
        made.append(Bench(mongodb, **properties))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _short(record: SourceRecord) -> tuple[str | None, str, Any]:
    value = record.value or {}
    after = value.get("after")
    return value.get("op"), record.key["id"], after and json.loads(after)


def test_documents_and_changes_are_records(bench: Callable[..., Bench]) -> None:
    here = bench()
    here.items.insert_many([{"_id": 1, "a": Int64(5)}, {"_id": 2, "a": None}])
    records = here.drain(lambda record: record.key["id"] == "2")
    assert [_short(record) for record in records] == [
        ("r", "1", {"_id": 1, "a": {"$numberLong": "5"}}),
        ("r", "2", {"_id": 2, "a": None}),
    ]
    key = ObjectId("65a000000000000000000001")
    here.items.insert_one({"_id": key, "list": [1, {"b": "ü"}]})
    here.items.delete_one({"_id": 1})
    inserted, deleted, tombstone = here.drain(lambda record: record.value is None)[-3:]
    assert inserted.topic == f"shop.{here.database}.items"
    assert inserted.key == {"id": '{"$oid": "65a000000000000000000001"}'}
    assert inserted.value["after"] == (
        '{"_id": {"$oid": "65a000000000000000000001"},"list": [1,{"b": "ü"}]}'
    )
    assert _short(deleted) == ("d", "1", None)
    assert tombstone.value is None


def test_a_new_task_goes_on_where_the_last_one_was(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_fetch_size="3")
    mixed: list[Any] = [*range(5), "a", "b", ObjectId("65a000000000000000000001")]
    here.items.insert_many([{"_id": key} for key in mixed])
    found: list[SourceRecord] = []
    while len(found) < len(mixed):
        found += here.step()
        here.restart()
    assert [record.key["id"] for record in found] == [
        "0", "1", "2", "3", "4", '"a"', '"b"', '{"$oid": "65a000000000000000000001"}',
    ]  # fmt: skip
    for number in range(10, 20):
        here.items.insert_one({"_id": number})
    keys: list[str] = []
    while "19" not in keys:
        keys += [record.key["id"] for record in here.step(max_records=2)]
        here.restart()
    wanted = [str(number) for number in range(10, 20)]
    assert [key for key in keys if key in wanted] == wanted


def test_nothing_is_read_before_the_connector_without_a_snapshot(
    bench: Callable[..., Bench],
) -> None:
    here = bench(snapshot_mode="no_data")
    here.items.insert_one({"_id": 1})
    here.positions = here.task.reach(here.positions, 10)
    here.items.insert_one({"_id": 2})
    assert all(_short(record)[0] != "r" for record in here.drain(_is_second))


def _is_second(record: SourceRecord) -> bool:
    return bool(record.key["id"] == "2")


def test_a_server_that_does_not_answer_is_tried_again() -> None:
    settings = MongoDbSettings.read(
        {
            "topic.prefix": "p",
            "mongodb.connection.string": "mongodb://127.0.0.1:1/",
            "mongodb.server.selection.timeout.ms": "50",
        }
    )
    connector = MongoDbConnector(settings)
    assert "does not answer" in connector.wrong_outside()["mongodb.connection.string"][0]
    task = connector.task()
    with pytest.raises(Unavailable, match="MongoDB does not answer"):
        task.reach(Positions(), 10)
    task.close()
