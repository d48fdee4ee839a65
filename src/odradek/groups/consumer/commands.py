"""The commands of consumer groups (KIP-848), and their replies."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.groups.consumer.member import ConsumerMember, TopicIdPartition
from odradek.protocol.api_error import ApiError
from odradek.protocol.types import TopicId
from odradek.statemachine.machine import Caller, Command, command_class


class ConsumerHeartbeatReply(NamedTuple):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    # None if the member knows its assignment already.
    assignment: Mapping[TopicId, Sequence[int]] | None = None


@command_class
class ConsumerHeartbeat(Command[ConsumerHeartbeatReply]):
    """A field that is None (or a timeout of -1) has not changed since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    # From version 1 a client chooses its member id itself.
    makes_own_id: bool = True
    # Returns whether the member may describe a topic; None if the broker has no authorizer.
    may_describe: Callable[[str], bool] | None = None


JoinResult = ConsumerHeartbeatReply | ApiError
"""The reply to a member's first heartbeat, or the error that it would be refused with alone."""


@command_class
class JoinTogether(Command[None]):
    """Several members join a group at once, each with its first heartbeat. Each has a caller of
    its own and is answered. The target assignment is computed once for all of them."""

    group_id: str
    joins: Sequence[tuple[ConsumerHeartbeat, Caller[JoinResult]]]


class ConsumerMemberDescription(NamedTuple):
    member: ConsumerMember
    target: frozenset[TopicIdPartition]


class ConsumerGroupDescription(NamedTuple):
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[ConsumerMemberDescription]


@command_class
class DescribeConsumerGroup(Command[ConsumerGroupDescription]):
    group_id: str


@command_class
class TopicsChanged(Command[int]):
    """Topics were created, deleted, or got partitions. The reply is how many groups changed."""

    names: frozenset[str]
