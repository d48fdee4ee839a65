"""Large requests are cut into pieces, and their answers joined: the client notices nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.handlers import find_handler, served_apis
from odradek.broker.network.connection import Connection
from odradek.broker.network.connections import Connections
from odradek.broker.network.request_serving import Pending
from odradek.broker.request_splitting import Splitting, count, join, split
from odradek.client.errors import ConnectionClosed
from odradek.protocol.api_error import ApiError
from odradek.protocol.apis import AnyApi
from odradek.protocol.errors import ErrorCode
from odradek.protocol.layout import StructType
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.types import Buffer
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]


def fields(layout: StructType) -> dict[str, object]:
    return {field.name: field.element for field in layout.fields if field.kind == "array"}


@pytest.mark.parametrize("api", served_apis().values(), ids=lambda api: api.name)
def test_every_splitting_names_arrays_that_are_there(api: AnyApi) -> None:
    handler = find_handler(api.key)
    assert handler is not None
    for splitting in handler.splitting:
        asked = fields(api.request)[splitting.request_field]
        answered = fields(api.response)[splitting.response_field]
        if splitting.request_inner_field is not None:
            assert isinstance(asked, StructType)
            assert isinstance(answered, StructType)
            assert splitting.request_inner_field in fields(asked)
            assert splitting.response_inner_field in fields(answered)


def echo(request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=each.partition_index)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 10))
def test_answers_to_pieces_join_to_the_answer_to_the_whole(sizes: list[int], at_once: int) -> None:
    splitting = Splitting("topics", "topics", "partitions", "partitions", at_once)
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=f"topic-{number}",
                partitions=[ListOffsetsPartition(partition_index=index) for index in range(size)],
            )
            for number, size in enumerate(sizes)
        ]
    )
    pieces = list(split(request, splitting))
    assert all(count(piece.request, splitting) <= at_once for piece in pieces)
    whole, *others = (echo(cast(ListOffsetsRequest, piece.request)) for piece in pieces)
    for piece, answer in zip(pieces[1:], others, strict=True):
        join(whole, answer, splitting, continues=piece.continues)
    assert whole == echo(request)


@on_broker()
async def test_a_client_gets_one_answer_for_thousands_of_partitions(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", partitions=3)
    asked = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(2500)]
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name="t", partitions=asked),
            ListOffsetsTopic(name="none", partitions=asked[:1]),
        ]
    )
    response = await client.ask(request, ListOffsetsResponse)
    assert [topic.name for topic in response.topics] == ["t", "none"]
    answers = response.topics[0].partitions
    assert [answer.partition_index for answer in answers] == list(range(2500))
    errors = [answer.error_code for answer in answers[:4]]
    assert errors == [0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@on_broker()
async def test_others_are_served_between_the_pieces(connect: Connect) -> None:
    patient, quick = await connect(), await connect()
    names = [MetadataRequestTopic(name=f"none-{number}") for number in range(5000)]
    large = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    answer = asyncio.ensure_future(patient.ask(large, MetadataResponse))
    served = 0
    while not answer.done():
        await quick.ask(MetadataRequest(topics=[]), MetadataResponse)
        served += 1
    assert served > 1
    assert len((await answer).topics) == 5000


@on_broker()
async def test_a_topic_that_is_named_a_thousand_times_is_described_once(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    names = [MetadataRequestTopic(name=name) for name in ["t", "none"] * 1000]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    response = await client.ask(request, MetadataResponse)
    assert sorted(topic.name or "" for topic in response.topics) == ["none", "t"]


@on_broker()
async def test_a_resource_that_is_named_a_thousand_times_is_described_once(
    connect: Connect,
) -> None:
    client = await connect()
    await client.create_topic("t")
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=keys)
        for keys in [None, ["retention.ms"], ["retention.ms", "cleanup.policy"]] * 3000
    ]
    request = DescribeConfigsRequest(resources=resources, include_documentation=True)
    response = await client.ask(request, DescribeConfigsResponse)
    assert [len(result.configs) for result in response.results[1:]] == [1, 2]
    few = DescribeConfigsRequest(resources=resources[:1] * 2)
    response = await client.ask(few, DescribeConfigsResponse)
    assert [result.resource_name for result in response.results] == ["t"]


@on_broker()
async def test_an_answer_too_large_to_encode_at_once_leaves_others_their_turn(
    connect: Connect,
) -> None:
    patient, quick = await connect(), await connect()
    await patient.create_topic("t", partitions=1500)
    large = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = asyncio.ensure_future(patient.ask(large, MetadataResponse))
    behind = asyncio.ensure_future(patient.ask(MetadataRequest(topics=[]), MetadataResponse))
    served = 0
    while not answer.done():
        await quick.ask(MetadataRequest(topics=[]), MetadataResponse)
        served += 1
    assert served > 1
    assert len((await answer).topics[0].partitions) == 1500
    assert (await behind).topics == []


@on_broker()
async def test_a_request_too_large_to_decode_at_once_is_answered_in_its_turn(
    connect: Connect,
) -> None:
    client = await connect()
    names = [MetadataRequestTopic(name=f"{number:0>200}") for number in range(2000)]
    large = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    answers = await asyncio.gather(
        client.ask(large, MetadataResponse),
        client.ask(MetadataRequest(topics=[]), MetadataResponse),
    )
    assert [len(answer.topics) for answer in answers] == [2000, 0]


@on_broker()
async def test_a_large_request_that_is_wrong_ends_its_connection(connect: Connect) -> None:
    client = await connect()
    names = [MetadataRequestTopic(name=f"{number:0>20}") for number in range(60_000)]
    with pytest.raises(ConnectionClosed):
        await client.ask(MetadataRequest(topics=names), MetadataResponse)


def test_a_refusal_that_quotes_a_large_request_is_still_an_answer() -> None:
    refusal = ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "x" * 100_000)
    assert len(refusal.message) == len(str(refusal)) == 1000


async def test_an_answer_that_cannot_be_encoded_ends_its_connection() -> None:
    async def answer() -> object:
        return None

    def encode(_: object) -> NoReturn:
        raise ValueError("a string of 183581 bytes is too long")

    def serve(_: Connection, __: Buffer) -> Pending:
        return Pending(answer(), encode, is_pipelined=False)

    loop = asyncio.get_running_loop()
    connections = Connections(max_total=1, max_per_address=1, overrides={}, frame_bytes=100)
    server = await loop.create_server(
        lambda: Connection("PLAINTEXT", connections, serve), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"\0\0\0\4ping")
        assert await reader.read() == b""
        writer.close()


@on_broker(offsets_topic_num_partitions="1")
async def test_a_commit_of_thousands_of_partitions_is_one_commit(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequestTopic(name="t", partitions=[one] * 6000)
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    errors = {int(ErrorCode.NOT_COORDINATOR)}
    while errors & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        await client.ask(find, FindCoordinatorResponse)
        await asyncio.sleep(0.1)
        response = await client.ask(request, OffsetCommitResponse, version=9)
        errors = {each.error_code for each in response.topics[0].partitions}
    assert errors == {0}
    assert len(response.topics[0].partitions) == 6000
