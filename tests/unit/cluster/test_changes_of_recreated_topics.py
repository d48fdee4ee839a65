"""Slow changes of a topic that was deleted, or deleted and made again, meanwhile."""

from contextlib import suppress

import pytest

from odradek.cluster.reassignment import reassign
from odradek.cluster.state_changes import change_states
from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings
from odradek.config.live import LiveSettings
from odradek.metadata import (
    ClusterImage,
    Create,
    MetadataCache,
    PartitionImage,
    Set,
    node_values,
    paths,
)
from odradek.metadata.memory import LostReply
from odradek.metadata.node_values import PartitionState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from odradek.world import Randomness
from tests.unit.cluster.racing import Pair, setting


async def test_settings_that_were_emptied_and_made_again_are_not_overwritten() -> None:
    """The node would have the same version again if it were deleted in between."""
    pair = Pair()
    await pair.prepare()
    await pair.second.configs.change_topic("t", setting("segment.ms", "1"), validate_only=False)

    async def rival() -> None:
        await pair.second.configs.change_topic("t", lambda _: {}, validate_only=False)
        await pair.second.configs.change_topic("t", setting("segment.ms", "2"), validate_only=False)

    pair.racing.rival = rival
    await pair.first.configs.change_topic("t", setting("retention.ms", "3"), validate_only=False)
    assert pair.image.topic_overrides("t") == {"segment.ms": "2", "retention.ms": "3"}


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_slow_delete_leaves_a_topic_that_was_made_again_meanwhile(by_id: bool) -> None:
    pair = Pair()
    await pair.prepare()
    topic_id = pair.image.topics["t"].topic_id

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(NewTopic("t", 2, 2))

    pair.racing.rival = rival
    # Somebody has deleted the one that was meant, so there is nothing left to do.
    with pytest.raises(ApiError, match="another topic id") as caught:
        await pair.first.topics.delete("t", topic_id if by_id else None)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.code == unknown
    assert pair.image.topics["t"].topic_id != topic_id
    assert len(pair.image.topics["t"].partitions) == 2


async def test_a_repeated_delete_leaves_a_topic_that_was_made_again_meanwhile() -> None:
    pair = Pair()
    await pair.prepare()
    before = pair.image.topics["t"].topic_id
    pair.metadata.faults.lose_next_reply(LostReply.HAPPENED)

    class Remade(MetadataCache):
        """Somebody makes the topic again before this broker has read back."""

        async def catch_up(self, *changed: str) -> ClusterImage:
            if "t" not in pair.image.topics:
                await pair.second.images.catch_up(paths.topic_path("t"))
                await pair.second.topics.create(NewTopic("t", 1, 1))
            return await super().catch_up(*changed)

    images = Remade(pair.racing)
    await images.load()
    settings = LiveSettings(BrokerSettings())
    await Topics(pair.racing, images, settings, Randomness(1)).delete("t")
    assert pair.image.topics["t"].topic_id != before


async def test_a_topic_that_another_broker_deleted_can_be_made_at_once() -> None:
    pair = Pair()
    await pair.prepare()
    await pair.second.topics.delete("t")
    assert "t" in pair.first.images.image.topics  # It has not heard of it yet.
    made = await pair.first.topics.create(NewTopic("t", assignment={0: [BrokerId(2), BrokerId(1)]}))
    assert made.topic_id in pair.image.topics_by_id


async def test_a_topic_that_exists_is_refused_before_anything_else_is_checked() -> None:
    pair = Pair()
    await pair.prepare()
    with pytest.raises(ApiError) as refused:
        await pair.first.topics.create(NewTopic("t", partitions=1, replication_factor=100))
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_topic_that_another_broker_made_can_be_grown_at_once() -> None:
    pair = Pair()
    await pair.prepare()
    await pair.second.topics.create(NewTopic("new", assignment={0: [BrokerId(1), BrokerId(2)]}))
    assert "new" not in pair.first.images.image.topics
    await pair.first.topics.add_partitions("new", 2, [[BrokerId(2), BrokerId(1)]])
    assert len(pair.image.topics["new"].partitions) == 2


async def test_settings_made_while_their_topic_is_deleted_go_with_it() -> None:
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.configs.change_topic(
            "t", setting("retention.ms", "1"), validate_only=False
        )

    pair.racing.rival = rival
    await pair.first.topics.delete("t")
    assert pair.racing.has_raced
    assert paths.topic_config_path("t") not in pair.metadata.tree.nodes
    await pair.second.images.catch_up(paths.topic_path("t"))
    await pair.second.topics.create(NewTopic("t", 1, 1))
    assert pair.image.topic_overrides("t") == {}


@pytest.mark.parametrize("overrides", [{}, {"retention.ms": "2"}])
async def test_a_new_topic_replaces_settings_that_were_left_behind(
    overrides: dict[str, str],
) -> None:
    pair = Pair()
    await pair.prepare()
    left = node_values.ConfigOverrides({"retention.ms": "1"}).encode()
    await pair.second.store.multi(Create(paths.topic_config_path("u"), left))

    async def rival() -> None:
        await pair.second.store.multi(Set(paths.topic_config_path("u"), left, 0))

    pair.racing.rival = rival
    await pair.first.topics.create(NewTopic("u", 1, 1, overrides=overrides))
    assert pair.image.topic_overrides("u") == overrides


@pytest.mark.parametrize("had_settings", [True, False])
async def test_a_change_of_settings_carries_nothing_over_to_the_next_topic_of_the_name(
    had_settings: bool,
) -> None:
    """The settings of the second topic have the version that those of the first had."""
    pair = Pair()
    await pair.prepare()
    old = {"retention.ms": "1"} if had_settings else {}
    await pair.second.topics.create(NewTopic("u", 1, 1, overrides=old))
    await pair.first.images.catch_up(paths.topic_path("u"))

    async def rival() -> None:
        await pair.second.topics.delete("u")
        await pair.second.topics.create(NewTopic("u", 1, 1, overrides={"segment.ms": "5"}))

    pair.racing.rival = rival
    await pair.first.configs.change_topic(
        "u", setting("max.message.bytes", "9"), validate_only=False
    )
    assert pair.image.topic_overrides("u") == {"segment.ms": "5", "max.message.bytes": "9"}


async def test_settings_of_a_topic_that_is_gone_are_refused() -> None:
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.topics.delete("t")

    pair.racing.rival = rival
    with pytest.raises(ApiError) as caught:
        await pair.first.configs.change_topic(
            "t", setting("retention.ms", "1"), validate_only=False
        )
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert paths.topic_config_path("t") not in pair.metadata.tree.nodes


@pytest.mark.parametrize("change", ["grow", "reassign"])
async def test_a_slow_change_of_partitions_leaves_the_next_topic_of_the_name_as_it_is(
    change: str,
) -> None:
    """The nodes of the second topic have the versions that those of the first had."""
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(
            NewTopic("t", assignment={0: [BrokerId(3), BrokerId(4)], 1: [BrokerId(4), BrokerId(3)]})
        )

    pair.racing.rival = rival
    before = pair.image.topics["t"]
    with suppress(ApiError):
        if change == "grow":
            await pair.first.topics.add_partitions("t", 3, [[BrokerId(1), BrokerId(2)]])
        else:
            await reassign(pair.first.images, "t", {0: [BrokerId(1), BrokerId(3)]})
    assert pair.racing.has_raced
    after = pair.image.topics["t"]
    stored = node_values.TopicAssignment.decode(
        paths.topic_path("t"), pair.metadata.tree.nodes[paths.topic_path("t")].value
    )
    assert after.topic_id != before.topic_id
    assert paths.topic_id_path("t", stored.topic_id) in pair.metadata.tree.nodes
    assert set(after.partitions[1].replicas) == {3, 4}
    assert after.partitions[0].leader in after.partitions[0].replicas


async def test_a_slow_election_leaves_the_next_topic_of_the_name_as_it_is() -> None:
    """The states of the second topic have the versions that those of the first had."""
    pair = Pair()
    await pair.prepare()
    where = TopicPartition("t", 0)
    first_id = pair.image.topics["t"].topic_id

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(
            NewTopic("t", assignment={0: [BrokerId(3), BrokerId(4)], 1: [BrokerId(4), BrokerId(3)]})
        )

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        if image.topics["t"].topic_id != first_id:
            return None
        return PartitionState(BrokerId(2), LeaderEpoch(1), (BrokerId(2),), 1)

    pair.racing.rival = rival
    await change_states(pair.first.images, [where], decide, "test")
    assert pair.racing.has_raced
    assert pair.image.topics["t"].topic_id != first_id
    assert pair.image.topics["t"].partitions[0].leader == 3
