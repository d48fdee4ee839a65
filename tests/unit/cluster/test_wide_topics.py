"""Topics of many partitions come and go without holding up anybody else."""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count, groupby
from types import MappingProxyType

import pytest

from odradek.cluster import topics
from odradek.cluster.topics import NewTopic
from odradek.config import BrokerSettings
from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage, compare_and_set
from odradek.metadata.image import ImageChange, PartitionImage, TopicImage, difference
from odradek.metadata.node_values import TopicAssignment
from odradek.metadata.topic_operations import delete_topic
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.replication.replicas import Replicas
from odradek.storage import LogManager
from odradek.world import MemoryDisk, World
from odradek.world.timeslice import measured_by
from tests.unit.cluster.crew import Crew, on_crew
from tests.unit.cluster.racing import Pair

WIDE = 300


def topic(number: int, partitions: int = WIDE, name: str = "t") -> TopicImage:
    states = tuple(
        PartitionImage(index, (BrokerId(1),), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 1, 0)
        for index in range(partitions)
    )
    return TopicImage(name, TopicId(bytes([number] * 16)), states, {}, 0)


def image(*topics: TopicImage, number: int = 1) -> ClusterImage:
    return ClusterImage(
        number=number,
        topics=MappingProxyType({one.name: one for one in topics}),
        topics_by_id=MappingProxyType({one.topic_id: one for one in topics}),
    )


class Watched:
    """Replicas of broker 1, and how many turns others had while something was prepared."""

    def __init__(self) -> None:
        settings = BrokerSettings.from_properties({"node.id": "1", "log.dirs": "/data"})
        self.logs = LogManager(
            settings, World(disk=MemoryDisk()), cluster_id="c", node_id=BrokerId(1)
        )
        self.replicas = Replicas(BrokerId(1), self.logs, LiveSettings(settings))
        self.image = ClusterImage()
        self._ticks: Iterator[int] = count()

    async def change_to(self, after: ClusterImage) -> int:
        change = difference(self.image, after)
        turns = await self.turns_of_others(change)
        self.replicas.follow(change)
        self.image = after
        return turns

    async def turns_of_others(self, change: ImageChange) -> int:
        """Each reading of the stopwatch takes a millisecond here, so each step does."""
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        with measured_by(lambda: next(self._ticks) / 1000):
            await self.replicas.prepare(change)
        waiting.cancel()
        return turns


async def test_a_wide_topic_is_made_and_removed_by_turns() -> None:
    watched = Watched()
    await watched.logs.load()
    assert await watched.change_to(image(topic(1))) > WIDE / 10
    assert all(watched.replicas.leader("t", index).is_leader for index in range(WIDE))
    assert await watched.change_to(image(number=2)) > WIDE / 10
    assert len(watched.replicas) == 0
    assert not watched.logs.logs


async def test_a_narrow_topic_is_made_at_once() -> None:
    watched = Watched()
    await watched.logs.load()
    assert await watched.change_to(image(topic(1, partitions=3))) <= 1
    assert len(watched.replicas) == 3


async def test_what_is_prepared_is_not_served_before_the_image_shows_it() -> None:
    watched = Watched()
    await watched.logs.load()
    coming = difference(ClusterImage(), image(topic(1)))
    await watched.replicas.prepare(coming)
    assert watched.replicas.get("t", 0) is None
    assert len(watched.replicas) == 0
    watched.replicas.follow(coming)
    assert len(watched.replicas) == WIDE


async def test_a_topic_that_ends_by_turns_is_unknown_meanwhile() -> None:
    watched = Watched()
    await watched.logs.load()
    before = image(topic(1))
    await watched.change_to(before)
    going = difference(before, image(number=2))
    await watched.replicas.prepare(going)
    with pytest.raises(ApiError) as caught:
        watched.replicas.leader("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    watched.replicas.follow(going)
    assert len(watched.replicas) == 0


async def test_a_wide_topic_is_replaced_by_another_one_of_its_name() -> None:
    watched = Watched()
    await watched.logs.load()
    await watched.change_to(image(topic(1)))
    assert await watched.change_to(image(topic(2), number=2)) > WIDE / 10
    assert len(watched.replicas) == WIDE
    assert {one.topic_id for one in watched.replicas.partitions()} == {topic(2).topic_id}
    assert {log.topic_id for log in watched.logs.logs.values()} == {topic(2).topic_id}


async def test_a_wide_topic_grows_and_keeps_what_it_has() -> None:
    watched = Watched()
    await watched.logs.load()
    await watched.change_to(image(topic(1)))
    first = watched.replicas.get("t", 0)
    await watched.change_to(image(topic(1, partitions=2 * WIDE), number=2))
    assert len(watched.replicas) == 2 * WIDE
    assert watched.replicas.get("t", 0) is first


async def test_a_change_of_one_partition_costs_nothing_for_the_others() -> None:
    watched = Watched()
    await watched.logs.load()
    before = topic(1)
    await watched.change_to(image(before))
    states = list(before.partitions)
    states[7] = states[7]._replace(leader_epoch=LeaderEpoch(1), version=1)
    after = before._replace(partitions=tuple(states))
    # A role that somebody took away by hand shows which partitions are looked at.
    for one in watched.replicas.partitions():
        one.resign(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await watched.change_to(image(after, number=2))
    led = [one for one in watched.replicas.partitions() if one.is_leader]
    assert [one.topic_partition.partition for one in led] == [7]
    watched.image = ClusterImage()
    await watched.change_to(image(after, number=3))
    assert all(one.is_leader for one in watched.replicas.partitions())


async def test_an_image_of_another_store_takes_no_log_with_it() -> None:
    watched = Watched()
    await watched.logs.load()
    before = image(topic(1))._replace(store_id="one")
    await watched.change_to(before)
    for directory in watched.logs.directories:
        directory.store_id = "one"
    watched.image = before
    await watched.change_to(image(number=2)._replace(store_id="another"))
    assert len(watched.replicas) == 0
    assert len(watched.logs.logs) == WIDE


async def test_a_wide_topic_is_deleted_from_the_store_by_turns() -> None:
    """To read the topic, to find out its id, to compute the changes, to check and to write them
    takes some milliseconds each: other tasks run in between."""
    pair = Pair()
    await pair.prepare()
    broker = pair.second
    await broker.topics.create(NewTopic("wide", 2_000, 1))
    done: list[str] = []

    async def others() -> None:
        while True:
            done.append("others")
            await asyncio.sleep(0)

    def noted(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            done.append(name)
            return function(*arguments)

        return call

    # Each look at the stopwatch takes 3 ms: whoever looks for the second time in a turn is late.
    ticks = count(start=int(time.perf_counter() * 1000) + 1000, step=3)
    with pytest.MonkeyPatch.context() as patch, measured_by(lambda: next(ticks) / 1000):
        patch.setattr(TopicAssignment, "decode", noted("id", TopicAssignment.decode))
        patch.setattr(topics, "delete_topic", noted("compute", delete_topic))
        patch.setattr(compare_and_set, "_blind", noted("check", compare_and_set._blind))
        patch.setattr(broker.store, "multi", noted("write", broker.store.multi))
        waiting = asyncio.create_task(others())
        await asyncio.sleep(0)
        await broker.topics.delete("wide")
        waiting.cancel()
    steps = [name for name, _ in groupby(done)]
    first = steps.index("id")
    assert steps[first - 1 : first + 7] == [
        *("others", "id", "others", "compute", "others", "check", "others", "write")
    ]
    assert "wide" not in broker.images.image.topics


@on_crew()
async def test_wide_topics_come_and_go_on_several_brokers(crew: Crew) -> None:
    brokers = {index: [index % 3 + 1, (index + 1) % 3 + 1] for index in range(90)}
    await crew.create("t", brokers)
    await crew.until(
        lambda: all(
            len([one for one in broker.partitions() if one.topic_partition.topic == "t"]) == 60
            for broker in crew.brokers.values()
        )
    )
    for _ in range(2):
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=5000
        )
        response = await crew.ask(1, request, DeleteTopicsResponse)
        assert response.responses[0].error_code == 0
        await crew.create("t", brokers)
    await crew.until(
        lambda: all(len(list(broker.partitions())) == 60 for broker in crew.brokers.values())
    )
    await crew.until(lambda: all(len(one.isr) == 2 for one in crew.image.topics["t"].partitions))
