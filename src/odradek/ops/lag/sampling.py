"""Takes a sample of a cluster with Kafka's admin requests: what groups have committed, who owns the
partitions, and where the logs end."""

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.group_types import GroupDescription
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.errors import ClientError
from odradek.client.leader_requests import LATEST
from odradek.ops.lag.history import Position, Sample
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world.clock import Clock

_AT_ONCE: Final = 16

_Positions = dict[TopicPartition, Position]


class LagAdmin(GroupCalls, GroupOffsetCalls, RecordCalls):
    """The admin calls that lag needs."""


async def take_sample(admin: LagAdmin, clock: Clock, groups: Iterable[str] | None = None) -> Sample:
    """Returns where the groups are now: these, or all consumer groups. A group that does not exist
    is left out. Ends are asked after commits, so that no group seems to be ahead of its log."""
    if groups is None:
        listings = await admin.list_groups()
        groups = [listing.group_id for listing in listings if listing.is_of_consumers]
    names = sorted(set(groups))
    described = await admin.describe_groups(names) if names else {}
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(group: str) -> _Positions | str:
        async with gate:
            return await _positions(admin, group, described.get(group))

    answers = await asyncio.gather(*(read(group) for group in names))
    read_groups = {
        group: answer
        for group, answer in zip(names, answers, strict=True)
        if not isinstance(answer, str) and answer
    }
    partitions = {partition for positions in read_groups.values() for partition in positions}
    ends = await admin.list_offsets(dict.fromkeys(sorted(partitions), LATEST)) if partitions else {}
    return Sample(
        clock.now_ms(),
        read_groups,
        {
            partition: int(answer.offset)
            for partition, answer in ends.items()
            if not isinstance(answer, KafkaError)
        },
        {
            group: answer
            for group, answer in zip(names, answers, strict=True)
            if isinstance(answer, str)
        },
    )


async def _positions(
    admin: LagAdmin, group: str, described: GroupDescription | KafkaError | None
) -> _Positions | str:
    """Returns the positions of a group, or why they cannot be read."""
    try:
        offsets = await admin.list_group_offsets(group)
    except (KafkaError, ClientError) as error:
        return str(error)
    owners = {}
    if isinstance(described, GroupDescription):
        for member in described.members:
            owner = member.host.removeprefix("/") or member.member_id
            owners.update(dict.fromkeys(member.assignment, (owner, member.client_id)))
    return {
        partition: Position(answer.offset, *owners.get(partition, ("", "")))
        for partition, answer in offsets.items()
        if not isinstance(answer, KafkaError) and answer.offset >= 0
    }
