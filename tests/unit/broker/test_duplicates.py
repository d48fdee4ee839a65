"""Elements that a request names twice, in small requests and in those that are served in pieces."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import TopicId
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

TOPIC_TYPE = 2
# How many others are named in between: a request with many is served in pieces.
both_sizes = pytest.mark.parametrize("others", [0, 100])


def _names(others: int) -> list[str]:
    """Returns the name "t" twice, at both ends of a list."""
    return ["t", *(f"none-{number}" for number in range(others)), "t"]


async def _partitions(client: Client) -> list[int]:
    topics = [MetadataRequestTopic(name="t")]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = await client.ask(request, MetadataResponse)
    return [partition.partition_index for partition in response.topics[0].partitions]


@both_sizes
@on_broker()
async def test_partitions_are_not_added_to_a_topic_that_is_named_twice(
    connect: Connect, others: int
) -> None:
    client = await connect()
    await client.create_topic("t")
    topics = [CreatePartitionsTopic(name=name, count=3) for name in _names(others)]
    response = await client.ask(CreatePartitionsRequest(topics=topics), CreatePartitionsResponse)
    errors = [result.error_code for result in response.results if result.name == "t"]
    assert errors == [ErrorCode.INVALID_REQUEST]
    assert len(response.results) == others + 1
    assert await _partitions(client) == [0]


@both_sizes
@on_broker()
async def test_a_topic_that_is_named_twice_is_not_deleted(connect: Connect, others: int) -> None:
    client = await connect()
    topic_id = await client.create_topic("t")
    named = [DeleteTopicState(name=name) for name in _names(others)]
    response = await client.ask(DeleteTopicsRequest(topics=named), DeleteTopicsResponse)
    errors = [result.error_code for result in response.responses if result.name == "t"]
    assert errors == [ErrorCode.INVALID_REQUEST]
    identified = [DeleteTopicState(name=None, topic_id=TopicId(topic_id))] * 2
    response = await client.ask(DeleteTopicsRequest(topics=identified), DeleteTopicsResponse)
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST]
    old = DeleteTopicsRequest(topic_names=_names(others))
    response = await client.ask(old, DeleteTopicsResponse, version=5)
    errors = [result.error_code for result in response.responses if result.name == "t"]
    assert errors == [ErrorCode.INVALID_REQUEST]
    assert await _partitions(client) == [0]


@both_sizes
@on_broker()
async def test_settings_of_a_resource_that_is_named_twice_stay(
    connect: Connect, others: int
) -> None:
    client = await connect()
    await client.create_topic("t")
    settings = [AlterableConfig(name="retention.ms", value="1")]
    resources = [
        AlterConfigsResource(resource_type=TOPIC_TYPE, resource_name=name, configs=settings)
        for name in _names(others)
    ]
    response = await client.ask(AlterConfigsRequest(resources=resources), AlterConfigsResponse)
    answers = [answer for answer in response.responses if answer.resource_name == "t"]
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]

    changes = [IncrementalConfig(name="retention.ms", value="1")]
    incremental = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(resource_type=TOPIC_TYPE, resource_name=name, configs=changes)
            for name in _names(others)
        ]
    )
    changed = await client.ask(incremental, IncrementalAlterConfigsResponse)
    codes = [answer.error_code for answer in changed.responses if answer.resource_name == "t"]
    assert codes == [ErrorCode.INVALID_REQUEST]


@both_sizes
@on_broker()
async def test_a_user_that_is_named_twice_is_refused_once(connect: Connect, others: int) -> None:
    client = await connect()
    users = [UserName(name=name) for name in _names(others)]
    response = await client.ask(
        DescribeUserScramCredentialsRequest(users=users), DescribeUserScramCredentialsResponse
    )
    errors = {result.user: result.error_code for result in response.results}
    assert len(response.results) == len(errors) == others + 1
    assert errors.pop("t") == ErrorCode.DUPLICATE_RESOURCE
    assert set(errors.values()) <= {ErrorCode.RESOURCE_NOT_FOUND}


@both_sizes
@on_broker()
async def test_a_group_that_is_named_twice_is_answered_once(connect: Connect, others: int) -> None:
    client = await connect()
    response = await client.ask(
        DeleteGroupsRequest(groups_names=_names(others)), DeleteGroupsResponse
    )
    assert len(response.results) == others + 1


@both_sizes
@on_broker()
async def test_offsets_of_a_partition_that_is_named_twice_are_not_listed(
    connect: Connect, others: int
) -> None:
    client = await connect()
    await client.create_topic("t", partitions=2)
    indexes = [0, 1, *range(2, others), 0]
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)]
    response = await client.ask(ListOffsetsRequest(topics=topics), ListOffsetsResponse)
    (topic,) = response.topics
    errors = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert errors[0] == errors[-1] == (0, ErrorCode.INVALID_REQUEST)
    assert errors[1] == (1, ErrorCode.NONE)
    # Another topic has partitions of the same numbers.
    await client.create_topic("u")
    topics = [ListOffsetsTopic(name=name, partitions=partitions[:1]) for name in ("t", "u")]
    response = await client.ask(ListOffsetsRequest(topics=topics), ListOffsetsResponse)
    assert [each.partitions[0].error_code for each in response.topics] == [0, 0]
