"""What may be asked of a coordinator's machine, and what it answers.

Who asks for the impossible gets `ApiError` raised at once. The answers below carry an error
where something happened all the same: a member was noted, a rebalance went another way.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.statemachine.machine import ProducerIdentity


class Protocol(NamedTuple):
    """One way of assigning that a member offers, with its metadata for it."""

    name: str
    metadata: bytes


# Membership of classic groups


class JoinGroup(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    # From version 4 a new member is first given its id (KIP-394); from version 9 a leader that
    # came back under its old instance id is told to leave the assignment alone (KIP-814).
    requires_member_id: bool = True
    can_skip_assignment: bool = True
    reason: str | None = None


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
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class SyncGroup(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]
    # In bytes, what the group's record may have; None stands for no limit.
    largest_record: int | None = None


class SyncReply(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """Answered with an `ErrorCode`."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    """Answered with an `ErrorCode` for each member, in the order given."""

    group_id: str
    members: tuple[LeavingMember, ...]


# Offsets


class OffsetToCommit(NamedTuple):
    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: TopicId = NO_TOPIC_ID


class CommitOffsets(NamedTuple):
    """Answered with an `ErrorCode` for each offset, in the order given.

    Generation -1 without a member is a consumer on its own. `producer` makes it part of that
    producer's transaction. `knows_missing_groups`: from version 9 a group that does not exist
    is said to be missing; older clients hear that their generation is wrong.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1
    knows_missing_groups: bool = True
    producer: ProducerIdentity | None = None


class PartitionToFetch(NamedTuple):
    partition: TopicPartition
    topic_id: TopicId = NO_TOPIC_ID


class FetchOffsets(NamedTuple):
    """Answered with a `FetchedOffset` for each partition; all of the group if None is given."""

    group_id: str
    partitions: tuple[PartitionToFetch, ...] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class FetchedOffset(NamedTuple):
    partition: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE
    # Of the topic it was committed for, where that is known.
    topic_id: TopicId = NO_TOPIC_ID


class DeleteOffsets(NamedTuple):
    """Answered with an `ErrorCode` for each partition, in the order given."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class ForgetTopics(NamedTuple):
    """Topics were deleted: no group keeps offsets for them. Answered with how many went."""

    topics: frozenset[str]


# Administration


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class DescribeGroup(NamedTuple):
    """Answered with a `GroupDescription`."""

    group_id: str


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


class DeleteGroup(NamedTuple):
    """Answered with `ErrorCode.NONE`."""

    group_id: str


ClassicCommand = JoinGroup | SyncGroup | Heartbeat | LeaveGroup
"""What members of classic groups ask; a group of another kind may have such members too."""

GroupCommand = (
    ClassicCommand
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | ForgetTopics
    | DescribeGroup
    | DeleteGroup
)
