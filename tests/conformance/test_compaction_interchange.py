"""One compacted topic, two cleaners: Apache Kafka and Odradek take turns on the same files.

Kafka writes a topic with tombstones, every codec and transactions; Odradek compacts it. Kafka's
dump-log and console consumer read what is left, Kafka's own cleaner goes on where ours stopped,
and Odradek reads what that left.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.apache_kafka import ApacheKafka
from odradek.config import BrokerSettings, TopicSettings
from odradek.protocol.records import decode_records, split_batches
from odradek.protocol.types import BrokerId, Offset, TopicPartition
from odradek.storage import Log, LogManager
from odradek.storage.text_files import decode_offsets, read_directory_properties
from odradek.world import World
from tests.conformance.patience import eventually
from tests.conformance.test_storage_both_ways import dump
from tests.log_verification import verify_log

TOPIC = "states"
KEYS = 40
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KAFKA_SETTINGS = {
    "log.index.interval.bytes": "200",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "100",
}
# Kafka 4 takes no segments below a megabyte; ours are made by rolling.
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}

Newest = dict[bytes, bytes | None]


def write(bootstrap: str, newest: Newest, *, first: int, count: int, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "batch.num.messages": 20,
            "log_level": 0,
        }
    )
    for number in range(first, first + count):
        key = b"key %d" % (number * 7 % KEYS)
        value = None if number % 13 == 0 else b"value %d " % number + bytes(30)
        producer.produce(TOPIC, value, key, 0, headers=[("number", b"%d" % number)])
        newest[key] = value
    assert producer.flush(30) == 0


def write_transactions(bootstrap: str, newest: Newest) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "compaction", "log_level": 0}
    )
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        key, value = b"key %d" % number, b"in transaction %d" % number
        producer.produce(TOPIC, value, key, 0)
        producer.flush()
        if number % 2:
            producer.commit_transaction()
            newest[key] = value
        else:
            producer.abort_transaction()


def read_by_tool(kafka_home: ApacheKafka, bootstrap: str) -> Newest:
    """What Kafka's console consumer shows, the last line of each key."""
    output = kafka_home.run_tool(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--timeout-ms", "5000", "--isolation-level", "read_committed"),
        *("--formatter-property", "print.key=true"),
        *("--formatter-property", "null.literal=none"),
    )
    found: Newest = {}
    for line in output.splitlines():
        key, value = line.split("\t", 1)
        found[key.encode()] = None if value == "none" else value.encode()
    return found


def present(newest: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {key: value for key, value in newest.items() if value is not None}


async def compact(directory: Path) -> tuple[int, int]:
    """Loads what Kafka left and compacts it; how many records there were and are."""
    world = World()
    settings = BrokerSettings.from_properties(
        {"log.dirs": str(directory), "log.index.interval.bytes": "200"}
    )
    cluster_id = read_directory_properties(world.disk, str(directory))["cluster.id"]
    manager = LogManager(settings, world, cluster_id=cluster_id, node_id=BrokerId(1))
    topic = TopicSettings({"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0})
    await manager.load(lambda _: topic)
    log = manager.logs[TopicPartition(TOPIC, 0)]
    before = verify_log(world.disk, log.path, deep=True)
    assert before.problems == []
    log.roll()
    log.high_watermark = log.log_end_offset
    while log.recovery_point < log.active_segment.base_offset:
        log.flusher.request(log.log_end_offset)
        await asyncio.sleep(0.01)
    assert await manager.cleaner.clean_one()
    await manager.cleaner.end()
    assert not manager.cleaner.uncleanable
    after = verify_log(world.disk, log.path, deep=True)
    assert after.problems == []
    await manager.close()
    world.workers.close()
    return before.records, after.records


async def read_with_odradek(directory: Path) -> Newest:
    world = World()
    settings = BrokerSettings.from_properties({"log.dirs": str(directory)})
    cluster_id = read_directory_properties(world.disk, str(directory))["cluster.id"]
    manager = LogManager(settings, world, cluster_id=cluster_id, node_id=BrokerId(1))
    await manager.load()
    log = manager.logs[TopicPartition(TOPIC, 0)]
    assert verify_log(world.disk, log.path, deep=True).problems == []
    newest = read_committed(log)
    await manager.close()
    world.workers.close()
    return newest


def read_committed(log: Log) -> Newest:
    newest: Newest = {}
    offset = log.log_start_offset
    while (found := log.read(offset, 1 << 20)) is not None:
        data = found.read(0, len(found))
        found.release()
        for position, header in split_batches(data):
            offset = header.next_offset
            is_aborted = header.is_transactional and any(
                one.producer_id == header.producer_id
                and one.first_offset <= header.base_offset <= one.last_offset
                for one in log.aborted
            )
            if not header.is_control and not is_aborted:
                for record in decode_records(data, position):
                    assert record.key is not None
                    newest[record.key] = record.value
    return newest


def _read_checkpoint(path: Path) -> dict[TopicPartition, Offset]:
    return decode_offsets(path.read_bytes()) if path.exists() else {}


def let_kafka_compact(bootstrap: str, checkpoint: Path, beyond: int) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("min.cleanable.dirty.ratio", "0.0"), ("segment.ms", "10"))
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    newest: Newest = {}
    deadline = time.monotonic() + 60
    number = 1
    while _read_checkpoint(checkpoint).get(TopicPartition(TOPIC, 0), 0) <= beyond:
        assert time.monotonic() < deadline, "Kafka's cleaner does not go on"
        write(bootstrap, newest, first=number * KEYS, count=1, codec="none")  # rolls
        number += 1
        time.sleep(0.2)


def test_two_cleaners_take_turns_on_one_topic(kafka_home: ApacheKafka, tmp_path: Path) -> None:
    data, newest = tmp_path / "data", Newest()
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)
        for number, codec in enumerate(CODECS):
            write(kafka.bootstrap, newest, first=200 * number, count=200, codec=codec)
        write_transactions(kafka.bootstrap, newest)
        end = _end_offset(kafka.bootstrap)
    before, after = asyncio.run(compact(data))
    assert before == end
    assert after < before / 5
    checkpoint = data / "cleaner-offset-checkpoint"
    assert _read_checkpoint(checkpoint) == {TopicPartition(TOPIC, 0): end}
    dumped = dump(kafka_home, data / f"{TOPIC}-0")
    assert "isvalid: false" not in dumped
    assert "Mismatches" not in dumped
    assert "deleteHorizonMs: OptionalLong[" in dumped
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        assert _end_offset(kafka.bootstrap) == end
        found = read_by_tool(kafka_home, kafka.bootstrap)
        expected = {key: value.rstrip(b"\0") for key, value in present(newest).items()}
        shown = {key: value.replace(b"\0", b"") for key, value in present(found).items()}
        assert shown == expected
        write(kafka.bootstrap, newest, first=2000, count=300, codec="lz4")
        let_kafka_compact(kafka.bootstrap, checkpoint, end)
    newest[b"key 0"] = (found_now := asyncio.run(read_with_odradek(data)))[b"key 0"]
    assert present(found_now) == present(newest)


def _end_offset(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "end", "log_level": 0}
    )
    where = confluent_kafka.TopicPartition(TOPIC, 0)

    def ask() -> int | None:
        try:
            return int(consumer.get_watermark_offsets(where, timeout=30)[1])
        except confluent_kafka.KafkaException as refused:
            # A broker that has just started knows its partitions a moment before it leads them.
            if refused.args[0].code() != confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return None

    end = eventually(ask, lambda answer: answer is not None)
    consumer.close()
    assert end is not None
    return end
