"""A topic that does not exist: who creates it, who waits for it, and what is said."""

import asyncio
from typing import Any

import pytest

from odradek.client.consumer.awaited_topics import AwaitedTopics
from odradek.client.consumer.consumer import Consumer
from odradek.client.missing_topics import comparable
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import UnknownTopic
from odradek.protocol.types import TopicPartition
from simulation.world import Simulation
from tests.unit.client.group_cluster import GroupCluster, with_groups
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation

WARNING = (
    "there is no topic nosuch; waiting for somebody to create it"
    " (odradek topics --create --topic nosuch)"
)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def test_an_unknown_topic_is_called_so_and_warned_of(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
            consumer.assign([("nosuch", 0)])
            with pytest.raises(UnknownTopic, match=r"There is no topic nosuch\."):
                await consumer.poll(timeout_ms=60_000)
        async with Producer(bootstrap_servers=brokers.bootstrap, max_block_ms=2_000) as producer:
            with pytest.raises(UnknownTopic, match="There is no topic nosuch, nor was it created"):
                await producer.send("nosuch", b"v")

    test()
    assert said == [WARNING] * 2


@in_simulation()
async def test_of_a_partition_that_is_missing_the_others_are_named(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t", 3)
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        with pytest.raises(UnknownTopic, match="Topic t has no partition 7; it has 0 to 2"):
            await consumer.end_offsets([("t", 7)])


def test_of_very_many_topics_those_that_begin_alike_are_compared() -> None:
    """All of 10,000 names would hold up the event loop for a quarter of a second."""
    few = ["clicks", "orders"]
    assert comparable("clikcs", few) == few
    many = [f"{letter}{number}" for letter in "co" for number in range(5_000)]
    compared = comparable("clikcs", many)
    assert len(compared) == 1_000
    assert {name[0] for name in compared} == {"c"}


def test_an_unknown_topic_is_said_once_for_all_that_wait_for_it(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        async with Producer(bootstrap_servers=brokers.bootstrap, max_block_ms=2_000) as producer:
            sent = [producer.send("nosuch", b"v") for _ in range(50)]
            errors = await asyncio.gather(*sent, return_exceptions=True)
            assert all(isinstance(error, UnknownTopic) for error in errors)

    test()
    assert said == [WARNING]


@in_simulation()
async def test_a_question_creates_no_topic_and_waits_for_none(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.auto_create_partitions = 2
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        before_s = asyncio.get_running_loop().time()
        with pytest.raises(UnknownTopic, match=r"There is no topic typo\."):
            await consumer.partitions_for("typo")
        with pytest.raises(UnknownTopic, match=r"There is no topic typo\."):
            await consumer.end_offsets([("typo", 0)])
        assert asyncio.get_running_loop().time() < before_s + 5
        assert not brokers.ids


def test_a_topic_that_a_send_has_created_is_said_once_with_the_one_that_was_meant(
    said: list[str],
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("orders", 3)
        async with cluster.producer() as producer:
            await producer.send_and_wait("orders", b"v")
            assert said == []
            await producer.send_and_wait("oders", b"v")
            await producer.send_and_wait("zebra", b"v")
            await producer.send_and_wait("oders", b"v")
        async with cluster.producer() as producer:
            await producer.send_and_wait("oders", b"v")

    with_groups(test)
    assert said == [
        (
            "topic oders did not exist, and the broker has created it, with 1 partition; did you"
            " mean orders? Then delete the new one: odradek topics --delete --topic oders"
        ),
        (
            "topic zebra did not exist, and the broker has created it, with 1 partition"
            " (auto.create.topics.enable)"
        ),
    ]


def test_a_topic_that_somebody_else_creates_is_not_said_to_be_created_for_this_client(
    said: list[str],
) -> None:
    async def test(cluster: GroupCluster) -> None:
        async with cluster.producer(max_block_ms=60_000) as producer:
            sending = asyncio.ensure_future(producer.send_and_wait("nosuch", b"v"))
            async with asyncio.timeout(30):
                while not said:  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.1)
            await cluster.client.create_topic("nosuch")
            await sending

    properties: Any = {"auto.create.topics.enable": "false"}
    with_groups(test, **properties)
    assert said == [WARNING]


@PROTOCOLS
def test_a_group_that_waits_for_an_unknown_topic_says_so_once(
    protocol: str, said: list[str]
) -> None:
    async def test(cluster: GroupCluster) -> None:
        async with cluster.consumer(group_protocol=protocol) as consumer:
            consumer.subscribe(["nosuch"])
            for _ in range(10):
                assert await consumer.poll(timeout_ms=1_000) == {}

    properties: Any = {"auto.create.topics.enable": "false"}
    with_groups(test, **properties)
    assert said == [WARNING]


@in_simulation()
async def test_a_consumer_creates_a_topic_only_if_it_is_told_to(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.auto_create_partitions = 2
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        consumer.assign([("typo", 0)])
        with pytest.raises(UnknownTopic, match=r"There is no topic typo\."):
            await consumer.poll(5_000)
    assert not brokers.ids
    options: Any = {"bootstrap_servers": brokers.bootstrap, "allow_auto_create_topics": True}
    async with Consumer(**options) as consumer:
        with pytest.raises(UnknownTopic):
            await consumer.partitions_for("typo")
        consumer.assign([("needed", 0)])
        await consumer.poll(1_000)
        assert list(brokers.ids) == ["needed"]
        consumer.assign([("typo", 0)])
        await consumer.poll(1_000)
        assert list(brokers.ids) == ["needed", "typo"], "now it is needed"


@PROTOCOLS
def test_a_misspelt_topic_is_not_created_but_answered_while_the_first_poll_waits(
    protocol: str, said: list[str]
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("clicks")
        async with cluster.consumer(group_protocol=protocol) as consumer:
            consumer.subscribe(["clikcs"])
            assert await consumer.poll(timeout_ms=1_000) == {}
            assert said == [
                "there is no topic clikcs; did you mean clicks? Waiting for somebody to create it"
            ]
            with pytest.raises(UnknownTopic, match="There is no topic clikcs; did you mean clicks"):
                await consumer.end_offsets([("clikcs", 0)])
            with pytest.raises(UnknownTopic, match="There is no topic clikcs; did you mean clicks"):
                await consumer.partitions_for("clikcs")

    with_groups(test)


def test_every_question_about_a_misspelt_topic_names_the_one_that_was_meant(
    said: list[str],
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("clicks")
        meant = pytest.raises(UnknownTopic, match=r"There is no topic .*; did you mean clicks")
        async with cluster.consumer(None) as consumer:
            with meant:
                await consumer.end_offsets([("clikcs", 0)])
            with meant:
                await consumer.partitions_for("clickss")
            assert said == []
            consumer.assign([("clics", 0)])
            with meant:
                await consumer.poll(timeout_ms=5_000)
        async with cluster.producer(max_block_ms=2_000) as producer:
            with pytest.raises(UnknownTopic, match=r"There is no topic cliks.*did you mean clicks"):
                await producer.send("cliks", b"v")

    properties: Any = {"auto.create.topics.enable": "false"}
    with_groups(test, **properties)
    warning = "there is no topic {}; did you mean clicks? Waiting for somebody to create it"
    assert said == [warning.format("clics"), warning.format("cliks")]


@PROTOCOLS
def test_nothing_is_missed_of_a_topic_that_is_created_while_a_consumer_waits_for_it(
    protocol: str,
) -> None:
    """Though it reads only new records: the topic and these come between two of its looks."""

    async def test(cluster: GroupCluster) -> None:
        consumer = cluster.consumer(group_protocol=protocol, auto_offset_reset="latest")
        consumer.subscribe(["later"])
        assert await consumer.poll(timeout_ms=5_500) == {}
        await cluster.fill("later", 3)
        found: list[bytes] = []
        async with asyncio.timeout(30):
            while len(found) < 3:
                polled = await consumer.poll(timeout_ms=1_000)
                found += [record.value for records in polled.values() for record in records]
        assert found == [b"0", b"1", b"2"]

    with_groups(test)


def test_nothing_is_missed_of_a_topic_that_is_created_after_it_was_assigned() -> None:
    async def test(cluster: GroupCluster) -> None:
        consumer = cluster.consumer(None, auto_offset_reset="latest")
        consumer.assign([("later", 0)])
        with pytest.raises(UnknownTopic):
            await consumer.poll(timeout_ms=5_000)
        await cluster.fill("later", 3)
        found: list[bytes] = []
        async with asyncio.timeout(30):
            while len(found) < 3:
                polled = await consumer.poll(timeout_ms=1_000)
                found += [record.value for records in polled.values() for record in records]
        assert found == [b"0", b"1", b"2"]

    with_groups(test)


def test_a_partition_is_read_from_the_time_of_the_wait_only_once() -> None:
    awaited, first, second = AwaitedTopics(), TopicPartition("t", 0), TopicPartition("t", 1)
    assert awaited.begin(first) is None
    awaited.note_missing("t", 100)
    awaited.note_missing("t", 200)
    assert [awaited.begin(first), awaited.begin(first), awaited.begin(second)] == [100, None, 100]
    assert awaited.begin(TopicPartition("u", 0)) is None
    awaited.note_missing("t", 300)
    assert awaited.begin(first) == 300, "it was deleted and created again"


@pytest.mark.parametrize(
    ("pattern", "ending"),
    [
        ("ord*", "; did you mean 'ord.*'?"),
        ("rder", "mean '.*rder.*'?"),
        ("zz.*", "waiting for one"),
    ],
)
def test_a_pattern_that_matches_nothing_is_said_once(
    pattern: str, ending: str, said: list[str]
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("orders")
        async with cluster.consumer(metadata_max_age_ms=200) as consumer:
            consumer.subscribe(pattern=pattern)
            assert await consumer.poll(timeout_ms=2_000) == {}

    with_groups(test)
    (warning,) = said
    assert warning.startswith(f"no topic matches the pattern {pattern!r} with its whole name; ")
    assert warning.endswith(ending)


@in_simulation()
async def test_a_topic_that_was_only_asked_about_is_forgotten(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    for topic in ("asked", "read"):
        brokers.create(topic)
    async with Consumer(
        bootstrap_servers=brokers.bootstrap, metadata_max_age_ms=60_000
    ) as consumer:
        consumer.assign([("read", 0)])
        assert await consumer.partitions_for("asked") == [0]
        cluster = consumer._parts().cluster
        await asyncio.sleep(240)
        assert set(cluster.view.topics) == {"asked", "read"}
        await asyncio.sleep(240)
        assert set(cluster.view.topics) == {"read"}
        assert await consumer.partitions_for("asked") == [0], "it can be asked about again"
