"""Groups with real clients: who gets what, what is committed, and what administrators see.

Every test runs against Apache Kafka first: what it says of a group must hold there.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.structs import OffsetAndMetadata as AioOffset
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata as PythonOffset

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import ConfluentClient, send
from tests.conformance.rows import numbered_rows
from tests.conformance.topics import create_topic

PARTITIONS = 4
PATIENCE_S = 30.0


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


class Member:
    """A librdkafka consumer in a group, with what it was given."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 50,
                **named,
            }
        )
        self.topic = topic
        self.rebalances = 0
        self.messages: list[Message] = []
        self.errors: list[KafkaError] = []
        self.consumer.subscribe([topic], on_assign=self._count)

    def _count(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.05):
            error = message.error()
            if error is None:
                self.messages.append(message)
            else:
                self.errors.append(error)

    def close(self) -> None:
        self.consumer.close()


@contextmanager
def members(*opened: Member) -> Iterator[tuple[Member, ...]]:
    try:
        yield opened
    finally:
        for member in opened:
            member.close()


def poll_until(wanted: Callable[[], bool], *polled: Member) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted():
        assert time.monotonic() < deadline, [sorted(each.owned) for each in polled]
        for each in polled:
            each.poll()


def all_is_shared(*sharing: Member) -> bool:
    """Everybody has something, and everything has one owner."""
    owned = [partition for member in sharing for partition in member.owned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in sharing)


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def described(broker: BrokerProcess, group: str) -> ConsumerGroupDescription:
    client = admin(broker)
    description: ConsumerGroupDescription = client.describe_consumer_groups([group])[group].result(
        timeout=10
    )
    return description


def committed(broker: BrokerProcess, group: str) -> dict[int, int]:
    """What an administrator reads of a group's offsets."""
    client = admin(broker)
    asked = ConsumerGroupTopicPartitions(group)
    (future,) = client.list_consumer_group_offsets([asked]).values()
    found = future.result(timeout=10).topic_partitions
    return {each.partition: each.offset for each in found}


@pytest.fixture
def topic(any_broker: BrokerProcess) -> str:
    return create_topic(any_broker, PARTITIONS)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_come_and_go(any_broker: BrokerProcess, topic: str, strategy: str) -> None:
    group = new_group()
    settings = {"partition_assignment_strategy": strategy}
    first = Member(any_broker, group, topic, **settings)
    with members(first):
        poll_until(lambda: all_is_shared(first), first)
        second = Member(any_broker, group, topic, **settings)
        with members(second):
            poll_until(lambda: all_is_shared(first, second), first, second)
            shown = described(any_broker, group)
            assert shown.state == ConsumerGroupState.STABLE
            assert shown.partition_assignor == strategy
            assert [member.host for member in shown.members] == ["/127.0.0.1"] * 2
            parts = [member.assignment.topic_partitions for member in shown.members]
            assigned = [each.partition for part in parts for each in part]
            assert sorted(assigned) == list(range(PARTITIONS))
        poll_until(lambda: all_is_shared(first), first)
    assert not first.errors


def test_a_member_that_dies_is_replaced(any_broker: BrokerProcess, topic: str) -> None:
    """It does not leave: a static member's `close` says nothing, and its session has to end."""
    group = new_group()
    survivor = Member(any_broker, group, topic)
    dying = Member(any_broker, group, topic, group_instance_id="dying")
    with members(survivor):
        poll_until(lambda: all_is_shared(survivor, dying), survivor, dying)
        dying.close()
        poll_until(lambda: all_is_shared(survivor), survivor)


def test_a_static_member_comes_back_without_a_rebalance(
    any_broker: BrokerProcess, topic: str
) -> None:
    group = new_group()
    settings = {"session_timeout_ms": "20000"}
    stays = Member(any_broker, group, topic, group_instance_id="stays", **settings)
    returns = Member(any_broker, group, topic, group_instance_id="returns", **settings)
    with members(stays):
        poll_until(lambda: all_is_shared(stays, returns), stays, returns)
        before, owned = stays.rebalances, returns.owned
        returns.close()
        again = Member(any_broker, group, topic, group_instance_id="returns", **settings)
        with members(again):
            poll_until(lambda: bool(again.owned), stays, again)
            assert again.owned == owned
            assert stays.rebalances == before


def test_a_second_owner_of_an_instance_id_fences_the_first(
    any_broker: BrokerProcess, topic: str
) -> None:
    group = new_group()
    first = Member(any_broker, group, topic, group_instance_id="same")
    poll_until(lambda: all_is_shared(first), first)
    second = Member(any_broker, group, topic, group_instance_id="same")
    with members(first, second):
        poll_until(lambda: bool(second.owned), second)
        poll_until(lambda: bool(first.errors), first, second)
        # librdkafka calls it fatal, with the broker's reason in the text.
        assert first.errors[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
        assert "fenced" in str(first.errors[0]).lower() or "FENCED" in str(first.errors[0])


def test_offsets_carry_over_from_client_to_client(any_broker: BrokerProcess) -> None:
    """Committed with one library, continued with another."""
    topic, group = create_topic(any_broker), new_group()
    ConfluentClient().produce(any_broker.bootstrap, topic, "none", numbered_rows(30))
    member = Member(any_broker, group, topic)
    with members(member):
        poll_until(lambda: len(member.messages) == 30, member)
        member.consumer.commit(
            offsets=[TopicPartition(topic, 0, 10, "from librdkafka")], asynchronous=False
        )
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=any_broker.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    try:
        partition = PythonTopicPartition(topic, 0)
        assert next(consumer).offset == 10
        found = consumer.committed(partition, metadata=True)
        # confluent-kafka sends the zero that ends a string in C along.
        assert (found.offset, found.metadata.rstrip("\0")) == (10, "from librdkafka")
        consumer.commit({partition: PythonOffset(20, "from kafka-python", -1)})
    finally:
        consumer.close()
    assert asyncio.run(_continue_with_aiokafka(any_broker, topic, group)) == 20
    assert committed(any_broker, group) == {0: 25}


async def _continue_with_aiokafka(broker: BrokerProcess, topic: str, group: str) -> int:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    await consumer.start()
    try:
        record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        partition = AioTopicPartition(topic, 0)
        await consumer.commit({partition: AioOffset(25, "from aiokafka")})
        offset: int = record.offset
        return offset
    finally:
        await consumer.stop()


def test_everything_is_read_once_with_automatic_commits(
    any_broker: BrokerProcess, topic: str
) -> None:
    group = new_group()
    settings = {"enable_auto_commit": "true", "auto_commit_interval_ms": "100"}
    for partition in range(PARTITIONS):
        send(any_broker.bootstrap, topic, b"first", {}, partition=partition)
    reader = Member(any_broker, group, topic, **settings)
    with members(reader):
        poll_until(lambda: len(reader.messages) == PARTITIONS, reader)
    for partition in range(PARTITIONS):
        send(any_broker.bootstrap, topic, b"second", {}, partition=partition)
    reader = Member(any_broker, group, topic, **settings)
    with members(reader):
        poll_until(lambda: len(reader.messages) >= PARTITIONS, reader)
        assert {message.value() for message in reader.messages} == {b"second"}
    assert committed(any_broker, group) == dict.fromkeys(range(PARTITIONS), 2)


def test_a_consumer_on_its_own_only_commits(any_broker: BrokerProcess, topic: str) -> None:
    group = new_group()
    consumer = Consumer({"bootstrap.servers": any_broker.bootstrap, "group.id": group})
    asked = [TopicPartition(topic, partition) for partition in (0, 1)]
    assert [each.offset for each in consumer.committed(asked, timeout=10)] == [-1001, -1001]
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert [each.offset for each in consumer.committed(asked, timeout=10)] == [5, -1001]
    consumer.close()
    assert described(any_broker, group).state == ConsumerGroupState.EMPTY


def test_an_outsider_may_not_commit_under_a_group_at_work(
    any_broker: BrokerProcess, topic: str
) -> None:
    group = new_group()
    member = Member(any_broker, group, topic)
    with members(member):
        poll_until(lambda: all_is_shared(member), member)
        outsider = Consumer({"bootstrap.servers": any_broker.bootstrap, "group.id": group})
        with pytest.raises(KafkaException) as refused:
            outsider.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        outsider.close()
        assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


def test_what_administrators_do(any_broker: BrokerProcess, topic: str) -> None:
    group = new_group()
    client = admin(any_broker)
    member = Member(any_broker, group, topic)
    with members(member):
        poll_until(lambda: all_is_shared(member), member)
        member.consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        with pytest.raises(KafkaException) as refused:
            client.delete_consumer_groups([group])[group].result(10)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        listed = client.list_consumer_groups().result(10).valid
        assert [each.state for each in listed if each.group_id == group] == [
            ConsumerGroupState.STABLE
        ]
    stable = client.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(10).valid
    assert group not in [each.group_id for each in stable]
    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    client.alter_consumer_group_offsets([reset])[group].result(10)
    assert committed(any_broker, group) == {0: 1}
    client.delete_consumer_groups([group])[group].result(10)
    assert committed(any_broker, group) == {}
    with pytest.raises(KafkaException) as missing:
        client.delete_consumer_groups([group])[group].result(10)
    assert missing.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_session_timeout_out_of_bounds_is_refused(any_broker: BrokerProcess, topic: str) -> None:
    member = Member(
        any_broker, new_group(), topic, session_timeout_ms="1000", heartbeat_interval_ms="100"
    )
    with members(member):
        poll_until(lambda: bool(member.errors), member)
        assert member.errors[0].code() == KafkaError.INVALID_SESSION_TIMEOUT
