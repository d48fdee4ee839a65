"""Metadata of all topics: the same answer as before, made once for all who ask, and in steps."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import MappingProxyType

import pytest

from odradek.broker.all_topics_cache import (
    AllTopicsCache,
    MetadataHead,
    MetadataTail,
    MetadataTopics,
    encode_topics,
    encoded,
    without_tags,
)
from odradek.broker.authorized_operations import TOPIC_OPERATIONS
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.acls import Operation, Permission, ResourceType
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import TopicId
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.test_acls import create, rule
from tests.unit.broker.test_permissions import LENIENT

Connect = Callable[[], Awaitable[Client]]


@pytest.mark.parametrize("version", range(14))
def test_head_topics_and_tail_make_a_response(version: int) -> None:
    brokers = [MetadataResponseBroker(node_id=1, host="h", port=9, rack="r")]
    partitions = [MetadataResponsePartition(partition_index=0, replica_nodes=[1], isr_nodes=[1])]
    topics = [
        MetadataResponseTopic(name=f"t{number}", partitions=partitions) for number in range(200)
    ]
    whole = MetadataResponse(
        brokers=brokers,
        cluster_id="c",
        controller_id=1,
        topics=topics,
        cluster_authorized_operations=7,
        error_code=0,
    )
    head = MetadataHead(brokers=brokers, cluster_id="c", controller_id=1)
    parts = [
        without_tags(encoded(head, version), version),
        without_tags(encoded(MetadataTopics(topics=topics), version), version),
        encoded(MetadataTail(cluster_authorized_operations=7), version),
    ]
    assert b"".join(parts) == encoded(whole, version)


class Images:
    """An image that changes when it is told to."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image


def topics(count: int) -> MappingProxyType[str, TopicImage]:
    return MappingProxyType(
        {
            f"t{number}": TopicImage(f"t{number}", TopicId(bytes(16)), (), {}, 0)
            for number in range(count)
        }
    )


class Describing:
    def __init__(self) -> None:
        self.described = 0

    def __call__(
        self, image: ClusterImage, topic: TopicImage
    ) -> Iterator[MetadataResponseTopic | None]:
        self.described += 1
        yield None
        yield MetadataResponseTopic(name=topic.name)


async def test_clients_that_ask_together_share_one_encoding() -> None:

    images = Images(ClusterImage(topics=topics(2000)))
    describe, cache = Describing(), AllTopicsCache()

    def ask(version: int) -> Awaitable[tuple[ClusterImage, bytes]]:
        return cache.current(images, version, describe, with_operations=False)  # type: ignore[arg-type]

    answers = await asyncio.gather(*(ask(9) for _ in range(200)))
    assert describe.described == 2000
    assert len({id(data) for _, data in answers}) == 1
    await ask(9)
    assert describe.described == 2000
    # Another version is another encoding, another image too; a mere change of settings is not.
    await ask(12)
    assert describe.described == 4000
    images.image = images.image._replace(number=1)
    await ask(9)
    assert describe.described == 4000
    images.image = images.image._replace(topics=topics(10))
    image, data = await ask(9)
    assert image is images.image
    assert describe.described == 4010
    assert data == await encode_topics(image, 9, describe)


async def test_a_broker_that_goes_changes_the_answer() -> None:
    images = Images(ClusterImage(brokers={1: None, 2: None}))  # type: ignore[dict-item]
    describe, cache = Describing(), AllTopicsCache()
    for brokers in ({1: None, 2: None}, {1: None}, {1: None, 2: None}):
        images.image = images.image._replace(brokers=brokers)  # type: ignore[arg-type]
        image, _ = await cache.current(images, 9, describe, with_operations=False)  # type: ignore[arg-type]
        assert image.brokers == brokers


async def test_few_encodings_are_kept() -> None:
    images = Images(ClusterImage())
    cache = AllTopicsCache()
    for version in range(14):
        await cache.current(images, version, Describing(), with_operations=True)  # type: ignore[arg-type]
    assert len(cache._kept) == 8


@pytest.mark.parametrize("version", [0, 1, 8, 10, 13])
@on_broker()
async def test_all_topics_are_told_with_brokers_and_operations(
    connect: Connect, version: int
) -> None:
    client = await connect()
    await client.create_topic("wide", partitions=250)
    await client.create_topic("narrow")
    request = MetadataRequest(
        topics=[] if version == 0 else None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    for _ in range(2):
        response = await client.ask(request, MetadataResponse, version=version)
        assert [broker.host for broker in response.brokers] == ["broker"]
        assert [topic.name for topic in response.topics] == ["narrow", "wide"]
        indexes = [part.partition_index for part in response.topics[1].partitions]
        assert indexes == list(range(250))
        told = response.topics[0].topic_authorized_operations
        assert told == (TOPIC_OPERATIONS if version >= 8 else -(2**31))
    await client.create_topic("new")
    response = await client.ask(request, MetadataResponse, version=version)
    assert [topic.name for topic in response.topics] == ["narrow", "new", "wide"]


@pytest.mark.parametrize("version", [0, 13])
@on_broker(**LENIENT)
async def test_topics_that_a_client_may_not_see_are_left_out(
    connect: Connect, version: int
) -> None:
    client = await connect()
    await client.create_topic("open")
    await client.create_topic("secret")
    deny = rule(ResourceType.TOPIC, "secret", Operation.ALL, permission=Permission.DENY)
    assert await create(client, deny) == [0]
    request = MetadataRequest(
        topics=[] if version == 0 else None, include_topic_authorized_operations=True
    )
    response = await client.ask(request, MetadataResponse, version=version)
    assert [topic.name for topic in response.topics] == ["open"]
