"""A replica that a reassignment drops, at the moment at which its leader finds it in sync again."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.metadata.node_values import TopicAssignment
from odradek.metadata.paths import topic_path
from odradek.metadata.store import Set
from odradek.protocol.types import BrokerId
from odradek.replication.isr_changes import IsrChanges
from tests.unit.replication.cluster import TOPIC, Cluster, with_cluster


async def assign(cluster: Cluster, replicas: Sequence[int]) -> None:
    """Writes what the controller writes when a reassignment is finished, and those that go were not
    in sync: another version of the assignment, and the same state of the partition."""
    path = topic_path(TOPIC)
    node = await cluster.store.read(path)
    assert node is not None
    before = TopicAssignment.decode(path, node.value)
    after = TopicAssignment(before.topic_id, (tuple(map(BrokerId, replicas)),))
    await cluster.store.multi(Set(path, after.encode(), node.version))


async def restart_the_third(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, replicas: Sequence[int]
) -> list[tuple[int, ...]]:
    """Broker 3 has left the ISR and returns. Its leader lets it in, but before that is
    written the assignment becomes `replicas`. Returns the list of the sets that are proposed."""
    await cluster.create_topic([1, 2, 3], min_insync_replicas="2")
    cluster.brokers[3].kill()
    await cluster.until(lambda state: state.isr == (1, 2))
    proposed: list[tuple[int, ...]] = []
    write = IsrChanges._write

    async def write_late(sets: IsrChanges, proposals: Sequence[Any]) -> bool:
        if not proposed:
            await assign(cluster, replicas)
        proposed.extend(proposal.in_sync for proposal in proposals)
        return await write(sets, proposals)

    monkeypatch.setattr(IsrChanges, "_write", write_late)
    cluster.brokers[3].start()
    return proposed


def test_a_replica_that_was_dropped_meanwhile_does_not_enter_the_in_sync_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        proposed = await restart_the_third(cluster, monkeypatch, [1, 2])
        await asyncio.sleep(5)  # In virtual time: much longer than a follower takes to catch up.
        assert proposed == [(1, 2, 3)]
        assert (await cluster.state()).isr == (1, 2)
        assert (await cluster.produce(1, b"a")).error_code == 0
        await cluster.until_read(2, [b"a"])

    with_cluster(story)


def test_a_follower_enters_although_the_assignment_was_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when another partition of the topic is moved: only the first attempt is refused."""

    async def story(cluster: Cluster) -> None:
        proposed = await restart_the_third(cluster, monkeypatch, [1, 2, 3])
        await cluster.until(lambda state: state.isr == (1, 2, 3))
        assert proposed == [(1, 2, 3), (1, 2, 3)]

    with_cluster(story)
