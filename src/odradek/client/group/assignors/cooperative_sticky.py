"""Cooperative sticky: as sticky, while members go on reading what they keep.

A partition that is to change hands is first assigned to nobody. Whoever has it gives it up and
joins again, and in that second round it goes to its new reader: so no partition has two readers
at any time, and those that stay never stop.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace

from odradek.client.group.assignors import Assigned, Member, Partitions
from odradek.client.group.assignors.sticky import shared
from odradek.protocol.types import TopicPartition

_GENERATION = struct.Struct(">i")


class CooperativeStickyAssignor:
    name = "cooperative-sticky"
    is_cooperative = True

    def __init__(self) -> None:
        self._generation = -1

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        known = [_with_generation(member) for member in members]
        shares = shared(partitions, known)
        holders: dict[TopicPartition, set[str]] = {}
        for member in known:
            for partition in member.owned:
                holders.setdefault(partition, set()).add(member.member_id)
        return {
            member_id: [
                topic_partition
                for topic_partition in mine
                if member_id in holders.get(topic_partition, {member_id})
            ]
            for member_id, mine in shares.items()
        }

    def user_data(self) -> bytes | None:
        return _GENERATION.pack(self._generation)

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._generation = generation


def _with_generation(member: Member) -> Member:
    """Clients that speak an old version of the subscription tell it in their user data."""
    if member.generation >= 0 or not member.user_data:
        return member
    if len(member.user_data) != _GENERATION.size:
        return member
    return replace(member, generation=_GENERATION.unpack(member.user_data)[0])
