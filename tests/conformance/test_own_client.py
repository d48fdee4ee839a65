"""Our own client against Apache Kafka and against our own broker: the same must hold for both."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from benchmarks.broker_process import BrokerProcess
from odradek.client import (
    Connection,
    Consumer,
    ConsumerRecord,
    KafkaError,
    Producer,
    TopicPartition,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.conformance.own_client import run
from tests.conformance.topics import KEEP_OLD_RECORDS, create_topic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def read(
    broker: BrokerProcess, topic: str, count: int, partitions: int = 1, **options: Any
) -> list[ConsumerRecord]:
    options = {"auto_offset_reset": "earliest", **options}
    found: list[ConsumerRecord] = []
    async with Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        while len(found) < count:
            for records in (await consumer.poll(20_000)).values():
                found += records
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_is_consumed(any_broker: BrokerProcess, codec: str) -> None:
    topic = create_topic(any_broker, config=KEEP_OLD_RECORDS)
    headers: list[tuple[str, bytes | None]] = [("trace", b"\x00\xff"), ("trace", None), ("é", b"")]

    async def work() -> None:
        options: dict[str, Any] = {"compression_type": codec, "linger_ms": 20}
        async with Producer(bootstrap_servers=any_broker.bootstrap, **options) as producer:
            deliveries = [
                await producer.send(
                    topic, b"%d" % number, b"k%d" % (number % 7), timestamp_ms=number
                )
                for number in range(2_000)
            ]
            deliveries.append(await producer.send(topic, None, b"tombstone", timestamp_ms=1))
            deliveries.append(
                await producer.send(topic, b"", None, headers=headers, timestamp_ms=2)
            )
            placed = [await delivery for delivery in deliveries]
        assert [one.offset for one in placed] == list(range(2_002))
        found = await read(any_broker, topic, 2_002)
        assert [int(record.value) for record in found[:2_000]] == list(range(2_000))
        assert [record.timestamp_ms for record in found[:2_000]] == list(range(2_000))
        assert [record.offset for record in found] == list(range(2_002))
        assert (found[-2].key, found[-2].value) == (b"tombstone", None)
        assert (found[-1].key, found[-1].value, found[-1].headers) == (None, b"", headers)

    run(work())


def test_many_partitions_keep_their_order(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, partitions=6)

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap, batch_size=500) as producer:
            for number in range(6_000):
                await producer.send(topic, b"%d" % number, partition=number % 6)
        found = await read(any_broker, topic, 6_000, partitions=6)
        for index in range(6):
            mine = [int(record.value) for record in found if record.partition == index]
            assert mine == list(range(index, 6_000, 6))

    run(work())


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(any_broker: BrokerProcess, acks: str) -> None:
    topic = create_topic(any_broker)

    async def work() -> None:
        options: dict[str, Any] = {"acks": acks, "enable_idempotence": False}
        async with Producer(bootstrap_servers=any_broker.bootstrap, **options) as producer:
            placed = await producer.send_and_wait(topic, b"v")
            assert placed.offset == (-1 if acks == "0" else 0)
        assert [record.value for record in await read(any_broker, topic, 1)] == [b"v"]

    run(work())


def test_the_largest_record_and_one_that_is_too_large(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config={"max.message.bytes": "100000"})

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap, batch_size=90_000) as producer:
            await producer.send_and_wait(topic, b"x" * 99_900)
            delivery = await producer.send(topic, b"x" * 100_000)
            with pytest.raises(KafkaError) as raised:
                await delivery
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await producer.send_and_wait(topic, b"after")
        found = await read(any_broker, topic, 2, max_partition_fetch_bytes=1_000)
        assert [len(record.value) for record in found] == [99_900, 5]

    run(work())


def test_a_batch_that_is_too_large_is_split_until_it_fits(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config={"max.message.bytes": "3000"})

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=100) as producer:
            for number in range(100):
                await producer.send(topic, b"%100d" % number)
        found = await read(any_broker, topic, 100)
        assert [int(record.value) for record in found] == list(range(100))

    run(work())


def test_log_append_time_is_told_to_producer_and_consumer(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config={"message.timestamp.type": "LogAppendTime"})

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            placed = await producer.send_and_wait(topic, b"v", timestamp_ms=5)
        assert placed.timestamp_ms > 1_600_000_000_000
        (record,) = await read(any_broker, topic, 1)
        assert (record.timestamp_ms, record.timestamp_type) == (placed.timestamp_ms, 1)

    run(work())


def test_others_read_what_we_wrote(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)

    async def work() -> None:
        async with Producer(
            bootstrap_servers=any_broker.bootstrap, compression_type="zstd"
        ) as producer:
            for number in range(500):
                await producer.send(topic, b"%d" % number, b"key", headers=[("h", b"v")])

    run(work())
    consumer = ConfluentConsumer(
        {"bootstrap.servers": any_broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    messages: list[Any] = []
    while len(messages) < 500:
        messages += consumer.consume(500, timeout=20)
    consumer.close()
    assert [message.value() for message in messages] == [b"%d" % number for number in range(500)]
    assert messages[0].headers() == [("h", b"v")]


def test_keys_go_where_other_clients_send_them(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, partitions=7)
    theirs: dict[bytes, int] = {}
    producer = ConfluentProducer(
        {"bootstrap.servers": any_broker.bootstrap, "partitioner": "murmur2_random"}
    )
    keys = [b"key-%d" % number for number in range(50)]
    for key in keys:
        producer.produce(
            topic,
            b"",
            key,
            on_delivery=lambda error, sent: theirs.__setitem__(sent.key(), sent.partition()),
        )
    producer.flush(20)

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap) as ours:
            for key in keys:
                assert (await ours.send_and_wait(topic, b"", key)).partition == theirs[key]

    run(work())


def test_a_consumer_stands_where_it_was_told_to(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, partitions=2, config=KEEP_OLD_RECORDS)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            for number in range(100):
                await producer.send(topic, b"", partition=0, timestamp_ms=1_000 + number)
        async with Consumer(bootstrap_servers=any_broker.bootstrap) as consumer:
            assert await consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
            assert await consumer.end_offsets([first, second]) == {first: 100, second: 0}
            found = await consumer.offsets_for_times({first: 1_042, second: 5})
            at = found[first]
            assert at is not None
            assert (at.offset, at.timestamp_ms) == (42, 1_042)
            assert found[second] is None
            consumer.assign([first, second])
            assert await consumer.position(first) == 100, "auto.offset.reset is latest"
            consumer.seek_to_timestamp(1_090, [first])
            assert await consumer.position(first) == 90
            consumer.seek(first, 7)
            (record,) = (await consumer.poll(20_000, max_records=1))[first]
            assert record.offset == 7
            consumer.seek_to_beginning()
            (record,) = (await consumer.poll(20_000, max_records=1))[first]
            assert record.offset == 0
            consumer.seek(first, 5_000)
            assert await consumer.poll(100) == {}
            assert await consumer.position(first) in (100, 5_000)

    run(work())


def test_records_arrive_while_a_consumer_waits(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, partitions=3)

    async def work() -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest"}
        async with (
            Consumer(bootstrap_servers=any_broker.bootstrap, **options) as consumer,
            Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer,
        ):
            consumer.assign([TopicPartition(topic, index) for index in range(3)])
            for number in range(30):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 3)
                record = await anext(consumer)
                assert int(record.value) == number

    run(work())


def test_a_lone_connection(any_broker: BrokerProcess) -> None:
    host, port = any_broker.bootstrap.rsplit(":", 1)

    async def work() -> None:
        connection = await Connection.open(host, int(port))
        requests = [
            connection.request(MetadataRequest(topics=[]), MetadataResponse) for _ in range(200)
        ]
        responses = await asyncio.gather(*requests)
        assert {response.brokers[0].port for response in responses} == {int(port)}
        for version in range(14):
            response = await connection.request(
                MetadataRequest(topics=[]), MetadataResponse, max_version=version
            )
            assert response.brokers[0].port == int(port)
        connection.close()
        await connection.wait_closed()

    run(work())


def test_read_committed_hides_what_others_aborted(apache_kafka: BrokerProcess) -> None:
    topic = create_topic(apache_kafka)
    producer = ConfluentProducer(
        {"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{turn}.{number}")
        producer.flush(20)
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    async def work() -> None:
        committed = await read(apache_kafka, topic, 9, isolation_level="read_committed")
        turns = [record.value[:1] for record in committed]
        assert turns == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
        everything = await read(apache_kafka, topic, 18)
        assert len(everything) == 18
        async with Consumer(
            bootstrap_servers=apache_kafka.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            partition = TopicPartition(topic, 0)
            (end,) = (await consumer.end_offsets([partition])).values()
            assert end == 24, "three records and a marker for each transaction"
            consumer.assign([partition])
            found = 0
            while await consumer.position(partition) < end:
                found += sum(map(len, (await consumer.poll(1_000)).values()))
            assert found == 9

    run(work())
