"""What may be asked about consumer groups, and what is answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.groups.consumer.member import ConsumerMember, TopicIdPartition
from odradek.protocol.types import TopicId
from odradek.statemachine.machine import Caller


class ConsumerHeartbeat(NamedTuple):
    """Answered with a `ConsumerHeartbeatReply`. None, or -1 for the timeout, is: as before.

    `makes_own_id`: from version 1 a client chooses its member id itself. `may_describe` says of a
    topic's name whether the member may know of it; None where nobody is asked.
    """

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
    makes_own_id: bool = True
    may_describe: Callable[[str], bool] | None = None


class JoinTogether(NamedTuple):
    """Several members join a group at once, each with its first heartbeat and its caller. Each
    caller is answered with a `ConsumerHeartbeatReply`, or with the `ApiError` that it would get
    alone. The assignment is made once for all of them."""

    group_id: str
    joins: Sequence[tuple[ConsumerHeartbeat, Caller]]


class ConsumerHeartbeatReply(NamedTuple):
    """`assignment` is None where the member knows it already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Mapping[TopicId, Sequence[int]] | None = None


class DescribeConsumerGroup(NamedTuple):
    """Answered with a `ConsumerGroupDescription`."""

    group_id: str


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


class TopicsChanged(NamedTuple):
    """Topics were made, deleted, or got partitions. Answered with how many groups care."""

    names: frozenset[str]
