"""The new consumer protocol with real clients: librdkafka and Java, on both brokers.

Members hear of a rebalance in their next heartbeat, and the broker says how often they beat
(every five seconds): so each step may take that long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import ConfluentClient
from tests.conformance.patience import PATIENCE_S
from tests.conformance.rows import numbered_rows
from tests.conformance.test_groups import PARTITIONS, admin, committed, described, new_group
from tests.conformance.topics import create_topic, new_topic_name

STEP_S = 40.0


class Member:
    """A librdkafka consumer of the new protocol (or the old), with what it was given."""

    def __init__(
        self, broker: BrokerProcess, group: str, subscription: str, **settings: str
    ) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        if "group.protocol" not in named:
            named["group.protocol"] = "consumer"
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **named,
            }
        )
        self.messages: list[Message] = []
        self.lost: list[int] = []
        self.consumer.subscribe([subscription], on_revoke=self._on_revoke)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += [each.partition for each in partitions]

    @property
    def owned(self) -> list[tuple[str, int]]:
        return sorted((each.topic, each.partition) for each in self.consumer.assignment())

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.05):
            assert message.error() is None, message.error()
            self.messages.append(message)


@contextmanager
def members(*opened: Member) -> Iterator[None]:
    try:
        yield
    finally:
        for member in opened:
            member.consumer.close()


def poll_until(wanted: Callable[[], bool], *polled: Member) -> None:
    deadline = time.monotonic() + STEP_S
    while not wanted():
        assert time.monotonic() < deadline, [each.owned for each in polled]
        for each in polled:
            each.poll()


def all_of(topic: str, partitions: int = PARTITIONS) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(partitions)]


def is_shared(topic: str, *sharing: Member) -> bool:
    owned = sorted(each for member in sharing for each in member.owned)
    return owned == all_of(topic) and all(member.owned for member in sharing)


@pytest.fixture
def topic(any_broker: BrokerProcess) -> str:
    return create_topic(any_broker, PARTITIONS)


def test_members_share_come_and_go(any_broker: BrokerProcess, topic: str) -> None:
    group, client = new_group(), admin(any_broker)
    ConfluentClient().produce(any_broker.bootstrap, topic, "none", numbered_rows(100))
    first = Member(any_broker, group, topic)
    with members(first):
        poll_until(lambda: len(first.messages) == 100, first)
        assert first.owned == all_of(topic)
        first.consumer.commit(asynchronous=False)
        second = Member(any_broker, group, topic)
        with members(second):
            poll_until(lambda: is_shared(topic, first, second), first, second)
            assert len(first.lost) == len(second.owned) == PARTITIONS // 2
            assert not second.messages  # What the first had committed is not read again.
            shown = described(any_broker, group)
            assert (shown.state, shown.type) == (
                ConsumerGroupState.STABLE,
                ConsumerGroupType.CONSUMER,
            )
            assert shown.partition_assignor == "uniform"
            listed = client.list_consumer_groups().result(PATIENCE_S).valid
            (mine,) = [each for each in listed if each.group_id == group]
            assert mine.type == ConsumerGroupType.CONSUMER
            with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
                client.delete_consumer_groups([group])[group].result(PATIENCE_S)
        poll_until(lambda: first.owned == all_of(topic), first)
    assert sum(committed(any_broker, group).values()) == 100
    client.delete_consumer_groups([group])[group].result(PATIENCE_S)


def test_a_pattern_follows_topics_that_come_and_grow(any_broker: BrokerProcess) -> None:
    prefix = new_topic_name()
    client = admin(any_broker)
    first, later = f"{prefix}-1", f"{prefix}-2"
    client.create_topics([NewTopic(first, 1, 1)])[first].result(PATIENCE_S)
    member = Member(any_broker, new_group(), f"^{prefix}-.*")
    with members(member):
        poll_until(lambda: member.owned == all_of(first, 1), member)
        client.create_partitions([NewPartitions(first, 2)])[first].result(PATIENCE_S)
        poll_until(lambda: member.owned == all_of(first, 2), member)
        client.create_topics([NewTopic(later, 1, 1)])[later].result(PATIENCE_S)
        poll_until(lambda: member.owned == [*all_of(first, 2), *all_of(later, 1)], member)


def test_a_static_member_comes_back_to_what_it_had(any_broker: BrokerProcess, topic: str) -> None:
    group = new_group()
    stays = Member(any_broker, group, topic, group_instance_id="stays")
    with members(stays):
        restarts = Member(any_broker, group, topic, group_instance_id="restarts")
        with members(restarts):
            poll_until(lambda: is_shared(topic, stays, restarts), stays, restarts)
            had, lost = restarts.owned, len(stays.lost)
        back = Member(any_broker, group, topic, group_instance_id="restarts")
        with members(back):
            poll_until(lambda: back.owned == had, stays, back)
            assert len(stays.lost) == lost


def test_a_group_moves_to_the_new_protocol_and_back(any_broker: BrokerProcess, topic: str) -> None:
    group = new_group()
    classic = {
        "group_protocol": "classic",
        "partition_assignment_strategy": "cooperative-sticky",
        "heartbeat_interval_ms": "500",
        "session_timeout_ms": "6000",
    }
    old = Member(any_broker, group, topic, **classic)
    with members(old):
        poll_until(lambda: old.owned == all_of(topic), old)
        assert described(any_broker, group).type == ConsumerGroupType.CLASSIC
        new = Member(any_broker, group, topic)
        with members(new):
            poll_until(lambda: is_shared(topic, old, new), old, new)
            assert described(any_broker, group).type == ConsumerGroupType.CONSUMER
        poll_until(lambda: old.owned == all_of(topic), old)
        assert described(any_broker, group).type == ConsumerGroupType.CLASSIC


def test_the_java_consumer(any_broker: BrokerProcess, topic: str, kafka_home: ApacheKafka) -> None:
    ConfluentClient().produce(any_broker.bootstrap, topic, "none", numbered_rows(50))
    group = new_group()
    said = kafka_home.run_tool(
        "console-consumer",
        "--bootstrap-server",
        any_broker.bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--group",
        group,
        "--command-property",
        "group.protocol=consumer",
        "--max-messages",
        "50",
        "--timeout-ms",
        "30000",
    )
    assert len(said.splitlines()) == 50
    assert sum(committed(any_broker, group).values()) == 50
    assert described(any_broker, group).type == ConsumerGroupType.CONSUMER
