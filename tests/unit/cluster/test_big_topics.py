"""Topics that are more than their store takes in one change, as ZooKeeper takes 1 MB."""

from collections.abc import Sequence

import pytest

from odradek.cluster.elections import after_loss
from odradek.cluster.reassignment import finish_reassignments, reassign
from odradek.cluster.state_changes import change_states
from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings, parse_listener
from odradek.config.live import LiveSettings
from odradek.metadata import (
    ChangeTooBig,
    ClusterImage,
    Create,
    MetadataCache,
    Operation,
    PartitionImage,
    Set,
    node_values,
    paths,
    store_setup,
)
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.metadata.node_values import PartitionState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from odradek.world import Randomness


class NarrowSession(MemorySession):
    """Takes few operations at a time."""

    most = 64
    too_big = ""

    async def multi(self, *operations: Operation) -> list[int]:
        paths = [operation.path for operation in operations]
        if len(operations) > self.most or self.too_big in paths:
            raise ChangeTooBig("more than the store takes at once")
        return await super().multi(*operations)


async def cluster() -> tuple[NarrowSession, MetadataCache, Topics]:
    store = NarrowSession(MemoryMetadata())
    await store_setup.prepare_store(store, "cluster")
    await store.multi(*(_registration(number) for number in (1, 2, 3)))
    images = MetadataCache(store)
    await images.load()
    settings = LiveSettings(BrokerSettings())
    return store, images, Topics(store, images, settings, Randomness(1))


def _registration(number: int) -> Create:
    listeners = (parse_listener(f"PLAINTEXT://h:{number}"),)
    registration = node_values.BrokerRegistration(listeners, {"PLAINTEXT": "PLAINTEXT"})
    return Create(paths.broker_path(number), registration.encode(), ephemeral=True)


def leaders(images: MetadataCache) -> Sequence[int]:
    return [partition.leader for partition in images.image.topics["big"].partitions]


async def test_a_big_topic_is_made_grown_and_deleted_in_parts() -> None:
    store, images, topics = await cluster()
    made = await topics.create(NewTopic("big", 100, 3, overrides={"retention.ms": "5"}))
    topic = images.image.topics["big"]
    assert topic.topic_id == made.topic_id
    assert tuple(one.replicas for one in topic.partitions) == made.replicas
    assert topic.overrides == {"retention.ms": "5"}
    assert leaders(images) == [replicas[0] for replicas in made.replicas]
    await topics.add_partitions("big", 201, None)
    assert len(leaders(images)) == 201
    assert set(leaders(images)) == {1, 2, 3}
    assert images.image == (await MetadataCache(store).load())._replace(number=images.image.number)
    await topics.delete("big")
    assert "big" not in images.image.topics
    assert await store.read_tree(paths.topic_path("big")) == {}
    assert await store.read(paths.topic_config_path("big")) is None


async def test_many_leaders_change_in_parts() -> None:
    store, images, topics = await cluster()
    await topics.create(NewTopic("big", 100, 3))
    partitions = [TopicPartition("big", number) for number in range(100)]

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return after_loss(partition, {BrokerId(3)}, 1)

    led_by_others = sum(leader != 3 for leader in leaders(images))
    changed = await change_states(images, partitions, decide, "test", max_operations=5_000)
    assert changed == led_by_others > store.most
    assert set(leaders(images)) == {3}


async def test_what_cannot_be_parted_is_refused_with_the_reason() -> None:
    store, images, topics = await cluster()
    store.most = 2
    with pytest.raises(ApiError, match="more than the store takes at once") as caught:
        await topics.create(NewTopic("big", 100, 3))
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    assert "big" not in images.image.topics


async def test_a_big_move_is_begun_and_finished_in_parts() -> None:
    store, images, topics = await cluster()
    await topics.create(
        NewTopic("big", assignment={index: [BrokerId(1), BrokerId(2)] for index in range(100)})
    )
    assert (
        await reassign(images, "big", {index: [BrokerId(2), BrokerId(3)] for index in range(100)})
        == {}
    )
    topic = images.image.topics["big"]
    assert all(one.adding == (3,) and one.removing == (1,) for one in topic.partitions)

    def caught_up(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return PartitionState(
            BrokerId(2), LeaderEpoch(1), (BrokerId(1), BrokerId(2), BrokerId(3)), 0
        )

    partitions = [TopicPartition("big", number) for number in range(100)]
    await change_states(images, partitions, caught_up, "test")
    await store.multi(Create(paths.CONTROLLER_EPOCH, b"1"))
    await images.catch_up(paths.CONTROLLER_EPOCH)
    await finish_reassignments(images, ["big"], fence=0)
    topic = images.image.topics["big"]
    assert {(one.replicas, one.adding, one.removing) for one in topic.partitions} == {
        ((2, 3), (), ())
    }
    assert {one.isr for one in topic.partitions} == {(2, 3)}


async def test_a_move_that_the_store_cannot_take_holds_up_no_other_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, images, topics = await cluster()
    await topics.create(NewTopic("a", assignment={0: [BrokerId(1), BrokerId(2)]}))
    await topics.create(NewTopic("b", assignment={0: [BrokerId(1), BrokerId(2)]}))
    for name in ("a", "b"):
        assert await reassign(images, name, {0: [BrokerId(1), BrokerId(2), BrokerId(3)]}) == {}
        state = PartitionState(
            BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(2), BrokerId(3)), 0
        ).encode()
        await store.multi(Set(paths.partition_state_path(name, 0), state))
        await images.catch_up(paths.partition_state_path(name, 0))
    await store.multi(Create(paths.CONTROLLER_EPOCH, b"1"))
    await images.catch_up(paths.CONTROLLER_EPOCH)
    store.too_big = paths.topic_path("a")
    await finish_reassignments(images, ["a", "b"], fence=0)
    assert images.image.topics["a"].partitions[0].adding == (3,)
    assert images.image.topics["b"].partitions[0].adding == ()
    assert "its reassignment cannot be finished" in caplog.text
