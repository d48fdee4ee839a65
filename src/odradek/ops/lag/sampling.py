"""Takes a sample of a cluster with Kafka's admin requests: what groups have committed, who owns the
partitions, and where the logs end."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.group_types import GroupDescription
from odradek.client.admin.records import RecordCalls
from odradek.client.errors import ClientError
from odradek.client.leader_requests import LATEST
from odradek.ops.lag.history import Position, Sample
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.ops.lag.queries import Queries

_AT_ONCE: Final = 16

_Positions = dict[TopicPartition, Position]


class LagAdmin(GroupOffsetCalls, RecordCalls):
    """The admin calls that lag needs."""


async def take_sample(
    admin: LagAdmin,
    clock: Clock,
    groups: Iterable[str] | None = None,
    queries: "Queries | None" = None,
) -> Sample:
    """Returns where the groups and queries are now: these, or all consumer groups. A group that
    does not exist is left out. Ends are asked after commits, so that no group seems to be ahead of
    its log."""
    if groups is None:
        listings = await admin.list_groups()
        groups = [listing.group_id for listing in listings if listing.is_of_consumers]
    names = sorted(set(groups))
    read_queries, unreadable = queries.positions() if queries is not None else ({}, {})
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
    # A group of that name would be another one, and Kafka's groups are what most people look for.
    read_queries = {
        name: positions
        for name, positions in read_queries.items()
        if positions and name not in names
    }
    partitions = {
        partition
        for positions in (*read_groups.values(), *read_queries.values())
        for partition in positions
    }
    ends = await admin.list_offsets(dict.fromkeys(sorted(partitions), LATEST)) if partitions else {}
    found_ends = {
        partition: int(answer.offset)
        for partition, answer in ends.items()
        if not isinstance(answer, KafkaError)
    }
    for name in list(read_queries):
        missing = sorted({one.topic for one in read_queries[name].keys() - found_ends.keys()})
        if missing:
            unreadable[name] = f"it reads {', '.join(missing)}, which these brokers do not tell"
            del read_queries[name]
    failed = {
        group: answer
        for group, answer in zip(names, answers, strict=True)
        if isinstance(answer, str)
    }
    return Sample(
        clock.now_ms(),
        read_groups | read_queries,
        found_ends,
        failed | unreadable,
        frozenset(read_queries),
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
