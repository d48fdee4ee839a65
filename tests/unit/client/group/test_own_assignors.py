"""Assignors that a user writes: what they may return, and what is said about wrong answers."""

from typing import Any

import pytest

from tests.unit.client.group.test_groups import owned, poll_until
from tests.unit.client.group_cluster import GroupCluster, on_groups, with_groups


class OwnAssignor:
    """Assigns what a function returns of the ids of the members."""

    name = "own"
    is_cooperative = False

    def __init__(self, shares: Any) -> None:
        self._shares = shares

    def assign(self, partitions: Any, members: Any) -> Any:
        return self._shares(members)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (lambda members: None, "assignor own returned None: it must return partitions by member"),
        (lambda members: {one: [] for one in members}, "write {member.member_id: ...}"),
        (lambda members: {members[0].member_id: ["t"]}, "needs a partition, not 't'"),
        (lambda members: {members[0].member_id: [("t", 7)]}, "returned t-7, which it was not giv"),
        (lambda members: {members[0].member_id: [("t", 0), ("t", 0)]}, "gave t-0 to both"),
    ],
)
def test_an_assignor_is_told_what_is_wrong_with_its_answer(shares: Any, said: str) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("t")
        consumer = cluster.consumer(partition_assignment_strategy=OwnAssignor(shares))
        consumer.subscribe(["t"])
        with pytest.raises((TypeError, ValueError)) as raised:
            await poll_until([consumer], lambda: False)
        assert said in str(raised.value)

    with_groups(test)


@on_groups()
async def test_an_assignor_may_return_pairs(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t", 2)

    def shares(members: Any) -> Any:
        return {members[0].member_id: [("t", 1)]}

    consumer = cluster.consumer(partition_assignment_strategy=OwnAssignor(shares))
    consumer.subscribe(["t"])
    await poll_until([consumer], lambda: owned(consumer) == [1])
