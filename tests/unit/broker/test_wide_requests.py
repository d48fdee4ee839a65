"""Thousands of partitions of one topic, transaction, group or log directory are served in steps."""

import asyncio
from collections.abc import Awaitable
from itertools import count
from types import MappingProxyType, SimpleNamespace
from typing import TypeVar, cast

from odradek.broker.dispatch import _encode_in_steps
from odradek.broker.handlers import (
    add_partitions_to_txn,
    alter_replica_log_dirs,
    metadata,
    offset_fetch,
    produce,
)
from odradek.broker.network.connection import Connection
from odradek.broker.services import RequestContext, Services
from odradek.config import BrokerSettings
from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.image import difference
from odradek.protocol.apis import AnyApi
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
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
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.replication.replicas import Replicas
from odradek.storage import LogManager
from odradek.world import MemoryDisk, World
from odradek.world.timeslice import measured_by
from tests.unit.broker.harness import batch

T = TypeVar("T")

MANY = 20_000
INDEXES = list(range(MANY))
TICKS = count()
TOPIC_ID = TopicId(bytes([1] * 16))


async def in_steps(handling: Awaitable[T], *, min_turns: int = 10) -> T:
    """Returns the response. Each look at the stopwatch takes a millisecond, so that a slice is over
    after five batches."""
    with measured_by(lambda: next(TICKS) / 1000):
        done = asyncio.ensure_future(handling)
        turns = 0
        while not done.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns > min_turns
    return await done


def context(api: AnyApi, version: int, services: Services) -> RequestContext:
    connection = SimpleNamespace(listener="PLAINTEXT", address="client", port=1)
    return RequestContext(services, api, cast(Connection, connection), version, None)


def services(**parts: object) -> Services:
    return cast(Services, SimpleNamespace(**parts, authorizer=None))


def wide_image(partitions: int) -> ClusterImage:
    """Broker 1 leads all partitions of the topic `t`."""
    broker = BrokerId(1)
    states = tuple(
        PartitionImage(
            index, (broker,), broker, LeaderEpoch(0), (broker,), controller_epoch=0, version=0
        )
        for index in range(partitions)
    )
    topic = TopicImage("t", TOPIC_ID, states, overrides={}, version=0)
    return ClusterImage(
        topics=MappingProxyType({"t": topic}), topics_by_id=MappingProxyType({TOPIC_ID: topic})
    )


async def test_partitions_of_a_log_directory() -> None:
    logs = SimpleNamespace(directories=[])
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/none", topics=[AlterReplicaLogDirTopic(name="t", partitions=INDEXES)]
            )
        ]
    )
    broker = services(logs=logs)
    asked = context(alter_replica_log_dirs.HANDLER.api, 2, broker)
    response = await in_steps(alter_replica_log_dirs.handle(broker, asked, request))
    [topic] = response.results
    assert [answer.partition_index for answer in topic.partitions] == INDEXES
    assert {answer.error_code for answer in topic.partitions} == {ErrorCode.LOG_DIR_NOT_FOUND}


async def test_partitions_of_a_transaction() -> None:
    image = ClusterImage()

    async def catch_up(*_: str) -> ClusterImage:
        return image

    images = SimpleNamespace(image=image, catch_up=catch_up)
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="id",
                topics=[AddPartitionsToTxnTopic(name="t", partitions=INDEXES)],
            )
        ]
    )
    broker = services(images=images)
    asked = context(add_partitions_to_txn.HANDLER.api, 5, broker)
    response = await in_steps(add_partitions_to_txn.handle(broker, asked, request))
    [topic] = response.results_by_transaction[0].topic_results
    assert [answer.partition_index for answer in topic.results_by_partition] == INDEXES
    assert {answer.partition_error_code for answer in topic.results_by_partition} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


async def test_partitions_of_a_topic_that_a_group_does_not_know() -> None:
    images = SimpleNamespace(image=ClusterImage())

    async def ask(*_: object) -> list[object]:
        return []

    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=INDEXES)],
            )
        ]
    )
    broker = services(images=images, groups=SimpleNamespace(ask=ask))
    asked = context(offset_fetch.HANDLER.api, 10, broker)
    response = await in_steps(offset_fetch.handle(broker, asked, request), min_turns=3)
    [topic] = response.groups[0].topics
    assert [answer.partition_index for answer in topic.partitions] == INDEXES


async def test_partitions_of_a_topic_in_metadata() -> None:
    images = SimpleNamespace(image=wide_image(MANY))

    async def wait_for_leader_election(*_: object) -> None: ...

    departed_brokers = SimpleNamespace(
        wait_for_leader_election=wait_for_leader_election, listed=lambda _: ()
    )
    broker = services(images=images, departed_brokers=departed_brokers)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    response = await in_steps(
        metadata.handle(broker, context(metadata.HANDLER.api, 12, broker), request)
    )
    assert isinstance(response, MetadataResponse)
    [answer] = response.topics
    assert [partition.partition_index for partition in answer.partitions] == INDEXES


async def test_elements_of_a_large_response_are_freed_in_steps_unless_they_are_shared() -> None:
    topics = [MetadataResponseTopic(name=f"t{number}") for number in range(MANY)]
    response = MetadataResponse(topics=topics)
    await in_steps(_encode_in_steps(response, 12, 1), min_turns=0)
    assert len(topics) == MANY  # This list is still referred to here.
    response = MetadataResponse(topics=list(topics))
    parts = await in_steps(_encode_in_steps(response, 12, 1), min_turns=30)
    assert parts
    assert response.topics == []


async def test_first_records_of_many_partitions() -> None:
    """Each creates a file. Fewer partitions than are appended in pieces, but slow ones."""
    count_of_partitions = 100
    settings = BrokerSettings.from_properties({"node.id": "1", "log.dirs": "/data"})
    logs = LogManager(settings, World(disk=MemoryDisk()), cluster_id="c", node_id=BrokerId(1))
    await logs.load()
    replicas = Replicas(BrokerId(1), logs, LiveSettings(settings))
    replicas.follow(difference(ClusterImage(), wide_image(count_of_partitions)))
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=index, records=batch(b"%d" % index))
                    for index in range(count_of_partitions)
                ],
            )
        ],
    )
    broker = services(replicas=replicas)
    asked = context(produce.HANDLER.api, 9, broker)

    async def handle() -> object:
        reply = produce.handle(broker, asked, request)
        assert isinstance(reply, Awaitable)
        return await reply

    response = await in_steps(handle(), min_turns=count_of_partitions // 10)
    assert isinstance(response, ProduceResponse)
    [topic] = response.responses
    assert [answer.index for answer in topic.partition_responses] == list(
        range(count_of_partitions)
    )
    assert {(one.error_code, one.base_offset) for one in topic.partition_responses} == {(0, 0)}
    assert {log.log_end_offset for log in logs.logs.values()} == {1}
