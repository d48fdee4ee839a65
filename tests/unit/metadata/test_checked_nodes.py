"""What a change merely checks is in the image already, and is not read again."""

import pytest

from odradek.metadata import MetadataCache, Node, Set, node_values, paths, store_setup
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.topic_operations import create_topic
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId


def state(epoch: int) -> node_values.PartitionState:
    return node_values.PartitionState(BrokerId(1), LeaderEpoch(epoch), (BrokerId(1),), 1)


async def test_a_topic_whose_assignment_is_checked_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change that adds a replica to an ISR checks the assignment, and the topic may be wide."""
    store = MemoryMetadata().connect()
    await store_setup.prepare_store(store, "cluster")
    cache = MetadataCache(store)
    await cache.load()
    assignment = node_values.TopicAssignment(TopicId(bytes(16)), ((BrokerId(1),),) * 2)
    await cache.write(*create_topic("t", assignment, [state(0)] * 2, {}, None))
    read: list[str] = []
    read_tree = store.read_tree

    async def counting(path: str) -> dict[str, Node]:
        read.append(path)
        return await read_tree(path)

    monkeypatch.setattr(store, "read_tree", counting)
    changed = Set(paths.partition_state_path("t", 1), state(1).encode(), 0)
    await cache.write(cache.image.topics["t"].check_assignment(), changed)
    assert cache.image.topics["t"].partitions[1].leader_epoch == 1
    assert read == []
