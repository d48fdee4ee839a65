"""Assignors: they divide the partitions of a group's topics among its members.

The leader of a classic group runs one for all members. An assignor of your own is an object with a
name, a flag and one function (the `Assignor` protocol); every member of the group must offer it
under the same name:

    class ByHash:
        name = "by-hash"
        is_cooperative = False

        def assign(self, partitions, members):
            ...

    Consumer(group_id="g", partition_assignment_strategy=[ByHash()])

or, to use it by name in properties files too, `register("by-hash", ByHash)`.

This module has the protocol, its data and the table of names; each assignor has its own module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, runtime_checkable

from odradek.protocol.types import TopicPartition

Partitions = Mapping[str, Sequence[int]]
"""The partitions of every existing topic to which a member of the group is subscribed."""
Assigned = Mapping[str, Iterable[TopicPartition]]
"""The partitions of each member, by member id."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as it described itself when it joined."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = field(default=())
    generation: int = -1
    user_data: bytes | None = None
    rack: str | None = None


class Assignor(Protocol):
    """Assigns partitions to members."""

    @property
    def name(self) -> str:
        """The name by which the members of a group agree on an assignor."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions during a rebalance.

        Then no partition may go from one member to another in a single rebalance.
        """
        ...

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        """Returns the partitions of each member; a member that is left out gets none."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """An assignor that sends user data to the leader."""

    def user_data(self) -> bytes | None:
        """Returns what is sent when the member joins; the leader gets it in `Member.user_data`."""
        ...

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """Called with the partitions that the member got."""
        ...


_BUILT_IN = {
    "range": ("odradek.client.group.assignors.range", "RangeAssignor"),
    "roundrobin": ("odradek.client.group.assignors.round_robin", "RoundRobinAssignor"),
    "sticky": ("odradek.client.group.assignors.sticky", "StickyAssignor"),
    "cooperative-sticky": (
        "odradek.client.group.assignors.cooperative_sticky",
        "CooperativeStickyAssignor",
    ),
}
_SPELLINGS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "round_robin": "roundrobin",
    "round-robin": "roundrobin",
    "cooperative_sticky": "cooperative-sticky",
}
_registered: dict[str, Callable[[], Assignor]] = {}


def register(name: str, make: Callable[[], Assignor]) -> None:
    """Makes an assignor known by name; each consumer gets one of its own from `make`."""
    _registered[name] = make


def known_names() -> list[str]:
    return [*_BUILT_IN, *_registered]


def assignor_named(name: str) -> Assignor:
    """Returns a new assignor with this name or Kafka's class name; `KeyError` if there is none."""
    name = _SPELLINGS.get(name, name)
    make = _registered.get(name)
    if make is not None:
        return make()
    module, class_name = _BUILT_IN[name]
    assignor: Assignor = getattr(import_module(module), class_name)()
    return assignor


def in_order(members: Iterable[Member]) -> list[Member]:
    """Returns members in the order in which Kafka's clients sort them: static members first."""
    return sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.instance_id if member.instance_id is not None else member.member_id,
        ),
    )


def all_partitions(partitions: Partitions) -> list[TopicPartition]:
    """Returns all partitions, ordered by topic and number."""
    return [
        TopicPartition(topic, index)
        for topic in sorted(partitions)
        for index in sorted(partitions[topic])
    ]


__all__ = [
    "Assigned",
    "Assignor",
    "Member",
    "Partitions",
    "Remembering",
    "all_partitions",
    "assignor_named",
    "in_order",
    "known_names",
    "register",
]
