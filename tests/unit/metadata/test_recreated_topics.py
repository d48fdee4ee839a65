"""A topic that is deleted and created again has other partitions, which its name does not tell."""

import pytest

from odradek.metadata import MetadataCache, Operation, Set, node_values, paths, store_setup
from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.metadata.topic_operations import create_topic, delete_topic
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId

FIRST, SECOND = TopicId(bytes(15) + b"1"), TopicId(bytes(15) + b"2")
STATE = paths.partition_state_path("t", 0)


def state(epoch: int) -> node_values.PartitionState:
    return node_values.PartitionState(BrokerId(1), LeaderEpoch(epoch), (BrokerId(1),), 1)


def creation(topic_id: TopicId) -> list[Operation]:
    assignment = node_values.TopicAssignment(topic_id, ((BrokerId(1),),))
    return create_topic("t", assignment, [state(0)], {}, None)


@pytest.mark.parametrize(
    "path",
    [STATE, paths.topic_id_path("t", FIRST)],
    ids=["a partition of it", "the node of its id"],
)
async def test_it_is_noticed_before_it_is_notified(path: str) -> None:
    """The partitions of the new topic had the id of the old one until the notice came (seed 9000583
    of `topics`). A broker reads the partition after it has written, and the node of the id after a
    write that was refused because of it."""
    metadata = MemoryMetadata(StoreFaults(max_notification_delay_s=1000.0))
    store, other = metadata.connect(), metadata.connect()
    await store_setup.prepare_store(store, "cluster")
    cache = MetadataCache(store)
    await cache.load()
    await cache.write(*creation(FIRST))
    await cache.write(Set(STATE, state(5).encode(), 0))
    tree = await other.read_tree(paths.topic_path("t"))
    await other.multi(*delete_topic("t", tree, None))
    await other.multi(*creation(SECOND))
    image = await cache.catch_up(path)
    assert list(image.topics_by_id) == [SECOND]
    assert image.topics["t"].partitions[0].leader_epoch == 0
