"""One directory, two brokers: Apache Kafka and Odradek take turns on the same files.

Kafka writes, Odradek's storage loads, verifies, appends and stops; Kafka starts again and serves
everything; then the same after a kill -9 of each. Kafka's own dump-log reads what ours wrote.
"""

import asyncio
import time
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from odradek.config import BrokerSettings
from odradek.protocol.compression import Codec
from odradek.protocol.records import BatchBuilder, decode_records, split_batches
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import Log, LogManager
from odradek.storage.text_files import read_directory_properties
from odradek.world import World
from tests.log_verification import verify_log

TOPIC = "shared"
KAFKA_SETTINGS = {"log.index.interval.bytes": "500"}
OUR_SETTINGS = {"log.segment.bytes": "30000", "log.index.interval.bytes": "500"}


def value_of(number: int) -> bytes:
    return b"value %d " % number + bytes(50)


def values_up_to(count: int) -> list[bytes | None]:
    return [value_of(number) for number in range(count)]


def produce(bootstrap: str, first: int, count: int) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "batch.num.messages": 7,
            "log_level": 0,
        }
    )
    for number in range(first, first + count):
        producer.produce(TOPIC, value_of(number), b"key %d" % number, partition=0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "check.crcs": True, "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        values += [
            message.value() for message in consumer.consume(1000, 0.5) if not message.error()
        ]
    consumer.close()
    return values


def read_all(log: Log) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = log.log_start_offset
    while (found := log.read(offset, 5000)) is not None:
        data = found.read(0, len(found))
        found.release()
        for position, header in split_batches(data):
            values += [record.value for record in decode_records(data, position)]
            offset = header.next_offset
    return values


async def take_a_turn(directory: Path, *, was_clean: bool, stops_cleanly: bool) -> int:
    """Loads what Kafka left, checks it, appends 500 records; returns how many there are now."""
    world = World()
    settings = BrokerSettings.from_properties({"log.dirs": str(directory), **OUR_SETTINGS})
    cluster_id = read_directory_properties(world.disk, str(directory))["cluster.id"]
    manager = LogManager(settings, world, cluster_id=cluster_id, node_id=BrokerId(1))
    await manager.load()
    assert manager.had_clean_shutdown is was_clean
    log = manager.logs[TopicPartition(TOPIC, 0)]
    assert verify_log(world.disk, log.path, deep=True).problems == []
    count = log.log_end_offset
    assert read_all(log) == values_up_to(count)
    assert log.producers.entries
    codecs = list(Codec)
    for turn in range(100):
        builder = BatchBuilder(codecs[turn % len(codecs)])
        for number in range(count, count + 5):
            builder.append(b"key", value_of(number), (), world.clock.now_ms())
        log.append(builder.build(), leader_epoch=log.leader_epochs.latest)
        count += 5
    if stops_cleanly:
        await manager.close()
    else:
        manager.abandon()
    world.workers.close()
    return count


def test_kafka_and_odradek_take_turns_on_one_directory(
    kafka_home: ApacheKafka, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        del admin
        produce(kafka.bootstrap, 0, 2000)
    count = asyncio.run(take_a_turn(data, was_clean=True, stops_cleanly=True))
    assert count == 2500
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        assert consume(kafka.bootstrap, count) == values_up_to(count)
        produce(kafka.bootstrap, count, 500)
        kafka.kill()
    count = asyncio.run(take_a_turn(data, was_clean=False, stops_cleanly=False))
    assert count == 3500
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        assert consume(kafka.bootstrap, count) == values_up_to(count)
    dumped = dump(kafka_home, data / f"{TOPIC}-0")
    assert dumped.count("isvalid: true") >= 500
    assert "isvalid: false" not in dumped
    assert "Mismatches" not in dumped


def dump(kafka_home: ApacheKafka, directory: Path) -> str:
    logs = ",".join(str(path) for path in sorted(directory.glob("*.log")))
    indexes = ",".join(str(path) for path in sorted(directory.glob("*index")))
    return kafka_home.run_tool("dump-log", "--files", logs) + kafka_home.run_tool(
        "dump-log", "--files", indexes, "--verify-index-only"
    )
