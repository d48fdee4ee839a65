"""Authorised operations: told to those who ask, and to nobody else."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

NOT_ASKED = -(2**31)


def test_the_bits_are_those_of_the_protocol() -> None:
    assert TOPIC_OPERATIONS == 0b1101_1111_1000
    assert CLUSTER_OPERATIONS == 0b1_1111_1010_0000


@pytest.mark.parametrize("asks", [False, True])
@on_broker()
async def test_who_asks_is_told(connect: Connect, asks: bool) -> None:
    client = await connect()
    await client.create_topic("t")
    metadata = await client.ask(
        MetadataRequest(
            topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="none")],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=asks,
            include_cluster_authorized_operations=asks,
        ),
        MetadataResponse,
        version=10,
    )
    found = {topic.name: topic.topic_authorized_operations for topic in metadata.topics}
    assert found == {"t": TOPIC_OPERATIONS if asks else NOT_ASKED, "none": NOT_ASKED}
    cluster = await client.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=asks),
        DescribeClusterResponse,
    )
    expected = CLUSTER_OPERATIONS if asks else NOT_ASKED
    assert metadata.cluster_authorized_operations == expected
    assert cluster.cluster_authorized_operations == expected


@on_broker()
async def test_descriptions_of_partitions_always_tell(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    answer = await client.ask(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
        DescribeTopicPartitionsResponse,
    )
    assert answer.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
