"""The cooperative sticky assignor: as sticky, but members read on during a rebalance.

A partition that is to move is first assigned to no member. Its owner gives it up and joins again,
and in that second rebalance it goes to its new owner. So no partition has two readers at any time,
and partitions that do not move are read without a pause.
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
        members_with_generation = [_with_generation(member) for member in members]
        shares = shared(partitions, members_with_generation)
        holders: dict[TopicPartition, set[str]] = {}
        for member in members_with_generation:
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
    """Takes the generation from the user data, where old versions of the subscription have it."""
    if member.generation >= 0 or not member.user_data:
        return member
    if len(member.user_data) != _GENERATION.size:
        return member
    return replace(member, generation=_GENERATION.unpack(member.user_data)[0])
