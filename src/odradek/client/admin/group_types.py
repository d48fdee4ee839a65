"""The parameters and results of admin calls about groups."""

from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.cluster_view import Broker
from odradek.protocol.types import TopicPartition

CLASSIC = "Classic"
CONSUMER = "Consumer"
# The protocol type of consumer groups; a group that only commits offsets has none.
CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group from ListGroups. State and type are empty if the broker is too old."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: Broker

    @property
    def is_of_consumers(self) -> bool:
        """Whether Kafka's tools call it a consumer group, of either protocol."""
        if self.type in ("", CLASSIC):
            return self.protocol_type in ("", CONSUMER_PROTOCOL)
        return self.type == CONSUMER


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. Fields that only the new protocol has are None for members of classic groups."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: Broker
    members: tuple[GroupMember, ...]
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        return self.state not in ("Empty", "Dead")


class GroupOffset(NamedTuple):
    """A group's position in a partition: the next offset that it reads."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class MemberToRemove(NamedTuple):
    """Names a member by its id, or a static member by its `group.instance.id`."""

    member_id: str = ""
    group_instance_id: str | None = None
