"""Consumers in groups, against a real broker in the simulation."""

import asyncio
import logging
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer, OffsetAndMetadata, RebalanceListener
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import ClientClosed, CommitFailed, NoGroup
from odradek.client.group.offsets import Offsets
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic
from odradek.protocol.types import TopicPartition
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost
from tests.unit.client.group_cluster import BOOTSTRAP, GroupCluster, on_groups, with_groups

EAGER = "range"
COOPERATIVE = "cooperative-sticky"


class Story(RebalanceListener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", [one.partition for one in partitions]))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", [one.partition for one in partitions]))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", [one.partition for one in partitions]))


async def read(consumer: Consumer, count: int, timeout_ms: int = 20_000) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(timeout_ms / 1000):
        while len(found) < count:
            for records in (await consumer.poll(500)).values():
                found += records
    return found


async def poll_until(consumers: list[Consumer], wanted: Any, timeout_s: float = 30) -> None:
    """All poll, again and again, until something is so."""
    async with asyncio.timeout(timeout_s):
        while not wanted():
            await asyncio.gather(*(one.poll(100) for one in consumers))


def owned(consumer: Consumer) -> list[int]:
    return sorted(one.partition for one in consumer.assignment())


@on_groups()
async def test_one_consumer_gets_everything_and_goes_on_where_it_committed(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("t", 3)
    await cluster.fill("t", 30, 3)
    first = cluster.consumer()
    first.subscribe(["t"])
    assert len(await read(first, 30)) == 30
    assert owned(first) == [0, 1, 2]
    await first.commit()
    await first.close()
    await cluster.fill("t", 3, 3)
    second = cluster.consumer()
    second.subscribe(["t"])
    assert sorted(record.value for record in await read(second, 3)) == [b"0", b"1", b"2"]
    committed = await second.committed([TopicPartition("t", 0)])
    assert committed[TopicPartition("t", 0)] == OffsetAndMetadata(10, "", 0)


@on_groups()
async def test_a_poll_that_waits_while_the_consumer_is_closed_says_so(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("t", 1)
    consumer = cluster.consumer()
    consumer.subscribe(["t"])
    await poll_until([consumer], lambda: owned(consumer) == [0])
    polling = asyncio.ensure_future(consumer.poll(60_000))
    await asyncio.sleep(0.1)
    await consumer.close()
    with pytest.raises(ClientClosed, match="the consumer was closed during this call"):
        await polling


@pytest.mark.parametrize("strategy", [EAGER, "roundrobin", "sticky", COOPERATIVE])
@on_groups()
async def test_two_consumers_share_and_one_takes_over(cluster: GroupCluster, strategy: str) -> None:
    await cluster.client.create_topic("t", 4)
    one = cluster.consumer(partition_assignment_strategy=strategy)
    other = cluster.consumer(partition_assignment_strategy=strategy)
    one.subscribe(["t"])
    await poll_until([one], lambda: owned(one) == [0, 1, 2, 3])
    other.subscribe(["t"])
    await poll_until([one, other], lambda: len(owned(one)) == len(owned(other)) == 2)
    assert sorted(owned(one) + owned(other)) == [0, 1, 2, 3]
    await one.close()
    await poll_until([other], lambda: owned(other) == [0, 1, 2, 3])


def test_eager_members_give_up_everything_and_cooperative_ones_only_what_moves() -> None:
    stories: dict[str, list[tuple[str, list[int]]]] = {}

    async def tell(cluster: GroupCluster, strategy: str) -> None:
        story = Story()
        one = cluster.consumer(strategy, partition_assignment_strategy=strategy)
        other = cluster.consumer(strategy, partition_assignment_strategy=strategy)
        one.subscribe(["t"], listener=story)
        await poll_until([one], lambda: len(owned(one)) == 4)
        other.subscribe(["t"])
        await poll_until([one, other], lambda: len(owned(one)) == len(owned(other)) == 2)
        stories[strategy] = list(story.told)

    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("t", 4)
        await tell(cluster, EAGER)
        await tell(cluster, COOPERATIVE)

    with_groups(test)
    assert stories[EAGER] == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
        ("assigned", [0, 1]),
    ]
    assert stories[COOPERATIVE][:3] == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [2, 3]),
        ("assigned", []),
    ]


@on_groups()
async def test_automatic_commits_happen_with_time_and_at_the_end(cluster: GroupCluster) -> None:
    partition = TopicPartition("t", 0)
    await cluster.client.create_topic("t")
    await cluster.fill("t", 5)
    consumer = cluster.consumer(auto_commit_interval_ms=1000, max_poll_records=2)
    consumer.subscribe(["t"])
    await read(consumer, 2)
    await asyncio.sleep(1.1)
    await read(consumer, 1)
    await asyncio.sleep(0.5)
    found = (await consumer.committed([partition]))[partition]
    assert found is not None
    # What the first poll returned was done when the second was called, no more.
    assert found.offset == 2
    await consumer.close()
    reader = cluster.consumer()
    found = (await reader.committed([partition]))[partition]
    assert found is not None
    assert found.offset == 4


@on_groups()
async def test_the_iterator_commits_only_what_was_handed_out(cluster: GroupCluster) -> None:
    partition = TopicPartition("t", 0)
    await cluster.client.create_topic("t")
    await cluster.fill("t", 10)
    consumer = cluster.consumer()
    consumer.subscribe(["t"])
    async for record in consumer:
        if record.offset == 3:
            break
    await consumer.commit()
    assert (await consumer.committed([partition]))[partition] == OffsetAndMetadata(4, "", 0)


@on_groups()
async def test_commits_with_metadata_and_callbacks(cluster: GroupCluster) -> None:
    partition = TopicPartition("t", 0)
    await cluster.client.create_topic("t")
    consumer = cluster.consumer(enable_auto_commit=False)
    consumer.assign([partition])
    assert await consumer.committed([partition]) == {partition: None}
    told: list[tuple[object, object]] = []
    consumer.commit_async(
        {partition: OffsetAndMetadata(7, "note", 0)},
        lambda offsets, error: told.append((offsets, error)),
    )
    await consumer.commit({partition: 8})
    assert told == [({partition: OffsetAndMetadata(7, "note", 0)}, None)]
    assert (await consumer.committed([partition]))[partition] == OffsetAndMetadata(8)


@on_groups()
async def test_without_a_group_there_is_nothing_to_subscribe_or_commit(
    cluster: GroupCluster,
) -> None:
    consumer = cluster.consumer(group=None)
    with pytest.raises(NoGroup, match="give the consumer group_id"):
        consumer.subscribe(["t"])
    with pytest.raises(NoGroup):
        await consumer.commit()


def test_a_consumer_that_does_not_poll_is_out_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("t", 2)
        await cluster.fill("t", 2, 2)
        story = Story()
        slow = cluster.consumer(max_poll_interval_ms=5_000, heartbeat_interval_ms=1_000)
        slow.subscribe(["t"], listener=story)
        await read(slow, 2)
        quick = cluster.consumer()
        quick.subscribe(["t"])
        # Nobody polls `slow`: the other gets everything when its time is over.
        await poll_until([quick], lambda: owned(quick) == [0, 1])
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            await slow.commit()
        assert story.told == [("assigned", [0, 1])]
        await poll_until([slow, quick], lambda: len(owned(slow)) == len(owned(quick)) == 1)
        assert story.told[1] == ("lost", [0, 1])

    # The simulation keeps logs to itself.
    logger = logging.getLogger("odradek.client")
    logger.addHandler(caplog.handler)
    try:
        with_groups(test)
    finally:
        logger.removeHandler(caplog.handler)
    said = [record.getMessage() for record in caplog.records]
    assert any("poll() was not called for max.poll.interval.ms=5000" in one for one in said)


@on_groups()
async def test_a_static_member_comes_back_without_a_rebalance_and_fences_its_twin(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("t", 2)
    story = Story()
    steady = cluster.consumer(group_instance_id="steady", heartbeat_interval_ms=500)
    moving = cluster.consumer(group_instance_id="moving", heartbeat_interval_ms=500)
    steady.subscribe(["t"], listener=story)
    moving.subscribe(["t"])
    await poll_until([steady, moving], lambda: len(owned(steady)) == len(owned(moving)) == 1)
    before, told = owned(moving), list(story.told)
    generation = moving.group_metadata().generation_id
    await moving.close()
    back = cluster.consumer(group_instance_id="moving", heartbeat_interval_ms=500)
    back.subscribe(["t"])
    await poll_until([steady, back], lambda: bool(owned(back)))
    assert owned(back) == before
    assert back.group_metadata().generation_id == generation
    assert story.told == told
    twin = cluster.consumer(group_instance_id="moving", heartbeat_interval_ms=500)
    twin.subscribe(["t"])
    await poll_until([steady, twin], lambda: owned(twin) == before)
    with pytest.raises(KafkaError, match=r"group\.instance\.id=moving") as raised:
        await poll_until([back], lambda: False, 10)
    assert raised.value.code == ErrorCode.FENCED_INSTANCE_ID


@on_groups()
async def test_a_pattern_follows_topics_as_they_come(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("log-a")
    await cluster.client.create_topic("other")
    consumer = cluster.consumer(metadata_max_age_ms=1_000)
    consumer.subscribe(pattern="log-.*")
    await poll_until([consumer], lambda: len(consumer.assignment()) == 1)
    await cluster.client.create_topic("log-b", 2)
    await poll_until([consumer], lambda: len(consumer.assignment()) == 3)
    assert consumer.subscription() == ["log-a", "log-b"]


@on_groups()
async def test_a_listener_may_be_async_seek_and_commit_and_its_fault_reaches_poll(
    cluster: GroupCluster,
) -> None:
    partition = TopicPartition("t", 0)
    await cluster.client.create_topic("t")
    await cluster.fill("t", 10)
    consumer = cluster.consumer(enable_auto_commit=False)
    faults: list[int] = []

    class Listener:
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            committed = await consumer.committed(partitions)
            if committed == {partition: None}:
                consumer.seek(partition, 5)

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await consumer.commit()
            faults.append(1)
            if len(faults) == 1:
                raise RuntimeError("mine")

    consumer.subscribe(["t"], listener=Listener())
    assert [record.offset for record in await read(consumer, 5)] == [5, 6, 7, 8, 9]
    other = cluster.consumer()
    other.subscribe(["t"])
    with pytest.raises(RuntimeError, match="mine"):
        await poll_until([other, consumer], lambda: False)
    found = (await other.committed([partition]))[partition]
    assert found is not None
    assert found.offset == 10
    await poll_until([other, consumer], lambda: len(owned(consumer)) + len(owned(other)) == 1)


@on_groups()
async def test_subscribing_anew_and_not_at_all(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("a")
    await cluster.client.create_topic("b")
    story = Story()
    consumer = cluster.consumer()
    consumer.subscribe(["a"], listener=story)
    await poll_until([consumer], lambda: bool(consumer.assignment()))
    consumer.subscribe(["b"], listener=story)
    await poll_until([consumer], lambda: consumer.assignment() == [TopicPartition("b", 0)])
    await consumer.unsubscribe()
    assert consumer.assignment() == []
    assert [kind for kind, _ in story.told] == ["assigned", "revoked", "assigned", "revoked"]
    consumer.assign([TopicPartition("a", 0)])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_unsubscribing_needs_no_await(protocol: str) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("a")
        await cluster.client.create_topic("b")
        story = Story()
        consumer = cluster.consumer(group_protocol=protocol)
        consumer.subscribe(["a"], listener=story)
        await poll_until([consumer], lambda: bool(consumer.assignment()))
        consumer.unsubscribe()
        assert consumer.subscription() == []
        consumer.subscribe(["b"], listener=story)
        assert consumer.subscription() == ["b"]
        await poll_until([consumer], lambda: consumer.assignment() == [TopicPartition("b", 0)])
        assert [kind for kind, _ in story.told] == ["assigned", "revoked", "assigned"]
        consumer.unsubscribe()
        await consumer.unsubscribe()
        assert consumer.assignment() == []

    with_groups(test)


def test_a_consumer_closes_in_time_when_its_broker_is_gone() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {"group.initial.rebalance.delay.ms": "0"})
        async with host.running() as connect:
            cluster = GroupCluster(simulation, await connect(), host)
            await cluster.client.create_topic("t")
            await cluster.fill("t", 1)
            consumer = cluster.consumer()
            consumer.subscribe(["t"])
            await read(consumer, 1)
        before_s = simulation.loop.time()
        await consumer.close(timeout_ms=5_000)
        assert simulation.loop.time() - before_s < 10

    run(main, 1)


def test_a_group_goes_on_after_its_broker_was_away() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {"group.initial.rebalance.delay.ms": "0"})
        async with host.running() as connect:
            cluster = GroupCluster(simulation, await connect(), host)
            await cluster.client.create_topic("t", 2)
            await cluster.fill("t", 2, 2)
            consumer = cluster.consumer(auto_commit_interval_ms=100)
            consumer.subscribe(["t"])
            await read(consumer, 2)
            await asyncio.sleep(0.2)
            await consumer.poll(100)
        await consumer.poll(5_000)
        async with host.running():
            await cluster.fill("t", 2, 2)
            again = await read(consumer, 2)
            assert [record.value for record in again] in ([b"0", b"1"], [b"1", b"0"])
            await consumer.commit()
            await consumer.close()

    run(main, 1)


@on_groups()
async def test_interceptors_see_records_and_commits(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    await cluster.fill("t", 2)
    seen: list[object] = []

    class Upper:
        def on_consume(
            self, records: dict[TopicPartition, list[ConsumerRecord]]
        ) -> dict[TopicPartition, list[ConsumerRecord]]:
            return {
                partition: [one._replace(value=b"seen " + one.value) for one in some]
                for partition, some in records.items()
            }

        def on_commit(self, offsets: Offsets) -> None:
            seen.append({one: committed.offset for one, committed in offsets.items()})

    consumer = cluster.consumer(interceptors=[Upper()], enable_auto_commit=False)
    consumer.subscribe(["t"])
    assert [one.value for one in await read(consumer, 2)] == [b"seen 0", b"seen 1"]
    await consumer.commit()
    assert seen == [{TopicPartition("t", 0): 2}]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_does_not_wait_for_commits_to_a_topic_that_is_gone(protocol: str) -> None:
    async def test(cluster: GroupCluster) -> None:
        for topic in ("a", "b"):
            await cluster.client.create_topic(topic)
            await cluster.fill(topic, 3)
        consumer = cluster.consumer(
            group_protocol=protocol, allow_auto_create_topics=False, metadata_max_age_ms=1_000
        )
        consumer.subscribe(["a", "b"])
        await read(consumer, 6)
        async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
            await admin.delete_topic("a")
        before_s = cluster.simulation.loop.time()
        left = [TopicPartition("b", 0)]
        await poll_until([consumer], lambda: consumer.assignment() == left, timeout_s=100)
        assert cluster.simulation.loop.time() - before_s < 20
        found = (await consumer.committed(left))[left[0]]
        assert found is not None
        assert found.offset == 3, "the others were committed"

    with_groups(test)


@on_groups()
async def test_what_a_pattern_of_the_broker_matches(cluster: GroupCluster) -> None:
    for topic in ("log-a", "log-b", "other"):
        await cluster.client.create_topic(topic)
    consumer = cluster.consumer(group_protocol="consumer")
    consumer.subscribe(pattern="log-.*")
    await poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    assert consumer.subscription() == ["log-a", "log-b"]


@on_groups()
async def test_a_commit_says_soon_which_topic_is_not_there(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    consumer = cluster.consumer()
    there, gone = TopicPartition("t", 0), TopicPartition("gone", 0)
    with pytest.raises(UnknownTopic, match="There is no gone-0; all other offsets are committed"):
        await consumer.commit({there: 5, gone: 1}, timeout_ms=60_000)
    assert cluster.simulation.loop.time() < 10
    assert await consumer.committed([there, gone]) == {there: OffsetAndMetadata(5), gone: None}
