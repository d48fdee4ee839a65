"""Transactions with real clients: who sees what, whose offsets count, who is fenced.

Every test runs against Apache Kafka first: what it says of a transaction must hold there.
"""

import asyncio
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from benchmarks.apache_kafka import SHORT_TOOL_JVM_FLAGS, ApacheKafka, java_program
from benchmarks.broker_process import BrokerProcess, odradek_broker
from tests.conformance.patience import PATIENCE_S, eventually
from tests.conformance.topics import create_topic, partition_directory

JAVA_STORY = Path(__file__).resolve().parent.parent / "java" / "TransactionStory.java"

Transactions = Sequence[tuple[str, bool]]
"""A value, and whether its transaction is committed."""

THREE: Transactions = (("a", True), ("b", False), ("c", True))


def new_id() -> str:
    return f"tx-{uuid.uuid4().hex[:12]}"


# Writers


def confluent_producer(
    broker: BrokerProcess, transactional_id: str, **settings: object
) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "log_level": 0,
            **settings,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def write_with_confluent(broker: BrokerProcess, topic: str, transactions: Transactions) -> None:
    producer = confluent_producer(broker, new_id())
    for value, committed in transactions:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        # An abort discards what was not sent yet.
        assert producer.flush(PATIENCE_S) == 0
        (producer.commit_transaction if committed else producer.abort_transaction)(PATIENCE_S)


def write_with_kafka_python(broker: BrokerProcess, topic: str, transactions: Transactions) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=new_id())
    producer.init_transactions()
    for value, committed in transactions:
        producer.begin_transaction()
        producer.send(topic, value.encode(), partition=0).get(PATIENCE_S)
        (producer.commit_transaction if committed else producer.abort_transaction)()
    producer.close()


def write_with_aiokafka(broker: BrokerProcess, topic: str, transactions: Transactions) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=new_id())
        await producer.start()
        try:
            for value, committed in transactions:
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value.encode(), partition=0)
                await (producer.commit_transaction() if committed else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(write())


# Readers


def read_with_confluent(broker: BrokerProcess, topic: str, isolation: str) -> list[str]:
    """Until the end: the last stable offset, or the high watermark."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "no-group",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, values
        error = message.error()
        if error is None:
            values.append((message.value() or b"").decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return values


def read_with_kafka_python(broker: BrokerProcess, topic: str, isolation: str) -> list[str]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=None,
        isolation_level=isolation,
        fetch_max_wait_ms=10,
    )
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    values: list[str] = []
    while consumer.position(partition) < end:
        for record in consumer.poll(200).get(partition, []):
            values.append(record.value.decode())
    consumer.close()
    return values


def read_with_aiokafka(broker: BrokerProcess, topic: str, isolation: str) -> list[str]:
    async def read() -> list[str]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, isolation_level=isolation, fetch_max_wait_ms=10
        )
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            values: list[str] = []
            while await consumer.position(partition) < end:
                found = await consumer.getmany(partition, timeout_ms=200)
                values += [record.value.decode() for record in found.get(partition, [])]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(read())


WRITERS = (write_with_confluent, write_with_kafka_python, write_with_aiokafka)
READERS = (read_with_confluent, read_with_kafka_python, read_with_aiokafka)


@pytest.mark.parametrize("write", WRITERS, ids=lambda function: function.__name__)
def test_readers_see_what_is_committed(
    any_broker: BrokerProcess, write: Callable[[BrokerProcess, str, Transactions], None]
) -> None:
    topic = create_topic(any_broker)
    write(any_broker, topic, THREE)
    eventually(
        lambda: latest(any_broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 6
    )
    for read in READERS:
        assert read(any_broker, topic, "read_committed") == ["a", "c"], read.__name__
        assert read(any_broker, topic, "read_uncommitted") == ["a", "b", "c"], read.__name__


def latest(broker: BrokerProcess, topic: str, isolation: IsolationLevel) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = TopicPartition(topic, 0)
    listed = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation)
    offset: int = listed[partition].result(PATIENCE_S).offset
    return offset


def test_an_open_transaction_holds_back_those_behind_it(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    opened = confluent_producer(any_broker, new_id())
    opened.begin_transaction()
    opened.produce(topic, "first", partition=0)
    assert opened.flush(PATIENCE_S) == 0
    write_with_confluent(any_broker, topic, [("second", True), ("third", False)])
    assert latest(any_broker, topic, IsolationLevel.READ_COMMITTED) == 0
    assert read_with_confluent(any_broker, topic, "read_committed") == []
    assert read_with_confluent(any_broker, topic, "read_uncommitted") == [
        "first",
        "second",
        "third",
    ]
    opened.commit_transaction(PATIENCE_S)
    eventually(
        lambda: latest(any_broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 6
    )
    assert read_with_confluent(any_broker, topic, "read_committed") == ["first", "second"]


def test_many_transactions_interleave(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    producers = [confluent_producer(any_broker, new_id()) for _ in range(3)]
    expected = []
    for round_ in range(10):
        for producer in producers:
            producer.begin_transaction()
        for number, producer in enumerate(producers):
            for part in range(3):
                producer.produce(topic, f"{round_} {number} {part}", partition=0)
            assert producer.flush(PATIENCE_S) == 0
        for number, producer in enumerate(producers):
            if (round_ + number) % 3:
                producer.commit_transaction(PATIENCE_S)
                expected += [f"{round_} {number} {part}" for part in range(3)]
            else:
                producer.abort_transaction(PATIENCE_S)
    eventually(
        lambda: latest(any_broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 120
    )
    for read in READERS:
        assert read(any_broker, topic, "read_committed") == expected, read.__name__


def committed_offset(broker: BrokerProcess, group: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    found = admin.list_consumer_group_offsets(asked, require_stable=True)[group]
    offset: int = found.result(PATIENCE_S).topic_partitions[0].offset
    return offset


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_go_with_their_transaction(any_broker: BrokerProcess, committed: bool) -> None:
    """Consume, transform, produce: position and output count together, or neither does."""
    source, target = create_topic(any_broker), create_topic(any_broker)
    write_with_confluent(any_broker, source, [("a", True), ("b", True)])
    group = f"g-{uuid.uuid4().hex[:12]}"
    consumer = Consumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = confluent_producer(any_broker, new_id())
    messages = consumer.consume(2, PATIENCE_S)
    assert [message.value() for message in messages] == [b"a", b"b"]
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, (message.value() or b"").upper(), partition=0)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
    )
    assert producer.flush(PATIENCE_S) == 0
    (producer.commit_transaction if committed else producer.abort_transaction)(PATIENCE_S)
    consumer.close()
    # The second record stands behind the marker of the first.
    assert committed_offset(any_broker, group, source) == (3 if committed else -1001)
    eventually(
        lambda: latest(any_broker, target, IsolationLevel.READ_COMMITTED), lambda end: end == 3
    )
    seen = read_with_confluent(any_broker, target, "read_committed")
    assert seen == (["A", "B"] if committed else [])


def test_aiokafka_commits_offsets_in_a_transaction(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    group = f"g-{uuid.uuid4().hex[:12]}"

    async def commit() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=any_broker.bootstrap, transactional_id=new_id()
        )
        await producer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a", partition=0)
                await producer.send_offsets_to_transaction({partition: 5}, group)
        finally:
            await producer.stop()

    asyncio.run(commit())
    assert committed_offset(any_broker, group, topic) == 5


def test_the_next_producer_fences_the_one_before(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    transactional_id = new_id()
    first = confluent_producer(any_broker, transactional_id)
    first.begin_transaction()
    first.produce(topic, "of the first", partition=0)
    assert first.flush(PATIENCE_S) == 0
    second = confluent_producer(any_broker, transactional_id)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(PATIENCE_S)
    error = caught.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    second.begin_transaction()
    second.produce(topic, "of the second", partition=0)
    second.commit_transaction(PATIENCE_S)
    eventually(
        lambda: latest(any_broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 4
    )
    assert read_with_confluent(any_broker, topic, "read_committed") == ["of the second"]


def test_aiokafka_hears_that_it_is_fenced(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    transactional_id = new_id()

    async def run() -> None:
        first, second = (
            AIOKafkaProducer(
                bootstrap_servers=any_broker.bootstrap, transactional_id=transactional_id
            )
            for _ in range(2)
        )
        await first.start()
        try:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"a", partition=0)
            await second.start()
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(run())


def test_a_transaction_that_takes_too_long_is_aborted(any_broker: BrokerProcess) -> None:
    """Apache Kafka looks for them every ten seconds."""
    topic = create_topic(any_broker)
    producer = confluent_producer(any_broker, new_id(), **{"transaction.timeout.ms": 1000})
    producer.begin_transaction()
    producer.produce(topic, "late", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    eventually(
        lambda: latest(any_broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 2
    )
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)
    assert read_with_confluent(any_broker, topic, "read_committed") == []


def test_a_timeout_beyond_the_limit_is_refused(any_broker: BrokerProcess) -> None:
    with pytest.raises(KafkaException) as caught:
        confluent_producer(any_broker, new_id(), **{"transaction.timeout.ms": 900_001})
    assert caught.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def tell_java_story(home: ApacheKafka, broker: BrokerProcess) -> list[str]:
    topic = create_topic(broker, partitions=2)
    flags = [*SHORT_TOOL_JVM_FLAGS, "-cp", f"{home.libraries}/*"]
    command = [java_program(), *flags, str(JAVA_STORY), broker.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def test_java_producers_tell_the_same_story_on_both(
    kafka_home: ApacheKafka, apache_kafka: BrokerProcess, odradek_broker: BrokerProcess
) -> None:
    theirs = tell_java_story(kafka_home, apache_kafka)
    ours = tell_java_story(kafka_home, odradek_broker)
    assert ours == theirs
    assert "committed: [by the second, more 0, more 2, more 4, round 0, round 2" in ours[-2]


def test_kafka_reads_our_files_of_transactions(kafka_home: ApacheKafka, tmp_path: Path) -> None:
    """Markers, producer snapshots, aborted transactions and the coordinator's own records."""
    with odradek_broker(tmp_path) as broker:
        topic = create_topic(broker)
        write_with_confluent(broker, topic, THREE)
        eventually(
            lambda: latest(broker, topic, IsolationLevel.READ_COMMITTED), lambda end: end == 6
        )
        directory = partition_directory(broker, topic)
    files = sorted(path for path in directory.iterdir() if path.name.startswith("0"))
    suffixes = {path.suffix for path in files}
    assert suffixes >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    names = ",".join(map(str, files))
    dumped = kafka_home.run_tool("dump-log", "--files", names, "--print-data-log")
    assert dumped.count("endTxnMarker: COMMIT") == 2
    assert dumped.count("endTxnMarker: ABORT") == 1
    assert "firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in dumped
    assert "currentTxnFirstOffset: OptionalLong.empty" in dumped or "None" in dumped
    states = [
        path
        for path in broker.data_directory.glob("__transaction_state-*/*.log")
        if path.stat().st_size
    ]
    dumped = kafka_home.run_tool(
        "dump-log", "--files", ",".join(map(str, states)), "--transaction-log-decoder"
    )
    assert dumped.count('"transactionStatus":4') == 2
    assert dumped.count('"transactionStatus":5') == 1
