"""The interfaces `Group` and `GroupTypePlugin` between the types of groups and `GroupMachine`, the
group coordinator's state machine.

A group id names one group, of one type at a time. `GroupMachine` looks groups up, keeps their
offsets, lists them and deletes them. Everything else is decided by the type of the group.

A decision works on a copy of a group and changes nothing. The copy takes the place of the group
when the event `GroupChanged` is applied, so an append that fails loses nothing.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Never, Protocol

from odradek.groups.commands import ClassicCommand, CommitOffsets, GroupListing
from odradek.metadata import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId, TopicPartition
from odradek.statemachine.machine import Caller, DecisionContext, Decisions, LogRecord, Outcome

GroupDecisionContext = DecisionContext[ClusterImage]


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
        """Whether it has no members. An empty group may be deleted or become another type."""
        ...

    def listing(self) -> GroupListing: ...

    def check_commit(self, commit: CommitOffsets, image: ClusterImage) -> PartitionCheck | None:
        """Raises `ApiError` unless this group accepts the commit. The returned function, if any,
        returns the error code for each partition of the commit."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises `ApiError` unless this member may read the group's offsets."""
        ...

    def check_offset_deletion(self) -> None:
        """Raises `ApiError` unless offsets may be deleted now."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def unused_since(self, committed_ms: int) -> int | None:
        """Returns the time since when an offset that was committed at `committed_ms` is unused;
        None if it is in use."""
        ...

    def tombstones(self) -> Sequence[LogRecord]:
        """Returns the records that delete the group, without those that delete its offsets."""
        ...

    def check(self) -> None:
        """Raises `InvariantViolation` if the state of the group contradicts itself."""
        ...


class GroupChanged(NamedTuple):
    """The event that replaces the group with the same id by `group`."""

    group: Group


def members_subject(group_id: str) -> Hashable:
    """Returns the subject (`Outcome.subjects`) of all records about a group and its members."""
    return "members", group_id


def offsets_subject(group_id: str) -> Hashable:
    """Returns the subject of all records about the offsets of a group. It differs from the subject
    of the members, so that a commit that waits for its replicas does not delay heartbeats."""
    return "offsets", group_id


Groups = Mapping[str, Group]
GroupOutcome = Outcome[GroupChanged, Never]
GroupDecisions = Decisions[GroupChanged, Never, ClusterImage]


class GroupTypePlugin(Protocol):
    """A type of groups beside the classic one. `GroupMachine` calls the plugin

    - once, to add its commands to the table of decisions;
    - for commands of classic members to a group of its type that is not empty (an empty group is
      replaced by a classic one);
    - for records of its `record_kinds`, when they are read or were just written;
    - when a deadline passes whose key is a tuple that starts with `deadline_key_prefix`.

    The plugin sees all groups. To convert a group between the classic type and its own, it returns
    the tombstones of the old group, the records of the new one, and a `GroupChanged`.
    """

    @property
    def record_kinds(self) -> frozenset[int]: ...

    @property
    def deadline_key_prefix(self) -> str: ...

    def add_decisions(self, decisions: GroupDecisions, groups: Groups) -> None:
        """Adds the functions that decide about its commands; `groups` are those of
        `GroupMachine`."""
        ...

    def is_type_of(self, group: Group) -> bool: ...

    def decide_classic(
        self,
        group: Group,
        command: ClassicCommand,
        caller: Caller[Any] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome: ...

    def group_of(self, key: bytes) -> str:
        """Returns the id of the group that a record is about."""
        ...

    def replay(self, group: Group | None, key: bytes, value: bytes | None) -> Group | None:
        """Applies a record to the group and returns it, or None if the group no longer exists."""
        ...

    def expire(self, groups: Groups, key: Hashable, now: GroupDecisionContext) -> GroupOutcome: ...

    def after_load(self, group: Group, now: GroupDecisionContext) -> GroupOutcome:
        """Returns the deadlines to schedule for a group that was just read from the log."""
        ...
