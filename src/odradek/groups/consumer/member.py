"""A member of a consumer group (KIP-848): what it says about itself, its epoch and its partitions.

`reconciliation` decides how the member moves to its target assignment.

Each partition of a member carries the epoch since which the member owns it. An offset that is
committed with an older member epoch is accepted if the member has owned the partition ever since
(KIP-1251).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.groups.commands import Protocol
from odradek.protocol.types import TopicId

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class TopicIdPartition(NamedTuple):
    topic_id: TopicId
    partition: int


Assignment = Mapping[TopicIdPartition, int]
"""Partitions of a member, each with the epoch since which the member owns it."""

NO_PARTITIONS: Final[Assignment] = {}


class MemberState(IntEnum):
    """The numbers are Kafka's, as they are written to the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicProfile(NamedTuple):
    """What a member that uses the classic protocol says about itself in addition."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class Profile(NamedTuple):
    """What a member says about itself: its client, its subscription and its settings."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    # A regular expression over topic names; empty if the member has none.
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProfile | None = None


class ConsumerMember(NamedTuple):
    """`assigned` are the partitions that it may own. `to_revoke` are those that it has to revoke
    and may still own."""

    member_id: str
    profile: Profile = Profile()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NO_PARTITIONS
    to_revoke: Assignment = NO_PARTITIONS

    def has_reached(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def has_left_temporarily(self) -> bool:
        """Whether it is a static member that left with epoch -2 and will return."""
        return self.epoch == STATIC_LEAVING_EPOCH
