"""Decides how a member of a consumer group (KIP-848) moves to its target assignment: what it must
revoke first, and when it reaches the next epoch.

There are three epochs:

- The group epoch counts the changes of the members, their subscriptions and the topics.
- The assignment epoch is the group epoch that the target assignment was computed for.
- The member epoch is the assignment epoch that the member has reached.

No member waits for another one. In each heartbeat a member reports the partitions that it owns and
is told its current assignment:

1. It first revokes the partitions that the target assignment takes from it.
2. When it no longer reports them, it reaches the assignment epoch and is given those partitions of
   its target that no other member owns.
3. It gets the others in later heartbeats, after their owners have revoked them.

So a partition has one owner at any time, and a member that loses nothing never stops reading.

    state                  condition, at a heartbeat                       next state
    ---------------------  ----------------------------------------------  ---------------------
    Stable                 there is no newer target                        Stable
                           a newer target takes partitions from the        UnrevokedPartitions
                           member that it owns or may be about to own
                           a newer target, all partitions are free         Stable
                           a newer target, some partitions are not free    UnreleasedPartitions
    UnrevokedPartitions    the member still owns what it has to revoke     UnrevokedPartitions
                           it has revoked, all partitions are free         Stable
                           it has revoked, some are not free               UnreleasedPartitions
                           it has revoked, a newer target takes more       UnrevokedPartitions
    UnreleasedPartitions   as from Stable, also for the same target
    Unknown                a newer coordinator wrote the state: the        as from Stable
                           member has to come back without partitions

A member in UnrevokedPartitions is removed if it does not revoke within its rebalance timeout. A
member joins with epoch 0 and leaves with -1. A static member that will return leaves with -2: its
partitions are kept for it until its session expires.
"""

from collections.abc import Collection, Mapping

from odradek.groups.consumer.member import (
    NO_PARTITIONS,
    Assignment,
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode


def reconcile(
    member: ConsumerMember,
    assignment_epoch: int,
    target: Collection[TopicIdPartition],
    owners: Mapping[TopicIdPartition, str],
    owned: Collection[TopicIdPartition] | None,
    *,
    may_lag: bool = False,
) -> ConsumerMember:
    """Returns the member after the next step of its reconciliation.

    `owned` are the partitions that the member reports; None if it did not report. A member that
    `may_lag` and reports no partitions may be about to take up its last assignment, as librdkafka
    does while it looks up the topic. If that assignment shrinks, the member has to be told first;
    it then reports the partitions that it keeps.
    """
    if member.has_reached(assignment_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _may_own(owned, member.to_revoke):
        return member
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that this coordinator does not know."
            " It must give up its partitions and join again.",
        )
    assigned = member.assigned
    kept = {partition: epoch for partition, epoch in assigned.items() if partition in target}
    lost = {partition: epoch for partition, epoch in assigned.items() if partition not in kept}
    is_lagging = may_lag and not owned and bool(kept)
    if lost and (is_lagging or _may_own(owned, lost)):
        return member._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, to_revoke=lost
        )
    is_complete = True
    for partition in target:
        if partition not in kept:
            if owners.get(partition, member.member_id) == member.member_id:
                kept[partition] = assignment_epoch
            else:
                is_complete = False
    return member._replace(
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        epoch=assignment_epoch,
        # A member that did not receive the reply repeats its heartbeat with the epoch before.
        previous_epoch=member.previous_epoch if member.epoch == assignment_epoch else member.epoch,
        assigned=kept,
        to_revoke=NO_PARTITIONS,
    )


def _may_own(owned: Collection[TopicIdPartition] | None, partitions: Assignment) -> bool:
    """Returns whether the member may still own any of `partitions`. A member that did not report
    its partitions (`owned` is None) is assumed to own all of them."""
    return owned is None or any(partition in partitions for partition in owned)
