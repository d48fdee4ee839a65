"""What a group of any kind offers to the machine, and how another kind plugs in.

An id names one group, of one kind at a time. The machine looks groups up, keeps their offsets
and knows how to list and delete them; everything else is the business of the kind.

A group is a value: a decision works on a copy of it, and `GroupChanged` puts the copy in the
place of the old one. So a decision changes nothing, and an append that fails loses nothing.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from odradek.groups.commands import ClassicCommand, CommitOffsets, GroupListing
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId, TopicPartition
from odradek.statemachine.machine import Caller, LogRecord, Now, Outcome


class GroupType(Enum):
    """The names that ListGroups gives."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


PartitionCheck = Callable[[TopicPartition, TopicId], ErrorCode]


class Group(Protocol):
    group_id: str

    @property
    def type(self) -> GroupType: ...

    @property
    def is_empty(self) -> bool:
        """Without members: it may be deleted, and may become a group of another kind."""
        ...

    def listing(self) -> GroupListing: ...

    def check_commit(self, commit: CommitOffsets) -> PartitionCheck | None:
        """Raises `ApiError` unless this group takes such a commit; may leave single partitions
        to a check of their own."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises `ApiError` unless this member may read the group's offsets."""
        ...

    def check_offset_deletion(self) -> None:
        """Raises `ApiError` unless offsets may be deleted now."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def unused_since(self, committed_ms: int) -> int | None:
        """From when an offset that was committed at a time counts as unused; None: never."""
        ...

    def tombstones(self) -> Sequence[LogRecord]:
        """What makes the log forget the group itself. Its offsets are not part of it."""
        ...


class GroupChanged(NamedTuple):
    """The event of every kind: this is the group from now on."""

    group: Group


def members_of(group_id: str) -> Hashable:
    """The subject (`Outcome.subjects`) of all records about a group itself and its members."""
    return "members", group_id


def offsets_of(group_id: str) -> Hashable:
    """The subject of all records about the offsets of a group. It is another one than that of its
    members: a commit that waits for its replicas must not hold the heartbeats of the group up."""
    return "offsets", group_id


Groups = Mapping[str, Group]
GroupOutcome = Outcome[GroupChanged]


class OtherGroups(Protocol):
    """A kind of groups beside the classic one. The machine asks it

    - for commands of the types it names, and for classic commands to a group of its kind
      that is not empty (an empty one gives way to a classic group);
    - for records of the kinds it names, when they are read or were just written: it returns the
      group that results, or None when nothing is left of it;
    - when a deadline passes whose key is a tuple that starts with `deadlines`.

    It is given all groups, so it sees a classic group that it is to take over. To turn one into
    its own, or back, it returns records that end the one and begin the other, and a
    `GroupChanged` with the new one.
    """

    @property
    def commands(self) -> frozenset[type]: ...

    @property
    def record_kinds(self) -> frozenset[int]: ...

    @property
    def deadlines(self) -> str: ...

    def owns(self, group: Group) -> bool:
        """Whether a group is of this kind."""
        ...

    def decide(
        self, groups: Groups, command: object, caller: Caller | None, now: Now
    ) -> GroupOutcome: ...

    def decide_classic(
        self, group: Group, command: ClassicCommand, caller: Caller | None, now: Now
    ) -> GroupOutcome: ...

    def group_of(self, key: bytes) -> str:
        """The id of the group that a record is about."""
        ...

    def replay(self, group: Group | None, key: bytes, value: bytes | None) -> Group | None: ...

    def expire(self, groups: Groups, key: Hashable, now: Now) -> GroupOutcome: ...

    def loaded(self, group: Group, now: Now) -> GroupOutcome:
        """What follows for a group that was read from the log: its deadlines."""
        ...
