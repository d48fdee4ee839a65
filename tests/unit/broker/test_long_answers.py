"""Answers about thousands of partitions are made in steps, and are the same as if made at once."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from types import SimpleNamespace
from typing import cast

import pytest

from odradek.broker.handlers import describe_log_dirs, offset_fetch
from odradek.broker.network.connection import Connection
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import FetchedOffset, FetchOffsets
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    API,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from odradek.protocol.types import TopicPartition
from odradek.world.timeslice import measured_by
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

MANY = 2500


async def turns_until(done: "asyncio.Future[object]") -> int:
    turns = 0
    while not done.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_thousands_of_partitions_of_a_log_directory_are_described_in_steps() -> None:
    directory = SimpleNamespace(is_online=True, path="/one")
    partitions = [
        SimpleNamespace(
            log=SimpleNamespace(
                topic_partition=TopicPartition("t", number),
                directory=directory,
                size_bytes=number,
                log_end_offset=number + 5,
            ),
            high_watermark=SimpleNamespace(value=number),
        )
        for number in range(MANY)
    ]
    services = SimpleNamespace(
        logs=SimpleNamespace(directories=[directory]),
        replicas=SimpleNamespace(partitions=lambda: iter(partitions)),
        world=SimpleNamespace(
            disk=SimpleNamespace(total_bytes=lambda _: 2, free_bytes=lambda _: 1)
        ),
    )
    ticks = count()
    with measured_by(lambda: next(ticks) / 1000):
        done = asyncio.ensure_future(
            describe_log_dirs.handle(
                cast(Services, services),
                cast(RequestContext, None),
                DescribeLogDirsRequest(topics=None),
            )
        )
        turns = await turns_until(cast("asyncio.Future[object]", done))
    assert turns > MANY / 10  # A look at the stopwatch takes a millisecond, and a turn has five.
    (topic,) = (await done).results[0].topics
    assert [each.partition_size for each in topic.partitions] == list(range(MANY))


class CountedGroups:
    """Says of each partition its number, and remembers how many it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.refuses_after = 100

    async def ask(self, group_id: str, query: FetchOffsets) -> list[FetchedOffset]:
        assert query.partitions is not None
        self.asked.append(len(query.partitions))
        if len(self.asked) > self.refuses_after:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return [
            FetchedOffset(each.partition, each.partition.partition) for each in query.partitions
        ]


async def fetch(groups: CountedGroups, sizes: dict[str, int]) -> OffsetFetchResponse:
    image = SimpleNamespace(topics={}, topics_by_id={})
    services = cast(
        Services,
        SimpleNamespace(groups=groups, images=SimpleNamespace(image=image), authorizer=None),
    )
    connection = cast(Connection, None)
    topics = [
        OffsetFetchRequestTopics(name=name, partition_indexes=list(range(size)))
        for name, size in sizes.items()
    ]
    return await offset_fetch.handle(
        services,
        RequestContext(services, API, connection, version=9, client_id=None),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]),
    )


async def test_thousands_of_offsets_of_a_group_are_fetched_in_steps() -> None:
    groups = CountedGroups()
    sizes = {"a": 400, "b": MANY, "c": 700, "d": 1}
    response = await fetch(groups, sizes)
    assert groups.asked == [1000, 1000, 1000, 601]
    assert {topic.name: len(topic.partitions) for topic in response.groups[0].topics} == sizes
    for topic in response.groups[0].topics:
        offsets = [each.committed_offset for each in topic.partitions]
        assert offsets == list(range(sizes[topic.name]))


async def test_a_few_offsets_are_fetched_in_one_step() -> None:
    for sizes in ({}, {"a": 1}, {"a": 500, "b": 500}):
        groups = CountedGroups()
        await fetch(groups, sizes)
        assert len(groups.asked) == 1


async def test_a_refusal_between_the_steps_is_that_of_the_group() -> None:
    groups = CountedGroups()
    groups.refuses_after = 2
    (answer,) = (await fetch(groups, {"a": MANY})).groups
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert answer.topics == []


async def commit(client: Client, partitions: int) -> None:
    each = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=number)
        for number in range(partitions)
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=each)
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    errors = {int(ErrorCode.NOT_COORDINATOR)}
    while errors & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        await client.ask(find, FindCoordinatorResponse)
        await asyncio.sleep(0.1)
        response = await client.ask(request, OffsetCommitResponse, version=9)
        errors = {each.error_code for each in response.topics[0].partitions}
    assert errors == {0}


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
@on_broker(offsets_topic_num_partitions="1")
async def test_a_client_gets_one_answer_with_all_offsets_of_its_group(
    connect: Connect, version: int
) -> None:
    client = await connect()
    await client.create_topic("t", partitions=MANY)
    await commit(client, MANY)
    numbers = list(range(MANY))
    for named in (True, False):
        if not named and version == 1:
            continue  # It cannot ask for all.
        found: list[OffsetFetchResponsePartitions] | list[OffsetFetchResponsePartition]
        if version >= 8:
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=numbers)]
            group = OffsetFetchRequestGroup(group_id="g", topics=topics if named else None)
            request = OffsetFetchRequest(groups=[group])
            response = await client.ask(request, OffsetFetchResponse, version=version)
            (answer,) = response.groups[0].topics
            found = answer.partitions
        else:
            old = [OffsetFetchRequestTopic(name="t", partition_indexes=numbers)]
            request = OffsetFetchRequest(group_id="g", topics=old if named else None)
            response = await client.ask(request, OffsetFetchResponse, version=version)
            (one,) = response.topics
            found = one.partitions
        assert [each.partition_index for each in found] == numbers
        assert [each.committed_offset for each in found] == numbers
