"""The commands of the group coordinator's machine, and their replies.

`GroupMachine.decide` raises `ApiError` to refuse a command as a whole. A reply carries an error
code where something happened all the same (a member id was handed out, a rebalance took another
turn), or where each part of the command has a result of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.statemachine.machine import Command, ProducerIdentity, command_class


class Protocol(NamedTuple):
    """A client-side assignor that a member supports, with the member's metadata for it."""

    name: str
    metadata: bytes


# Membership of classic groups


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    # Only the leader is told of the members.
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


@command_class
class JoinGroup(Command[JoinReply]):
    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    # From version 4 a new member is first given its id (KIP-394).
    requires_member_id: bool = True
    # From version 9 a static leader that rejoined is told to skip the assignment (KIP-814).
    can_skip_assignment: bool = True
    reason: str | None = None


class SyncReply(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@command_class
class SyncGroup(Command[SyncReply]):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    # By member id; only the leader sends assignments.
    assignments: dict[str, bytes]
    # How large the group's record may be; None means no limit.
    max_record_bytes: int | None = None


@command_class
class Heartbeat(Command[ErrorCode]):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@command_class
class LeaveGroup(Command[list[ErrorCode]]):
    """The reply has an error code for each member, in the order of the command."""

    group_id: str
    members: tuple[LeavingMember, ...]


ClassicCommand = JoinGroup | SyncGroup | Heartbeat | LeaveGroup
"""The commands of members that use the classic protocol. Such a member may also be in a consumer
group, while the group migrates."""


# Offsets


class OffsetToCommit(NamedTuple):
    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: TopicId = NO_TOPIC_ID


@command_class
class CommitOffsets(Command[list[ErrorCode]]):
    """The reply has an error code for each offset, in the order of the command."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    # -1 (without a member id) for a consumer that does not use group management. The member epoch
    # for a member of a consumer group.
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1
    # From version 9 a missing group is answered with GROUP_ID_NOT_FOUND, before with
    # ILLEGAL_GENERATION.
    knows_missing_groups: bool = True
    # Set by TxnOffsetCommit: the offsets are part of this producer's transaction.
    producer: ProducerIdentity | None = None


class PartitionToFetch(NamedTuple):
    partition: TopicPartition
    topic_id: TopicId = NO_TOPIC_ID


class FetchedOffset(NamedTuple):
    partition: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE
    # The id of the topic that the offset was committed for, if it is known.
    topic_id: TopicId = NO_TOPIC_ID


@command_class
class FetchOffsets(Command[list[FetchedOffset]]):
    group_id: str
    # None for all partitions that the group has an offset for.
    partitions: tuple[PartitionToFetch, ...] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


@command_class
class DeleteOffsets(Command[list[ErrorCode]]):
    """The reply has an error code for each partition, in the order of the command."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


@command_class
class ForgetTopics(Command[int]):
    """Topics were deleted: their offsets are deleted from all groups. The reply is how many."""

    topics: frozenset[str]


# Administration


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: Sequence[MemberDescription]


@command_class
class DescribeGroup(Command[GroupDescription]):
    group_id: str


@command_class
class DeleteGroup(Command[None]):
    group_id: str
