"""The state of one consumer group, and how a record changes it.

Everything a group knows stands in the log: there is no draft state, nobody waits, and a replay
gives the same group. `apply` is given a record, whether it was just written or is read again,
and never fails on a strange order: after compaction a member's place may be read before the
member itself, and of two records about a partition the later counts.

    state         when
    -----------   -------------------------------------------------------------
    Empty         it has no members
    Assigning     the group epoch is ahead of the target: the next heartbeat assigns
    Reconciling   some member has not reached the target
    Stable        all have
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Self

from odradek.groups.commands import CommitOffsets, GroupListing
from odradek.groups.consumer import records
from odradek.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from odradek.groups.consumer.records import ResolvedPattern, tombstone
from odradek.groups.group import GroupType, PartitionCheck
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.statemachine.machine import LogRecord

Images = Callable[[], ClusterImage]

_STORY_LENGTH: Final = 20
_NO_TARGET: Final[frozenset[TopicIdPartition]] = frozenset()


class GroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """Invariants: `owners` names the one member that has a partition assigned or to revoke; the
    assignment epoch never exceeds the group epoch, nor a member epoch the assignment epoch."""

    __slots__ = (
        "_images",
        "_subscribed",
        "assignment_epoch",
        "epoch",
        "group_id",
        "has_old_topics",
        "members",
        "metadata_hash",
        "owners",
        "patterns",
        "static_members",
        "story",
        "targets",
    )

    def __init__(self, group_id: str, images: Images) -> None:
        self._images = images
        self.group_id = group_id
        # As in Kafka: so the first epoch that is written, with the first member, is 2.
        self.epoch = 1
        self.assignment_epoch = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        # Member ids by instance id.
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, frozenset[TopicIdPartition]] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.has_old_topics = False
        self.story: deque[str] = deque(maxlen=_STORY_LENGTH)
        self._subscribed: frozenset[str] | None = None

    def copy(self) -> Self:
        """A draft for a decision to work on."""
        made = object.__new__(type(self))
        for name in self.__slots__:
            value = getattr(self, name)
            copied = value.copy() if isinstance(value, dict | deque) else value
            setattr(made, name, copied)
        return made

    # What others want to know

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(member.has_reached(epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def target_of(self, member_id: str) -> frozenset[TopicIdPartition]:
        return self.targets.get(member_id, _NO_TARGET)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names it subscribes to, and those its pattern stands for."""
        profile = member.profile
        resolved = self.patterns.get(profile.pattern) if profile.pattern else None
        return profile.topics if resolved is None else profile.topics | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        if self._subscribed is None:
            topics: set[str] = set()
            for subscription in {self.topics_of(member) for member in self.members.values()}:
                topics |= subscription
            self._subscribed = frozenset(topics)
        return self._subscribed

    def preferred_assignor(self) -> str | None:
        """The one that most members ask for."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.profile.assignor
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name], default=None)

    def check_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member that speaks, or `ApiError` with the reason why it may not."""
        if instance_id is None:
            member = self.members.get(member_id)
            if member is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"Member {member_id} is not a member of group {self.group_id}.",
                )
            return member
        holder = self.static_members.get(instance_id)
        if holder is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced"
                f" by member {holder}.",
            )
        return self.members[holder]

    def check_commit(self, commit: CommitOffsets) -> PartitionCheck | None:
        in_transaction = commit.producer is not None
        if commit.generation_id < 0:
            says_who = commit.member_id or commit.group_instance_id is not None
            if not self.members or (in_transaction and not says_who):
                return None
        member = self.check_member(commit.member_id, None)
        is_classic = member.profile.classic is not None
        if not in_transaction and not is_classic and not commit.knows_missing_groups:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Members of the consumer protocol must use OffsetCommit 9 or later.",
            )
        stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
        if commit.generation_id > member.epoch:
            raise ApiError(stale)
        if commit.generation_id == member.epoch:
            return None

        def check(partition: TopicPartition, topic_id: TopicId) -> ErrorCode:
            """Whether it has been the member's since the epoch that it speaks of."""
            known = topic_id if topic_id != NO_TOPIC_ID else self._topic_id(partition.topic)
            each = TopicIdPartition(known, partition.partition)
            since = member.assigned.get(each, member.to_revoke.get(each))
            is_its_own = since is not None and since <= commit.generation_id
            return ErrorCode.NONE if is_its_own else stale

        return check

    def _topic_id(self, name: str) -> TopicId:
        topic = self._images().topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.check_member(member_id or "", None)
        if member_epoch != member.epoch:
            is_classic = member.profile.classic is not None
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
            )

    def check_offset_deletion(self) -> None:
        """Offsets of topics that nobody subscribes to may go at any time."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def unused_since(self, committed_ms: int) -> int | None:
        return committed_ms

    def listing(self) -> GroupListing:
        return GroupListing(self.group_id, "consumer", self.state.value, self.type.value)

    def tombstones(self) -> list[LogRecord]:
        group_id = self.group_id
        written = [tombstone(records.CURRENT, group_id, each) for each in self.members]
        written += [tombstone(records.TARGET, group_id, each) for each in self.targets]
        written.append(tombstone(records.TARGET_EPOCH, group_id))
        written += [tombstone(records.MEMBER, group_id, each) for each in self.members]
        written += [tombstone(records.PATTERN, group_id, each) for each in self.patterns]
        if self.has_old_topics:
            written.append(tombstone(records.OLD_TOPICS, group_id))
        written.append(tombstone(records.GROUP, group_id))
        return written

    # How it changes

    def put_member(self, member: ConsumerMember) -> None:
        member_id = member.member_id
        old = self.members.get(member_id)
        if old is None or not (
            old.assigned is member.assigned and old.to_revoke is member.to_revoke
        ):
            if old is not None:
                self._release(old)
            for partition in (*member.assigned, *member.to_revoke):
                self.owners[partition] = member_id
        self.members[member_id] = member
        if old is None or old.profile is not member.profile:
            self._subscribed = None
            if member.profile.instance_id is not None:
                self.static_members[member.profile.instance_id] = member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._subscribed = None
        instance_id = member.profile.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for partition in (*member.assigned, *member.to_revoke):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def put_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        if resolved is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = resolved
        self._subscribed = None

    def apply(self, key: records.Key, value: bytes | None) -> None:
        """A record about this group, but the one that ends it."""
        if key.kind == records.GROUP and value is not None:
            read = records.read_group(value)
            self.epoch, self.metadata_hash = read.epoch, read.metadata_hash
        elif key.kind == records.OLD_TOPICS:
            self.has_old_topics = value is not None
        elif key.kind == records.MEMBER:
            self._apply_profile(key.part, value)
        elif key.kind == records.TARGET_EPOCH:
            self.assignment_epoch = 0 if value is None else records.read_target_epoch(value)
        elif key.kind == records.TARGET:
            if value is None:
                self.targets.pop(key.part, None)
            else:
                self.targets[key.part] = records.read_target(value)
        elif key.kind == records.CURRENT:
            self._apply_current(key.part, value)
        elif key.kind == records.PATTERN:
            resolved = None if value is None else records.read_pattern(value)
            self.put_pattern(key.part, resolved)

    def _apply_profile(self, member_id: str, value: bytes | None) -> None:
        if value is None:
            self.remove_member(member_id)
            self.story.append(f"epoch {self.epoch}: {member_id} is gone")
            return
        member = self.members.get(member_id) or ConsumerMember(member_id)
        self.put_member(member._replace(profile=records.read_profile(value)))

    def _apply_current(self, member_id: str, value: bytes | None) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self.put_member(ConsumerMember(member_id, member.profile))
            return
        after = records.read_current(member or ConsumerMember(member_id), value)
        self.put_member(after)
        before = MemberState.STABLE.name if member is None else member.state.name
        self.story.append(
            f"epoch {self.epoch}: {member_id} {before} -> {after.state.name},"
            f" epoch {after.epoch}, has {len(after.assigned)}, to revoke {len(after.to_revoke)}"
        )


def is_same(one: ConsumerGroup, other: ConsumerGroup) -> bool:
    """Whether two groups know the same, whatever order they learnt it in."""
    left, right = _knowledge(one), _knowledge(other)
    return left == right


def _knowledge(group: ConsumerGroup) -> Mapping[str, object]:
    hidden = ("_images", "_subscribed", "story")
    return {name: getattr(group, name) for name in group.__slots__ if name not in hidden}
