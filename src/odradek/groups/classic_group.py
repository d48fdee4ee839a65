"""A group of the classic protocol: its members, its generation and its state.

Theory. The coordinator does not assign partitions; one of the members, the leader, does. A
rebalance has two phases, and in each of them all members wait for each other:

1. JoinGroup: every member sends its subscription and waits until all members have joined. Then a
   new generation begins, and the leader is told the subscriptions of all members.
2. SyncGroup: every member waits until the leader has sent the assignment, and receives its part.

A request with an older generation, or with an id that is not a member's, is refused. So in one
generation a partition has one owner. A member is removed if it sends no heartbeat within its
session timeout, or does not rejoin within the rebalance timeout.

    state                  event                                           next state
    ---------------------  ----------------------------------------------  -------------------
    Empty                  a member joins (the initial delay begins)       PreparingRebalance
    PreparingRebalance     all members have joined, or the time is up      CompletingRebalance
                           the time is up and no member is left            Empty
    CompletingRebalance    the leader sends the assignment                 Stable
                           a member joins, changes its metadata, leaves,
                           is removed, or does not sync in time            PreparingRebalance
    Stable                 a member joins, changes its metadata, leaves,
                           or is removed; the leader rejoins; a member
                           that does not sync in time is removed           PreparingRebalance
    any                    the group is deleted or changes its type        Dead

The state does not change when a member sends a heartbeat or commits offsets; when a follower
rejoins with the same metadata (it gets the current generation); and when a static member rejoins a
Stable group under a new member id, if the protocol stays the same and no partition waits for the
old member id to give it up (`owes_revocation`). The static member then gets its old assignment.

The log holds the last Stable or Empty generation of a group. A rebalance in progress is only in
memory. If the coordinator fails over, the members send their requests to the new one again.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, NoReturn, Self

from odradek import invariants
from odradek.groups.classic_member import ClassicMember
from odradek.groups.classic_subscriptions import owes_revocation, subscribed_topics
from odradek.groups.commands import (
    CommitOffsets,
    GroupDescription,
    GroupListing,
    JoinedMember,
    MemberDescription,
    Protocol,
)
from odradek.groups.group import GroupType
from odradek.groups.records import (
    GroupMetadataValue,
    MemberMetadata,
    group_record,
    group_tombstone,
)
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import LogRecord

CONSUMER_PROTOCOL: Final = "consumer"

_HISTORY_LENGTH: Final = 20


class State(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}


class InitialDelay(NamedTuple):
    """The first rebalance of an empty group waits for more members, and again after each one."""

    delay_ms: int
    remaining_ms: int
    has_new_member: bool = False


class ClassicGroup:
    """A classic group, or the draft of one.

    Invariants (`check`): the leader is a member, and only a group without members has none; the
    generation never falls; a caller waits for JoinGroup only while a rebalance is prepared, and for
    SyncGroup only while it is completed."""

    __slots__ = (
        "generation_id",
        "group_id",
        "history",
        "initial_delay",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_timestamp_ms = timestamp_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # ClassicMember ids by instance id.
        self.static_members: dict[str, str] = {}
        # Ordered sets: ids that were given to clients that have not joined with them yet, and
        # members of this generation that have not sent SyncGroup.
        self.pending_joins: dict[str, None] = {}
        self.pending_syncs: dict[str, None] = {}
        # None if the protocol is not that of consumers, whose metadata the broker can read.
        self.subscribed_topics: frozenset[str] | None = None
        self.initial_delay: InitialDelay | None = None
        self.history: tuple[str, ...] = ()

    def copy(self) -> Self:
        """Returns a draft for a decision to work on."""
        draft = object.__new__(type(self))
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(draft, name, value.copy() if isinstance(value, dict) else value)
        return draft

    # Queries

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_joins and all(
            member.awaiting_join is not None for member in self.members.values()
        )

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Returns whether one of the protocols is supported by all members."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols()
        return any(common is None or protocol.name in common for protocol in protocols)

    def _common_protocols(self) -> set[str] | None:
        """Returns the names that all members support; None if there are no members."""
        common: set[str] | None = None
        for member in self.members.values():
            names = {protocol.name for protocol in member.protocols}
            common = names if common is None else common & names
        return common

    def select_protocol(self) -> str:
        """Every member votes for the first of its protocols that all members support."""
        common = self._common_protocols() or set()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(protocol.name for protocol in member.protocols if protocol.name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def owes_revocation(self, member: ClassicMember) -> bool:
        """Returns whether a cooperative member joined with partitions that its new assignment
        lacks, and has not given them up yet."""
        return self.uses_consumer_protocol and owes_revocation(member, self.protocol_name)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Returns the member that sent a request. Raises `ApiError` if there is no such member, or
        if it is a static member that another client with its instance id has replaced: it is
        fenced."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_commit(self, commit: CommitOffsets, image: ClusterImage) -> None:
        generation_id = commit.generation_id
        in_transaction = commit.producer is not None
        if generation_id < 0 and self.is_empty:
            return
        if generation_id >= 0 or commit.member_id or commit.group_instance_id is not None:
            self.check_member(commit.member_id, commit.group_instance_id)
            if generation_id != self.generation_id:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not in_transaction and not self.is_empty:
            # A consumer without group management, while the group has members. Transactional
            # producers before KIP-447 never send a member id, so they are accepted.
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not in_transaction and self.state is State.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Every client may read the offsets of a classic group."""

    def check_offset_deletion(self) -> None:
        if not self.is_empty and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def unused_since(self, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_timestamp_ms < 0 else self.state_timestamp_ms
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return committed_ms
        return None

    def tombstones(self) -> list[LogRecord]:
        return [group_tombstone(self.group_id)]

    def listing(self) -> GroupListing:
        return GroupListing(
            self.group_id, self.protocol_type or "", self.state.value, self.type.value
        )

    def description(self) -> GroupDescription:
        """Shows metadata only if the group is Stable: before, its protocol is not decided."""
        shown = self.protocol_name if self.state is State.STABLE else None
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            shown or "",
            [
                MemberDescription(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(shown),
                    member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def joined_members(self) -> list[JoinedMember]:
        """Returns what the leader is told of the members."""
        name = self.protocol_name
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    # Changes of a draft

    def move_to(self, state: State, why: str, timestamp_ms: int) -> None:
        if state not in TRANSITIONS[self.state]:
            self._violate(f"{self.state.value} cannot become {state.value} ({why})")
        line = f"{timestamp_ms} {self.state.value} -> {state.value}, generation"
        self.history = (*self.history, f"{line} {self.generation_id}: {why}")[-_HISTORY_LENGTH:]
        self.state = state
        self.state_timestamp_ms = timestamp_ms

    def check(self) -> None:
        """Raises `InvariantViolation` if the state contradicts itself. Every decision calls it on
        its draft before anything is written."""
        has_leader = self.leader_id in self.members
        if has_leader != bool(self.members):
            self._violate(f"its leader is {self.leader_id}, its members are {list(self.members)}")
        if invariants.is_thorough():
            self._check_members()
            self._check_callers()

    def _check_members(self) -> None:
        if self.state in (State.EMPTY, State.DEAD) and self.members:
            self._violate(f"it is {self.state.value} and has members")
        if self.state in (State.COMPLETING_REBALANCE, State.STABLE) and not self.members:
            self._violate(f"it is {self.state.value} without members")
        static = {
            member.group_instance_id: member_id
            for member_id, member in self.members.items()
            if member.group_instance_id is not None
        }
        if static != self.static_members:
            self._violate(f"its static members are {static}, not {self.static_members}")
        if not self.pending_syncs.keys() <= self.members.keys():
            self._violate(f"it waits for SyncGroup of {list(self.pending_syncs)}")
        if self.pending_joins.keys() & self.members.keys():
            self._violate(f"members are among the pending ones: {list(self.pending_joins)}")
        if self.state in (State.COMPLETING_REBALANCE, State.STABLE):
            unsupported = [
                member_id
                for member_id, member in self.members.items()
                if all(protocol.name != self.protocol_name for protocol in member.protocols)
            ]
            # A record without a protocol was written before the first generation.
            if unsupported and self.protocol_name is not None:
                self._violate(f"{unsupported} do not support its protocol {self.protocol_name}")

    def _check_callers(self) -> None:
        for member_id, member in self.members.items():
            if member.member_id != member_id:
                self._violate(f"{member.member_id} is a member under the id {member_id}")
            if member.awaiting_join is not None and self.state is not State.PREPARING_REBALANCE:
                self._violate(f"JoinGroup of {member_id} waits in {self.state.value}")
            if member.awaiting_sync is not None and self.state is not State.COMPLETING_REBALANCE:
                self._violate(f"SyncGroup of {member_id} waits in {self.state.value}")

    def check_after(self, generation_id: int) -> None:
        """Checks a draft that was made of the group in this generation."""
        if self.generation_id < generation_id:
            self._violate(f"its generation fell from {generation_id} to {self.generation_id}")
        self.check()

    def _violate(self, rule: str) -> NoReturn:
        raise InvariantViolation(f"group {self.group_id}", rule, self.history)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Removes a member, or an id that was given to a client that has not joined with it."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, old_member_id: str, member: ClassicMember) -> None:
        """Gives a static member a new member id. It stays the leader if it was."""
        del self.members[old_member_id]
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id == old_member_id:
            self.leader_id = member.member_id
        if old_member_id in self.pending_syncs:
            del self.pending_syncs[old_member_id]
            self.pending_syncs[member.member_id] = None

    def elect_joined_leader(self) -> bool:
        """Makes a member that has joined the leader; returns False if none has."""
        leader = None if self.leader_id is None else self.members[self.leader_id]
        if leader is not None and leader.awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def begin_generation(self, why: str, timestamp_ms: int) -> None:
        self.generation_id += 1
        self.pending_syncs.clear()
        self.initial_delay = None
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        state = State.COMPLETING_REBALANCE if self.members else State.EMPTY
        self.move_to(state, why, timestamp_ms)

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        return subscribed_topics(self.members.values(), self.protocol_name)

    # The record in the log

    def record(self, *, must_rebalance: bool = False) -> LogRecord:
        """Returns the record that stores the group.

        A group that was made by a downgrade must rebalance, because its members have only the
        parts that they had in the consumer group. It is stored without a leader, so that a
        coordinator that loads it before the rebalance is finished begins it again. Otherwise the
        members would keep these parts, and nobody would read the other partitions. Apache Kafka
        makes the first member the leader when it loads such a record.
        """
        return group_record(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=None if must_rebalance else self.leader_id,
                current_state_timestamp=self.state_timestamp_ms,
                members=[
                    MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol_name),
                        assignment=member.assignment,
                    )
                    for member in self.members.values()
                ],
            ),
        )

    @classmethod
    def from_value(cls, group_id: str, value: GroupMetadataValue) -> Self:
        group = cls(group_id, value.current_state_timestamp)
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for read in value.members:
            offered = Protocol(value.protocol or "", read.subscription)
            member = ClassicMember(
                read.member_id,
                read.group_instance_id,
                read.client_id,
                read.client_host,
                read.session_timeout,
                read.session_timeout if read.rebalance_timeout < 0 else read.rebalance_timeout,
                (offered,),
                read.assignment,
            )
            group.add(member, value.protocol_type)
        if value.leader in group.members:
            group.leader_id = value.leader
        if group.members:
            is_settled = value.leader is not None
            group.state = State.STABLE if is_settled else State.COMPLETING_REBALANCE
        group.subscribed_topics = group._read_subscriptions()
        return group
