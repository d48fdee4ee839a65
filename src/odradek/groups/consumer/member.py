"""One member of a consumer group, and how it moves towards what it is meant to have.

Theory. Three epochs count. The group epoch counts changes of who is in the group, what they
subscribe to and what the topics look like. The assignment epoch says for which group epoch
the target (who is meant to have what) was made. The member epoch says up to which target the
member has come. There is no barrier: in each heartbeat a member says what it owns and hears
what it shall own, and goes on alone. It first gives up what the target takes from it; when it
no longer reports those partitions it reaches the target's epoch and is given what is free.
What another member still has comes later, in a heartbeat after the other let go. So a
partition has one owner at any time, and whoever loses nothing never stops.

    state                  what happens in a heartbeat                     next state
    ---------------------  ----------------------------------------------  ---------------------
    Stable                 there is no newer target                        Stable
                           a newer target takes partitions from it that    UnrevokedPartitions
                           it owns, or may be about to take up
                           a newer target, and all it gives is free        Stable
                           a newer target, and some it gives is not free   UnreleasedPartitions
    UnrevokedPartitions    it still owns what it shall give up             UnrevokedPartitions
                           it gave up, and all of the target is free       Stable
                           it gave up, and some of it is not free          UnreleasedPartitions
                           it gave up, and the target now takes more       UnrevokedPartitions
    UnreleasedPartitions   as from Stable; the same target counts too
    Unknown                written by a newer coordinator: the member has
                           to come back owning nothing                     as from Stable

A member leaves UnrevokedPartitions by its rebalance timeout at the latest: then it is out.
It enters with epoch 0, leaves with -1, and a static member that will be back leaves with -2:
its partitions wait for it until its session ends.

Each partition of a member carries the epoch in which it was given: an offset committed under an
older member epoch counts if the partition has been the member's ever since (KIP-1251).
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.groups.commands import Protocol
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class TopicIdPartition(NamedTuple):
    topic_id: TopicId
    partition: int


# Partitions, with the epoch in which each was given.
Given = Mapping[TopicIdPartition, int]

NOTHING: Final[Given] = {}


class MemberState(IntEnum):
    """Kafka's numbers: they stand in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicSide(NamedTuple):
    """What a member that speaks the classic protocol offered when it joined."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class Profile(NamedTuple):
    """What a member says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    # A regular expression; none if it is empty.
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None


class ConsumerMember(NamedTuple):
    """`assigned` is what it may own; `to_revoke` what it has to give up, and may own still."""

    member_id: str
    profile: Profile = Profile()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Given = NOTHING
    to_revoke: Given = NOTHING

    def has_reached(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def has_left_for_now(self) -> bool:
        """A static member that said it will be back."""
        return self.epoch == STATIC_LEAVING_EPOCH


class InvalidReconciliation(AssertionError):
    """A mistake of ours, told with what the group went through before."""

    def __init__(self, after: ConsumerMember, why: str, story: Collection[str]) -> None:
        lines = "".join(f"\n  {line}" for line in story)
        super().__init__(
            f"member {after.member_id!r} cannot become {after.state.name} at epoch {after.epoch}:"
            f" {why}; before that:{lines}"
        )


def reconcile(
    member: ConsumerMember,
    assignment_epoch: int,
    target: Collection[TopicIdPartition],
    owners: Mapping[TopicIdPartition, str],
    owned: Collection[TopicIdPartition] | None,
    *,
    may_be_late: bool = False,
) -> ConsumerMember:
    """The member's next state. `owned` is what it reports; None is no report.

    A member that `may_be_late` and reports nothing may be about to take up what it was last given
    (librdkafka is, while it looks up the topic). If less is left of that, it has to hear so first;
    whatever is left makes it report again.
    """
    if member.has_reached(assignment_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, member.to_revoke):
        return member
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that this coordinator does not know."
            " It must give up its partitions and join again.",
        )
    kept = {each: epoch for each, epoch in member.assigned.items() if each in target}
    lost = {each: epoch for each, epoch in member.assigned.items() if each not in kept}
    is_late = may_be_late and not owned and bool(kept)
    if lost and (is_late or _owns(owned, lost)):
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
        # An answer that was lost is asked for again under the epoch before.
        previous_epoch=member.previous_epoch if member.epoch == assignment_epoch else member.epoch,
        assigned=kept,
        to_revoke=NOTHING,
    )


def _owns(owned: Collection[TopicIdPartition] | None, partitions: Given) -> bool:
    """Whoever does not report may own everything."""
    return owned is None or any(each in partitions for each in owned)


def check_reconciled(
    before: ConsumerMember,
    after: ConsumerMember,
    assignment_epoch: int,
    owners: Mapping[TopicIdPartition, str],
    story: Collection[str],
) -> None:
    """What must hold after every step: one owner for a partition, epochs that only rise."""
    if (after.state is MemberState.UNREVOKED_PARTITIONS) != bool(after.to_revoke):
        raise InvalidReconciliation(after, "what it shall give up does not fit its state", story)
    if after.epoch > assignment_epoch:
        raise InvalidReconciliation(after, f"the target is of epoch {assignment_epoch}", story)
    if after.epoch < before.epoch:
        raise InvalidReconciliation(after, f"it was at epoch {before.epoch}", story)
    for partition in after.assigned:
        owner = owners.get(partition, after.member_id)
        if owner != after.member_id:
            raise InvalidReconciliation(after, f"{owner!r} owns {partition}", story)
