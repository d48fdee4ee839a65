"""What admin calls about groups take and give."""

from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.cluster import Broker
from odradek.protocol.types import TopicPartition

CLASSIC = "Classic"
CONSUMER = "Consumer"
# What a group of ordinary consumers calls its protocol; one that only commits has none.
CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups tells it. State and type are empty if the broker is too old."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: Broker

    @property
    def is_simple(self) -> bool:
        """Whether nobody ever joined: its offsets were committed from outside."""
        return self.type in ("", CLASSIC) and not self.protocol_type

    @property
    def is_of_consumers(self) -> bool:
        """Whether it is what Kafka's tools call a consumer group, of either protocol."""
        if self.type in ("", CLASSIC):
            return self.protocol_type in ("", CONSUMER_PROTOCOL)
        return self.type == CONSUMER


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. What only the new protocol knows is None for members of classic groups."""

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
    """By its id, or, if it is a static member, by the name of its instance."""

    member_id: str = ""
    group_instance_id: str | None = None
