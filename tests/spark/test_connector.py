"""Spark's own Kafka connector, unchanged, on our broker: read and write, in batches and streams."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark_connector import connector_jars
from odradek.client.sync import Producer
from odradek.testing import Cluster
from tests.needs import need
from tests.spark.conftest import java
from tests.spark.topics import fill, records_in, values_in

pytestmark = pytest.mark.xdist_group("spark")

_PARTITIONS = 2


class Connector:
    """The program that has the connector; `connector.ask("read", subscribe=topic)`."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, method: str, **arguments: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"Spark's connector failed:\n{self._log.read_text()[-4000:]}"
        return json.loads(answer)


@pytest.fixture(scope="module")
def connector(brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    need(java)
    jars = need(connector_jars)
    where = tmp_path_factory.mktemp("connector")
    log = where / "driver.log"
    command = [sys.executable, "-m", "tests.spark.connector_driver", ",".join(jars)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("w") as said:
        process = subprocess.Popen(
            [*command, brokers.bootstrap, str(where)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=Path(__file__).parents[2],
            env=environment,
        )
    with process:  # at its end its input is closed, upon which it ends by itself
        yield Connector(process, log)


def source(brokers: Cluster, count: int) -> str:
    """A topic with `count` records, in both partitions."""
    topic = brokers.create_topic(partitions=_PARTITIONS)
    grow(brokers, topic, 0, count)
    return topic


def grow(brokers: Cluster, topic: str, first: int, end: int) -> None:
    fill(brokers, topic, [b"value %d" % index for index in range(first, end)])


def as_seen(brokers: Cluster, topic: str) -> list[tuple[int, int, str]]:
    """Partition, offset and value, as our own consumer sees them."""
    return [
        (one.partition, one.offset, one.value.decode())
        for one in records_in(brokers, topic, _PARTITIONS)
    ]


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def test_a_batch_is_read(connector: Connector, brokers: Cluster) -> None:
    topic = source(brokers, 100)
    seen = as_seen(brokers, topic)
    rows = connector.ask("read", subscribe=topic, includeHeaders="true", minPartitions="4")
    assert places(rows) == seen
    assert len(seen) == 100
    assert {row["partition"] for row in rows} == {0, 1}
    for row in rows:
        number = int(row["value"].removeprefix("value "))
        assert row["key"] == row["value"]
        assert (row["topic"], row["timestamp"], row["timestampType"]) == (topic, 1000 + number, 0)
        assert row["headers"] is None


def test_a_part_of_a_topic_is_read(connector: Connector, brokers: Cluster) -> None:
    topic = source(brokers, 100)
    seen = as_seen(brokers, topic)
    late = connector.ask("read", subscribe=topic, startingTimestamp="1090")
    assert sorted(row["timestamp"] for row in late) == list(range(1090, 1100))
    some = connector.ask(
        "read",
        assign=json.dumps({topic: [0]}),
        startingOffsets=json.dumps({topic: {"0": 3}}),
        endingOffsets=json.dumps({topic: {"0": 5}}),
    )
    assert places(some) == [one for one in seen if one[0] == 0 and 3 <= one[1] < 5]


def test_an_aborted_transaction_is_not_read(connector: Connector, brokers: Cluster) -> None:
    topic = source(brokers, 10)
    name = f"aborting-{topic}"
    with Producer(bootstrap_servers=brokers.bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    grow(brokers, topic, 10, 20)
    committed = {"kafka.isolation.level": "read_committed"}
    rows = connector.ask("read", subscribePattern=f"{topic}.*", **committed)
    assert sorted(row["value"] for row in rows) == sorted(f"value {i}" for i in range(20))
    everything = connector.ask("read", subscribe=topic)
    assert "aborted" in {row["value"] for row in everything}


def test_a_stream_is_read_and_goes_on_from_its_checkpoint(
    connector: Connector, brokers: Cluster
) -> None:
    topic = source(brokers, 100)
    first = connector.ask("stream_to_files", topic=topic, max_a_batch=40)
    assert sum(first["batches"]) == 100
    assert len(first["batches"]) >= 3
    grow(brokers, topic, 100, 130)
    again = connector.ask("stream_to_files", topic=topic, max_a_batch=40)
    assert sum(again["batches"]) == 30
    assert places(again["rows"]) == as_seen(brokers, topic)


def test_a_batch_is_written(connector: Connector, brokers: Cluster) -> None:
    topic = brokers.create_topic(partitions=_PARTITIONS)
    connector.ask("write", topic=topic, rows=100)
    records = records_in(brokers, topic, _PARTITIONS)
    numbers = sorted(int(one.key.decode().removeprefix("key ")) for one in records)
    assert numbers == list(range(100))
    for one in records:
        number = int(one.key.decode().removeprefix("key "))
        assert one.value == (None if number == 7 else b"value %d" % number)
        assert one.partition == number % 2
        assert list(one.headers) == [("h", b"x")]


def test_a_stream_is_written_and_goes_on_from_its_checkpoint(
    connector: Connector, brokers: Cluster
) -> None:
    topic = source(brokers, 100)
    copy = brokers.create_topic(partitions=_PARTITIONS)
    first = connector.ask("stream_to_topic", source=topic, sink=copy, max_a_batch=40)
    assert sum(first) == 100
    assert len(values_in(brokers, copy, _PARTITIONS)) == 100
    grow(brokers, topic, 100, 130)
    again = connector.ask("stream_to_topic", source=topic, sink=copy, max_a_batch=40)
    assert sum(again) == 30
    assert sorted(values_in(brokers, copy, _PARTITIONS)) == sorted(
        b"VALUE %d" % index for index in range(130)
    )
