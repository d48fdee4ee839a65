"""Where a consumer may stand: beginning, end, by time, out of range, after records were deleted."""

import asyncio
import subprocess

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import OffsetOutOfRangeError
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import ConfluentClient, KafkaPythonClient, read_messages
from tests.conformance.rows import BASE_TIMESTAMP_MS, Row, numbered_rows
from tests.conformance.topics import create_topic

COUNT = 20


@pytest.fixture
def topic(any_broker: BrokerProcess) -> str:
    """Twenty records a millisecond apart, each in a batch of its own; the tenth is the latest."""
    name = create_topic(any_broker)
    rows = numbered_rows(COUNT)
    rows[10] = rows[10]._replace(timestamp_ms=BASE_TIMESTAMP_MS + 1000)
    for row in rows:
        ConfluentClient().produce(any_broker.bootstrap, name, "none", [row])
    return name


def listed_offset(broker: BrokerProcess, topic: str, spec: OffsetSpec) -> tuple[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = TopicPartition(topic, 0)
    found = admin.list_offsets({partition: spec})[partition].result(timeout=10)
    return found.offset, found.timestamp


def delete_records(broker: BrokerProcess, topic: str, before_offset: int) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = TopicPartition(topic, 0, before_offset)
    (future,) = admin.delete_records([partition]).values()
    low_watermark: int = future.result(timeout=10).low_watermark
    return low_watermark


def test_offsets_by_specification(any_broker: BrokerProcess, topic: str) -> None:
    assert listed_offset(any_broker, topic, OffsetSpec.earliest())[0] == 0
    assert listed_offset(any_broker, topic, OffsetSpec.latest())[0] == COUNT
    latest_record = (10, BASE_TIMESTAMP_MS + 1000)
    assert listed_offset(any_broker, topic, OffsetSpec.max_timestamp()) == latest_record


@pytest.mark.parametrize(
    ("asked_ms", "offset"), [(-1, 0), (0, 0), (5, 5), (9, 9), (10, 10), (500, 10), (1001, -1)]
)
def test_offsets_by_time(any_broker: BrokerProcess, topic: str, asked_ms: int, offset: int) -> None:
    spec = OffsetSpec.for_timestamp(BASE_TIMESTAMP_MS + asked_ms)
    assert listed_offset(any_broker, topic, spec)[0] == offset
    consumer = KafkaConsumer(bootstrap_servers=any_broker.bootstrap, group_id=None)
    partition = PythonTopicPartition(topic, 0)
    found = consumer.offsets_for_times({partition: BASE_TIMESTAMP_MS + asked_ms})[partition]
    consumer.close()
    assert (found.offset if found else -1) == offset


def test_offset_by_time_inside_a_compressed_batch(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    ConfluentClient().produce(any_broker.bootstrap, topic, "lz4", numbered_rows(100))
    spec = OffsetSpec.for_timestamp(BASE_TIMESTAMP_MS + 37)
    assert listed_offset(any_broker, topic, spec) == (37, BASE_TIMESTAMP_MS + 37)


def test_watermarks_and_kcat_query(any_broker: BrokerProcess, topic: str, kcat: str) -> None:
    consumer = Consumer({"bootstrap.servers": any_broker.bootstrap, "group.id": "no-group"})
    watermarks = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    consumer.close()
    assert watermarks == (0, COUNT)
    query = f"{topic}:0:{BASE_TIMESTAMP_MS + 5}"
    command = [kcat, "-Q", "-b", any_broker.bootstrap, "-t", query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == f"{topic} [0] offset 5"


def test_reading_starts_where_it_is_told(any_broker: BrokerProcess, topic: str) -> None:
    (message,) = read_messages(any_broker.bootstrap, topic, 1, offset=17)
    assert (message.offset(), message.value()) == (17, numbered_rows(18)[17].value)


def test_deleted_records_are_gone_and_offsets_stay(any_broker: BrokerProcess, topic: str) -> None:
    assert delete_records(any_broker, topic, 7) == 7
    assert listed_offset(any_broker, topic, OffsetSpec.earliest())[0] == 7
    assert listed_offset(any_broker, topic, OffsetSpec.latest())[0] == COUNT
    (message,) = read_messages(
        any_broker.bootstrap, topic, 1, {"auto.offset.reset": "earliest"}, offset=0
    )
    assert message.offset() == 7
    assert delete_records(any_broker, topic, -1) == COUNT
    assert listed_offset(any_broker, topic, OffsetSpec.earliest())[0] == COUNT


def test_deleting_beyond_the_end_is_refused(any_broker: BrokerProcess, topic: str) -> None:
    with pytest.raises(KafkaException) as raised:
        delete_records(any_broker, topic, COUNT + 1)
    assert raised.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


async def test_a_position_out_of_range_is_said_so(any_broker: BrokerProcess, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=any_broker.bootstrap, group_id=None, auto_offset_reset="none"
    )
    await consumer.start()
    try:
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: COUNT}
        consumer.seek(partition, COUNT + 5)
        with pytest.raises(OffsetOutOfRangeError):
            await asyncio.wait_for(consumer.getone(), 10)
    finally:
        await consumer.stop()


async def test_a_waiting_fetch_gets_the_next_record(any_broker: BrokerProcess, topic: str) -> None:
    """A long poll at the end of the log answers when a record comes, not when its time is up."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=any_broker.bootstrap, group_id=None, fetch_max_wait_ms=30_000
    )
    await consumer.start()
    try:
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, COUNT)
        waiting = asyncio.create_task(consumer.getone())
        late = Row(b"late", b"record")
        await asyncio.to_thread(
            ConfluentClient().produce, any_broker.bootstrap, topic, "none", [late]
        )
        record = await asyncio.wait_for(waiting, 10)
        assert (record.offset, record.value) == (COUNT, b"record")
    finally:
        await consumer.stop()


def test_pause_resume_and_seek_back(any_broker: BrokerProcess, topic: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=any_broker.bootstrap, group_id=None, fetch_max_wait_ms=50
    )
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    try:
        consumer.seek(partition, 3)
        assert next(consumer).offset == 3
        consumer.pause(partition)
        assert consumer.poll(timeout_ms=300) == {}
        consumer.resume(partition)
        assert next(consumer).offset == 4
        consumer.seek_to_beginning(partition)
        assert next(consumer).offset == 0
    finally:
        consumer.close()
    assert len(KafkaPythonClient().consume(any_broker.bootstrap, topic, COUNT)) == COUNT
