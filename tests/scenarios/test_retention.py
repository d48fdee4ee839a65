"""Retention in real time, with settings of seconds that change while the broker runs.

A segment older than `retention.ms` is gone within that time and one check interval. Consumers that
stood below the new start resume under `earliest` and are told under `none`.
"""

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.broker_process import odradek_broker
from odradek.client import Consumer
from odradek.client.errors import OffsetOutOfRange
from odradek.protocol.types import TopicPartition as Partition

TOPIC = "ageing"
RETENTION_S = 5.0
CHECK_S = 1.0
DELAY_S = 1.0
# A request, a tick of the deletions and a busy machine.
GRACE_S = 1.5
QUIET = {"log_level": 0}


def produce(bootstrap: str, *values: bytes) -> float:
    """When the last one was acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for value in values:
        producer.produce(TOPIC, value, partition=0)
        assert producer.flush(10) == 0  # A batch each: segments close between batches.
    return time.monotonic()


def start_of_log(consumer: LibrdkafkaConsumer) -> int:
    return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[0])


def librdkafka_consumer(bootstrap: str, reset: str) -> LibrdkafkaConsumer:
    return LibrdkafkaConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": reset, **QUIET}
    )


def alter(admin: AdminClient, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(10)


def first_read(consumer: LibrdkafkaConsumer) -> bytes | KafkaError | None:
    consumer.assign([TopicPartition(TOPIC, 0, 1)])
    try:
        message = consumer.poll(10)
    except KafkaException as error:
        return error.args[0]
    assert message is not None
    return message.error() or message.value()


async def check_own_client(bootstrap: str) -> None:
    where = Partition(TOPIC, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        consumer.seek(where, 1)
        records = await consumer.poll(timeout_ms=10_000)
        assert [record.value for record in records[where]] == [b"fresh"]
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([where])
        consumer.seek(where, 1)
        with pytest.raises(OffsetOutOfRange):
            await consumer.poll(timeout_ms=10_000)


def test_an_old_segment_goes_in_time_and_consumers_resume(tmp_path: Path) -> None:
    overrides = {"log.retention.check.interval.ms": str(int(CHECK_S * 1000))}
    with odradek_broker(tmp_path, overrides) as broker:
        bootstrap = broker.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        topic = NewTopic(TOPIC, 1, 1, config={"segment.bytes": "200"})
        admin.create_topics([topic])[TOPIC].result(10)
        written_s = produce(bootstrap, *(b"%d" % number * 50 for number in range(5)))
        earliest = librdkafka_consumer(bootstrap, "earliest")
        none = librdkafka_consumer(bootstrap, "error")
        # A week is the default. Nothing goes before the topic says otherwise.
        alter(
            admin,
            retention_ms=str(int(RETENTION_S * 1000)),
            file_delete_delay_ms=str(int(DELAY_S * 1000)),
        )
        while start_of_log(earliest) < 5:
            assert time.monotonic() - written_s < RETENTION_S + CHECK_S + GRACE_S
            time.sleep(0.02)
        gone_s = time.monotonic() - written_s
        assert gone_s > RETENTION_S - 0.5
        log = next(tmp_path.rglob(f"{TOPIC}-0"))
        deadline_s = time.monotonic() + DELAY_S + GRACE_S
        while any(int(path.name.split(".")[0]) < 5 for path in log.glob("*.log*")):
            assert time.monotonic() < deadline_s, sorted(path.name for path in log.iterdir())
            time.sleep(0.02)
        print(f"gone {gone_s:.2f} s after it was written")
        alter(admin, retention_ms="-1")
        produce(bootstrap, b"fresh")
        assert first_read(earliest) == b"fresh"
        refusal = first_read(none)
        assert isinstance(refusal, KafkaError)
        assert refusal.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
        earliest.close()
        none.close()
        asyncio.run(check_own_client(bootstrap))
