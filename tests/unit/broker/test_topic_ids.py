"""Permission is asked for the topic that is answered, however the request names it."""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from odradek.broker.handlers import served_apis
from odradek.protocol.acls import CLUSTER_NAME, Operation, Permission, ResourceType
from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.layout import StructType
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
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
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.schema import Request, Struct
from odradek.protocol.types import TopicId
from tests.unit.broker.harness import Client, batch, on_broker
from tests.unit.broker.test_acls import create, rule
from tests.unit.broker.test_permissions import LENIENT, refusals
from tests.unit.broker.test_produce_and_fetch import produce_request

Connect = Callable[[], Awaitable[Client]]


def requests(topic_id: TopicId) -> dict[int, Request]:
    """Requests that mean one topic by its id, and name another where there is room for a name."""
    name = "public"
    return {
        MetadataRequest.api_key: MetadataRequest(
            topics=[MetadataRequestTopic(name=name, topic_id=topic_id)],
            include_topic_authorized_operations=True,
        ),
        DeleteTopicsRequest.api_key: DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name=None, topic_id=topic_id),
                DeleteTopicState(name=name, topic_id=topic_id),
            ]
        ),
        ProduceRequest.api_key: ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=0, records=batch(b"stolen"))],
                )
            ],
        ),
        FetchRequest.api_key: FetchRequest(
            max_bytes=1_000_000,
            topics=[
                FetchTopic(
                    topic=name,
                    topic_id=topic_id,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1_000_000)],
                )
            ],
        ),
        OffsetCommitRequest.api_key: OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                    ],
                )
            ],
        ),
        OffsetFetchRequest.api_key: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    member_epoch=-1,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=name, topic_id=topic_id, partition_indexes=[0]
                        )
                    ],
                )
            ]
        ),
    }


# What a member says that it owns; nothing about the topic is answered to it.
_ANSWERS_NOTHING = {ConsumerGroupHeartbeatRequest.api_key}


def has_topic_id(layout: StructType, version: int) -> bool:
    return any(
        version in field.versions
        and (
            field.name == "topic_id"
            or (isinstance(field.element, StructType) and has_topic_id(field.element, version))
        )
        for field in layout.fields
    )


def test_every_api_that_takes_topic_ids_is_asked_here() -> None:
    taking = {
        key
        for key, served in served_apis().items()
        if has_topic_id(served.request, served.max_version)
    }
    assert taking == set(requests(TopicId(bytes(16)))) | _ANSWERS_NOTHING


def texts(message: object) -> Iterator[object]:
    """Every text and every sequence of bytes anywhere in a response."""
    if isinstance(message, list):
        for item in message:
            yield from texts(item)
    elif isinstance(message, Struct):
        for field in type(message).fields:
            yield from texts(getattr(message, field.name))
    elif message is not None and not isinstance(message, int):
        yield message


@pytest.mark.parametrize(
    "key", sorted(requests(TopicId(bytes(16)))), ids=lambda key: all_apis()[key].name
)
@on_broker(**LENIENT)
async def test_a_denied_topic_is_refused_by_its_id_whatever_name_stands_beside_it(
    connect: Connect, key: int
) -> None:
    client = await connect()
    await client.create_topic("public")
    secret = TopicId(await client.create_topic("secret"))
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    await client.ask(find, FindCoordinatorResponse)
    records = produce_request(batch(b"hidden"), secret)
    await client.ask(records, ProduceResponse, version=13)
    deny = rule(ResourceType.TOPIC, "secret", Operation.ALL, permission=Permission.DENY)
    # Else whoever may delete anything in the cluster may delete this topic too.
    deletion = rule(
        ResourceType.CLUSTER, CLUSTER_NAME, Operation.DELETE, permission=Permission.DENY
    )
    assert await create(client, deny, deletion) == [0, 0]
    request = requests(secret)[key]
    response = await client.ask(
        request, all_apis()[key].response, version=served_apis()[key].max_version
    )
    codes = refusals(response)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes
    assert codes <= {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST}
    assert "secret" not in list(texts(response))
    assert not any(isinstance(each, bytes) and b"hidden" in each for each in texts(response))
    if key == MetadataRequest.api_key:
        assert isinstance(response, MetadataResponse)
        assert [(topic.name, topic.partitions) for topic in response.topics] == [(None, [])]
    everything = await client.ask(MetadataRequest(topics=None), MetadataResponse)
    assert "public" in [topic.name for topic in everything.topics]


@on_broker()
async def test_where_name_and_id_differ_metadata_answers_the_id(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("one")
    other = TopicId(await client.create_topic("other"))
    asked = MetadataRequestTopic(name="one", topic_id=other)
    response = await client.ask(MetadataRequest(topics=[asked]), MetadataResponse, version=12)
    assert [topic.name for topic in response.topics] == ["other"]


@on_broker(**LENIENT)
async def test_a_member_is_told_nothing_about_topics_that_it_claims_to_own(
    connect: Connect,
) -> None:
    client = await connect()
    secret = TopicId(await client.create_topic("secret"))
    deny = rule(ResourceType.TOPIC, "secret", Operation.ALL, permission=Permission.DENY)
    assert await create(client, deny) == [0]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["secret"],
        topic_partitions=[TopicPartitions(topic_id=secret, partitions=[])],
    )
    response = await client.ask(request, all_apis()[request.api_key].response)
    assert refusals(response) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
