"""Positions are moved before the group has assigned partitions, or where it assigned others."""

import pytest

from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import CommitFailed
from odradek.protocol.types import TopicPartition
from tests.unit.client.group.test_groups import owned, poll_until
from tests.unit.client.group_cluster import GroupCluster, on_groups

T0 = TopicPartition("t", 0)


def has_assignment(consumer: Consumer) -> bool:
    return consumer._group is not None and consumer._group.has_assignment


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@on_groups()
async def test_before_the_group_has_assigned_partitions(
    cluster: GroupCluster, protocol: str
) -> None:
    await cluster.client.create_topic("t", 1)
    one = cluster.consumer(group_protocol=protocol)
    one.subscribe(["t"])
    with pytest.raises(ValueError, match=r"t-0 is not assigned yet: .* poll\(\) until") as refused:
        one.seek(T0, 0)
    assert "on_partitions_assigned" in str(refused.value)
    assert "assign()" not in str(refused.value), "that does not go with a subscription"
    with pytest.raises(ValueError, match=r"seek_to_beginning\(\): no partition is assigned yet"):
        one.seek_to_beginning()
    with pytest.raises(CommitFailed, match=r"not in group \S+ yet: poll\(\) joins it"):
        await one.commit({T0: 0})
    await poll_until([one], lambda: owned(one) == [0])
    one.seek(T0, 0)
    one.seek_to_beginning()
    await one.commit({T0: 0})
    await one.unsubscribe()
    with pytest.raises(ValueError, match=r"t-0 is not assigned: assign\(\[\('t', 0\)\]\) first"):
        one.seek(T0, 0)


@on_groups()
async def test_partitions_that_the_group_assigned_elsewhere(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t", 1)
    await cluster.client.create_topic("u", 1)
    one, other = cluster.consumer(), cluster.consumer()
    one.subscribe(["t"])
    await poll_until([one], lambda: owned(one) == [0])
    other.subscribe(["t"])
    await poll_until([one, other], lambda: has_assignment(other))
    await poll_until([one, other], lambda: len(owned(one)) + len(owned(other)) == 1)
    idle = other if owned(one) else one
    with pytest.raises(ValueError, match=r"another member of group .* Assigned here: none"):
        idle.seek(T0, 0)
    idle.seek_to_beginning()  # There is nothing to move, which is no fault of the program.
    with pytest.raises(ValueError, match=r"subscribed to t; subscribe\(\) to u as well"):
        idle.seek(("u", 0), 0)
