"""A consumer group (KIP-848): its members, its epochs and its assignments.

Everything that a group knows is in the log, so a replay gives the same group; no request waits. A
decision (`decision`) works on a draft and writes records; `apply` changes the group itself, in the
same way when a record was just written and when it is read again. `apply` accepts any order of
records: in a compacted log the current assignment of a member may come before the member itself,
and of two records about a partition the later one counts.

    state         condition
    -----------   -------------------------------------------------------------------------
    Empty         the group has no members
    Assigning     the group epoch is greater than the assignment epoch: the next heartbeat
                  computes the target assignment
    Reconciling   a member has not reached the target assignment
    Stable        all members have reached the target assignment
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final, NoReturn, Self

from odradek import invariants
from odradek.groups.commands import CommitOffsets, GroupListing
from odradek.groups.consumer import records
from odradek.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from odradek.groups.consumer.records import ResolvedPattern, tombstone
from odradek.groups.group import GroupType, PartitionCheck
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.statemachine.machine import LogRecord

_HISTORY_LENGTH: Final = 20
_NO_TARGET: Final[frozenset[TopicIdPartition]] = frozenset()


class GroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """A consumer group, or the draft of one.

    Invariants (`check`): member epoch <= assignment epoch <= group epoch; a partition is
    assigned to, or being revoked by, at most one member, and `owners` names that member; the target
    assignment gives a partition to at most one member."""

    __slots__ = (
        "_subscribed",
        "assignment_epoch",
        "epoch",
        "group_id",
        "has_old_topics",
        "history",
        "members",
        "metadata_hash",
        "owners",
        "patterns",
        "static_members",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # As in Kafka. The first epoch that is written, with the first member, is 2.
        self.epoch = 1
        self.assignment_epoch = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        # Member ids by instance id.
        self.static_members: dict[str, str] = {}
        # The target assignment: what each member is meant to own in the end.
        self.targets: dict[str, frozenset[TopicIdPartition]] = {}
        # The member that owns each partition, or may still own it.
        self.owners: dict[TopicIdPartition, str] = {}
        # The topics that each regular expression of a member matches.
        self.patterns: dict[str, ResolvedPattern] = {}
        # Whether the log has a record of the subscribed topics, as Kafka 4.0 wrote them.
        self.has_old_topics = False
        self.history: deque[str] = deque(maxlen=_HISTORY_LENGTH)
        self._subscribed: frozenset[str] | None = None

    def copy(self) -> Self:
        """Returns a draft for a decision to work on."""
        draft = object.__new__(type(self))
        for name in self.__slots__:
            value = getattr(self, name)
            copied = value.copy() if isinstance(value, dict | deque) else value
            setattr(draft, name, copied)
        return draft

    # Queries

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
        """Returns the topics that a member subscribes to, by name and by its regular expression."""
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
        """Returns the assignor that most members ask for, if any does."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.profile.assignor
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name], default=None)

    def check_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Returns the member that sent a request; raises `ApiError` if the member is not allowed to
        send it."""
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

    def check_room(self, member_id: str, instance_id: str | None, max_size: int) -> None:
        """Raises `ApiError` if a new member would make the group larger than
        `group.consumer.max.size`. Members of the group, also static ones that return, pass."""
        is_member = member_id in self.members or (instance_id or "") in self.static_members
        if len(self.members) >= max_size and not is_member:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {max_size} members.",
            )

    def check_commit(self, commit: CommitOffsets, image: ClusterImage) -> PartitionCheck | None:
        """A member may commit with an older epoch for partitions that it has owned since that epoch
        (KIP-1251), so such a commit is checked for each partition."""
        in_transaction = commit.producer is not None
        if commit.generation_id < 0:
            names_member = commit.member_id or commit.group_instance_id is not None
            if not self.members or (in_transaction and not names_member):
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
            if topic_id == NO_TOPIC_ID:
                topic = image.topics.get(partition.topic)
                topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
            owned = TopicIdPartition(topic_id, partition.partition)
            since_epoch = member.assigned.get(owned, member.to_revoke.get(owned))
            is_owned = since_epoch is not None and since_epoch <= commit.generation_id
            return ErrorCode.NONE if is_owned else stale

        return check

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
        """Offsets of topics that no member subscribes to may be deleted at any time."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def unused_since(self, committed_ms: int) -> int | None:
        return committed_ms

    def listing(self) -> GroupListing:
        return GroupListing(self.group_id, "consumer", self.state.value, self.type.value)

    def tombstones(self) -> list[LogRecord]:
        group_id = self.group_id
        tombstones = [tombstone(records.CURRENT, group_id, member) for member in self.members]
        tombstones += [tombstone(records.TARGET, group_id, member) for member in self.targets]
        tombstones.append(tombstone(records.TARGET_EPOCH, group_id))
        tombstones += [tombstone(records.MEMBER, group_id, member) for member in self.members]
        tombstones += [tombstone(records.PATTERN, group_id, pattern) for pattern in self.patterns]
        if self.has_old_topics:
            tombstones.append(tombstone(records.OLD_TOPICS, group_id))
        tombstones.append(tombstone(records.GROUP, group_id))
        return tombstones

    # Invariants

    def check(self) -> None:
        """Raises `InvariantViolation` if the state contradicts itself. Every decision calls it on
        its draft before anything is written."""
        contradictions = self.contradictions() if invariants.is_thorough() else self._wrong_epochs()
        for rule in contradictions:
            self._violate(rule)

    def contradictions(self) -> Iterator[str]:
        """Yields what contradicts itself. After a group was read from its log this means that the
        log lacks records (`ConsumerDecision.mend`)."""
        yield from self._wrong_epochs()
        yield from self._wrong_members()
        yield from self._wrong_targets()

    def _wrong_epochs(self) -> Iterator[str]:
        if self.assignment_epoch > self.epoch:
            yield f"its target is of epoch {self.assignment_epoch}, after {self.epoch}"

    def _wrong_members(self) -> Iterator[str]:
        owners: dict[TopicIdPartition, str] = {}
        for member_id, member in self.members.items():
            if member.epoch > self.assignment_epoch:
                yield f"{member_id} has epoch {member.epoch}, the target {self.assignment_epoch}"
            if (member.state is MemberState.UNREVOKED_PARTITIONS) != bool(member.to_revoke):
                yield f"{member_id} is {member.state.name} and revokes {member.to_revoke}"
            for partition in (*member.assigned, *member.to_revoke):
                if partition in owners:
                    yield f"{owners[partition]} and {member_id} own {partition}"
                owners[partition] = member_id
        if owners != self.owners:
            yield f"the owners are {owners}, not {self.owners}"
        static = {
            member.profile.instance_id: member_id
            for member_id, member in self.members.items()
            if member.profile.instance_id is not None
        }
        if static != self.static_members:
            yield f"its static members are {static}, not {self.static_members}"

    def _wrong_targets(self) -> Iterator[str]:
        targets: dict[TopicIdPartition, str] = {}
        for member_id, target in self.targets.items():
            if member_id not in self.members:
                yield f"the target has {member_id}, which is no member"
            for partition in target:
                if partition in targets:
                    yield f"the target gives {partition} to {targets[partition]} and {member_id}"
                targets[partition] = member_id

    def check_step(self, before: ConsumerMember, after: ConsumerMember) -> None:
        """Checks one step of a member's reconciliation, before `after` takes its place."""
        if after.epoch < before.epoch:
            self._violate(f"the epoch of {after.member_id} fell from {before.epoch}", after)
        if after.epoch > self.assignment_epoch:
            self._violate(f"the target is of epoch {self.assignment_epoch}", after)
        if (after.state is MemberState.UNREVOKED_PARTITIONS) != bool(after.to_revoke):
            self._violate("the partitions that it revokes do not fit its state", after)
        for partition in after.assigned:
            owner = self.owners.get(partition, after.member_id)
            if owner != after.member_id:
                self._violate(f"{owner} owns {partition}", after)

    def _violate(self, rule: str, member: ConsumerMember | None = None) -> NoReturn:
        if member is not None:
            rule = (
                f"{member.member_id} cannot become {member.state.name} at epoch {member.epoch}:"
                f" {rule}"
            )
        raise InvariantViolation(f"group {self.group_id}", rule, self.history)

    # Changes

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
        """Applies a record about this group, except for the tombstone that deletes it."""
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
            self.history.append(f"epoch {self.epoch}: {member_id} is gone")
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
        self.history.append(
            f"epoch {self.epoch}: {member_id} {before} -> {after.state.name},"
            f" epoch {after.epoch}, has {len(after.assigned)}, to revoke {len(after.to_revoke)}"
        )
