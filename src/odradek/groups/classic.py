"""A group of the classic protocol: members that agree, in generations, on who reads what.

Theory. The coordinator does not assign. It gathers the members, counts the generation up,
lets the first of them (the leader) see everybody's wishes, and hands round what the leader
decided. Two barriers make a rebalance: JoinGroup, where everybody waits until all are there,
and SyncGroup, where everybody waits for the leader. Whoever speaks of an older generation, or
under an id that is not a member's, is refused, so that in one generation a partition has one
owner. A member that is silent for its session timeout is out; one that does not come to a
rebalance within the rebalance timeout is out.

    state                  what happens                                    next state
    ---------------------  ----------------------------------------------  -------------------
    Empty                  a member joins (waits the initial delay)        PreparingRebalance
    PreparingRebalance     all members have joined, or the time is up      CompletingRebalance
                           the time is up and nobody is left               Empty
    CompletingRebalance    the leader hands in the assignment              Stable
                           a member joins, changes, leaves or is lost,
                           or does not sync in time                        PreparingRebalance
    Stable                 a member joins, changes, leaves or is lost,
                           the leader joins again, or a member that
                           does not sync in time is removed                PreparingRebalance
    any                    the group is deleted, or becomes of another
                           kind                                            Dead

What does not change the state: heartbeats and commits; a follower that joins again with the
same metadata (it gets the current generation); a static member that comes back under a new
member id to a Stable group, if the protocol stays the same (it gets its old assignment) and
nobody waits for partitions that its old self was to give up and then to join again.

What the log holds of a group is its last Stable or Empty generation. What is in between
(waiting callers, members that have an id and have not joined) lives in memory, and whoever it
concerns asks again at the next coordinator.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, Self

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
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
)
from odradek.statemachine.machine import Caller, LogRecord

CONSUMER_PROTOCOL: Final = "consumer"

_STORY_LENGTH: Final = 20


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


class InvalidTransition(AssertionError):
    """A mistake of ours, told with what the group went through before."""

    def __init__(self, group: "ClassicGroup", state: State, why: str) -> None:
        story = "".join(f"\n  {line}" for line in group.story)
        super().__init__(
            f"group {group.group_id!r} cannot go from {group.state.value} to {state.value}"
            f" ({why}); before that:{story}"
        )


class Member(NamedTuple):
    """`awaiting_join` and `awaiting_sync` are who waits for the answer. A new member is one
    whose first JoinGroup has not been answered: it cannot send heartbeats yet."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    awaiting_join: Caller | None = None
    awaiting_sync: Caller | None = None

    @property
    def is_waiting(self) -> bool:
        """Whoever waits for an answer need not send heartbeats; but a new member whose client
        is gone would wait for ever, so its time runs."""
        waits = self.awaiting_join is not None or self.awaiting_sync is not None
        return waits and not self.is_new

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")


class InitialDelay(NamedTuple):
    """An empty group's first rebalance waits for more members, again after each that came."""

    delay_ms: int
    remaining_ms: int
    member_came: bool = False


class ClassicGroup:
    """Invariants: the leader is a member, or there is none in an empty group; the generation
    never falls; who waits for a join is a member of a group that prepares a rebalance."""

    __slots__ = (
        "generation_id",
        "group_id",
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
        "story",
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
        self.members: dict[str, Member] = {}
        # Member ids by instance id.
        self.static_members: dict[str, str] = {}
        # Ordered sets: members that were given an id and have not joined with it, and members
        # of this generation that have not synchronised.
        self.pending_joins: dict[str, None] = {}
        self.pending_syncs: dict[str, None] = {}
        # None where nobody can tell: another protocol than the consumers'.
        self.subscribed_topics: frozenset[str] | None = None
        self.initial_delay: InitialDelay | None = None
        self.story: tuple[str, ...] = ()

    def copy(self) -> Self:
        """A draft for a decision to work on."""
        made = object.__new__(type(self))
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(made, name, value.copy() if isinstance(value, dict) else value)
        return made

    # What others want to know

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
        """Whether a member with these protocols has one in common with all members."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols()
        return any(common is None or each.name in common for each in protocols)

    def _common_protocols(self) -> set[str] | None:
        """Names that all members have; None in a group that has none to ask."""
        common: set[str] | None = None
        for member in self.members.values():
            names = {each.name for each in member.protocols}
            common = names if common is None else common & names
        return common

    def select_protocol(self) -> str:
        """Every member votes for the first of its protocols that all have in common."""
        common = self._common_protocols() or set()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(each.name for each in member.protocols if each.name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def owes_a_round(self, member: Member) -> bool:
        """Whether a cooperative member joined with partitions that it was not given again.

        It gives them up and joins once more, and others get them in that next generation. If it
        dies before, whoever takes its place knows nothing of them.
        """
        if not self.uses_consumer_protocol or not member.assignment:
            return False
        try:
            joined = decode_versioned(
                ConsumerProtocolSubscription, member.metadata(self.protocol_name)
            )
            given = decode_versioned(ConsumerProtocolAssignment, member.assignment)
        except MalformedMessage:
            return False
        kept = {(one.topic, index) for one in given.assigned_partitions for index in one.partitions}
        return any(
            (one.topic, index) not in kept
            for one in joined.owned_partitions
            for index in one.partitions
        )

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that speaks, or `ApiError` with the reason why it may not."""
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

    def check_commit(self, commit: CommitOffsets) -> None:
        generation_id = commit.generation_id
        in_transaction = commit.producer is not None
        if generation_id < 0 and self.is_empty:
            return
        if generation_id >= 0 or commit.member_id or commit.group_instance_id is not None:
            self.check_member(commit.member_id, commit.group_instance_id)
            if generation_id != self.generation_id:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not in_transaction and not self.is_empty:
            # A consumer on its own, while members are at work. Old transactional producers
            # never say who they are, so they are let through.
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not in_transaction and self.state is State.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anyone may read the offsets of a classic group."""

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
        """Metadata is shown of a Stable group alone, whose protocol is settled."""
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
        """What the leader is told."""
        name = self.protocol_name
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    # How a draft changes

    def move_to(self, state: State, why: str, timestamp_ms: int) -> None:
        if state not in TRANSITIONS[self.state]:
            raise InvalidTransition(self, state, why)
        line = f"{timestamp_ms} {self.state.value} -> {state.value}, generation"
        self.story = (*self.story, f"{line} {self.generation_id}: {why}")[-_STORY_LENGTH:]
        self.state = state
        self.state_timestamp_ms = timestamp_ms

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """A member, or one that was only given an id."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, old_member_id: str, member: Member) -> None:
        """The same instance under a new id: it keeps its place and, if it had it, the lead."""
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
        """Leaves the lead with a member that has joined, if there is one."""
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
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # Every version of a subscription begins with what version 0 holds.
                subscription = ConsumerProtocolSubscription.decode(
                    member.metadata(self.protocol_name), 0, 2, allow_trailing=True
                )
                topics.update(subscription.topics)
        except MalformedMessage:
            return None
        return frozenset(topics)

    # To the log and back

    def record(self) -> LogRecord:
        return group_record(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
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
            member = Member(
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
        group.state = State.STABLE if group.members else State.EMPTY
        group.subscribed_topics = group._read_subscriptions()
        return group
