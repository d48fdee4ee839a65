"""Planted violations of the image's invariants: no such image is published."""

from types import MappingProxyType

import pytest

from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage, ImageChange, Node, PartitionImage, Set, TopicImage
from odradek.metadata.image import difference
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.paths import partition_state_path
from odradek.metadata.tree import Tree
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from tests.unit.metadata.test_image import keeper_on, state, topic

ID = TopicId(bytes(range(16)))


def image(*, partition: PartitionImage | None = None, topic_id: TopicId = ID) -> ClusterImage:
    partition = partition or PartitionImage(
        0, (BrokerId(1), BrokerId(2)), BrokerId(1), LeaderEpoch(3), (BrokerId(1),), 1, 5
    )
    found = TopicImage("t", ID, (partition,), {}, 0)
    return ClusterImage(
        topics=MappingProxyType({"t": found}), topics_by_id=MappingProxyType({topic_id: found})
    )


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (image(topic_id=TopicId(bytes(16))), "its id leads to another topic"),
        (
            image(
                partition=PartitionImage(
                    1, (BrokerId(1),), BrokerId(1), LeaderEpoch(3), (BrokerId(1),), 1, 5
                )
            ),
            "at another index",
        ),
        (
            image(
                partition=PartitionImage(
                    0, (BrokerId(1),), BrokerId(2), LeaderEpoch(3), (BrokerId(1),), 1, 5
                )
            ),
            "its leader is not in the ISR",
        ),
        (
            image(
                partition=PartitionImage(
                    0, (BrokerId(1),), BrokerId(1), LeaderEpoch(3), (BrokerId(1),), 1, 4
                )
            ),
            "its node goes back from version 5",
        ),
        (
            image(
                partition=PartitionImage(
                    0, (BrokerId(1),), BrokerId(1), LeaderEpoch(2), (BrokerId(1),), 1, 6
                )
            ),
            "its leader epoch falls from 3",
        ),
        (
            ClusterImage(topics_by_id=image().topics_by_id),
            "a deleted topic can still be found by its id",
        ),
    ],
)
def test_an_image_that_contradicts_itself_or_the_one_before(after: ClusterImage, rule: str) -> None:
    with pytest.raises(InvariantViolation, match=rule):
        after.check(image(), ["t"])


def test_another_store_begins_anew() -> None:
    before = image()._replace(store_id="first")
    after = image(
        partition=PartitionImage(
            0, (BrokerId(1),), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 1, 0
        )
    )
    after._replace(store_id="second").check(before, ["t"])


async def test_a_wrong_image_is_not_published() -> None:
    cache = await keeper_on(MemoryMetadata().connect())
    await cache.write(*topic("t", 7))
    published: list[ImageChange] = []
    cache.subscribe(published.append)
    wrong = state(leader=BrokerId(1))._replace(isr=(BrokerId(2),)).encode()
    with pytest.raises(InvariantViolation, match="its leader is not in the ISR"):
        await cache.write(Set(partition_state_path("t", 0), wrong, 0))
    assert not published


async def test_an_image_follows_the_one_before() -> None:
    cache = await keeper_on(MemoryMetadata().connect())
    stale = difference(ClusterImage(), cache.image)
    with pytest.raises(InvariantViolation, match="but the last one published is 1"):
        await cache._prepare_and_publish(stale)


# The tree of the store


def test_a_node_without_a_parent() -> None:
    tree = Tree()
    with pytest.raises(InvariantViolation, match="no parent"):
        tree.apply({"/a/b": Node(b"", 0, 1)})


def test_a_node_below_an_ephemeral_one() -> None:
    tree = Tree()
    session = tree.begin_session()
    tree.apply({"/a": Node(b"", 0, 1, session)})
    with pytest.raises(InvariantViolation, match="or an ephemeral one"):
        tree.apply({"/a/b": Node(b"", 0, 2)})


def test_a_node_that_its_session_does_not_own() -> None:
    tree = Tree()
    session = tree.begin_session()
    tree.apply({"/a": Node(b"", 0, 1, session)})
    tree._owned[session].clear()
    with pytest.raises(InvariantViolation, match="does not own it"):
        tree.check(["/a"])
