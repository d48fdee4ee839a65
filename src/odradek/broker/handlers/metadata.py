"""Metadata 0-13: brokers, topics, and who leads what.

A topic that does not exist is created here when both the broker and the client allow it, and
the answer shows it already. Clients get the addresses of the listener they came in by. When
a broker has just gone they are answered after the election (`broker.departed_brokers`). A
broker that lost its lease leaves itself out, as a broker and as a leader
(`broker.client_metadata`). All topics are answered from bytes that clients share
(`broker.all_topics_cache`).
"""

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final

from odradek.broker.all_topics_cache import (
    MetadataHead,
    MetadataTail,
    encode_topics,
    encoded,
    without_tags,
)
from odradek.broker.authorized_operations import CLUSTER_OPERATIONS, NO_OPERATIONS, TOPIC_OPERATIONS
from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import reachable
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import Encoded, RequestContext, Services
from odradek.cluster.internal_topics import INTERNAL_TOPICS
from odradek.cluster.topics import NewTopic, check_name
from odradek.metadata import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    API,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import NO_TOPIC_ID

_FIRST_VERSION_WITH_NULL_FOR_ALL: Final = 1
# Versions 10 and 11 have the field, but nobody was to use it yet.
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 12
_PARTITIONS_A_STEP: Final = 100


async def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Encoded:
    asked = request.topics
    await services.departed_brokers.settled(
        services.images, None if not asked else [topic.name or "" for topic in asked]
    )
    if asked is None or (not asked and context.version < _FIRST_VERSION_WITH_NULL_FOR_ALL):
        return await _answer_all(services, context, request)
    topics = [
        await _answer(services, topic, create=request.allow_auto_topic_creation)
        if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS or _has_only_a_name(topic)
        else MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "")
        for topic in asked
    ]
    image = services.images.image
    if request.include_topic_authorized_operations:
        for answered in topics:
            if answered.error_code == ErrorCode.NONE:
                answered.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=_brokers(services, context, image),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


async def _answer_all(
    services: Services, context: RequestContext, request: MetadataRequest
) -> Encoded:
    """All topics that the client may see. Permission is asked here and not by a guard, because the
    answer is encoded in steps (`broker.all_topics_cache`)."""
    version, wants_operations = context.version, request.include_topic_authorized_operations
    tail = MetadataTail()
    if services.authorizer is None:
        operations = TOPIC_OPERATIONS if wants_operations else NO_OPERATIONS
        image, topics = await services.all_topics_cache.current(
            services.images,
            version,
            partial(_describe, lambda _: operations),
            with_operations=wants_operations,
        )
        if request.include_cluster_authorized_operations:
            tail.cluster_authorized_operations = CLUSTER_OPERATIONS
    else:
        from odradek.broker.guards.metadata import (  # noqa: PLC0415 - if there are guards
            Visible,
        )

        visible = Visible(services, context)
        image = services.images.image
        describe = partial(
            _describe, visible.operations if wants_operations else lambda _: NO_OPERATIONS
        )
        topics = await encode_topics(image, version, describe, visible.sees)
        if request.include_cluster_authorized_operations:
            tail.cluster_authorized_operations = visible.cluster_operations()
    head = MetadataHead(
        brokers=_brokers(services, context, image),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
    )
    before = without_tags(encoded(head, version), version)
    return Encoded(head, [before, topics, encoded(tail, version)])


def _describe(
    operations: Callable[[str], int], image: ClusterImage, topic: TopicImage
) -> Iterator[MetadataResponseTopic | None]:
    """The answer about a topic, in steps of a hundred partitions."""
    answer = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations(topic.name),
    )
    partitions = topic.partitions
    for first in range(0, len(partitions), _PARTITIONS_A_STEP):
        answer.partitions += [
            _partition(image, partition)
            for partition in partitions[first : first + _PARTITIONS_A_STEP]
        ]
        yield None
    yield answer


def _brokers(
    services: Services, context: RequestContext, image: ClusterImage
) -> list[MetadataResponseBroker]:
    listener_name = context.connection.listener
    return [
        MetadataResponseBroker(
            node_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack
        )
        for broker, listener in (
            *reachable(image, listener_name),
            *services.departed_brokers.listed(listener_name),
        )
    ]


def _has_only_a_name(asked: MetadataRequestTopic) -> bool:
    return asked.name is not None and asked.topic_id == NO_TOPIC_ID


async def _answer(
    services: Services, asked: MetadataRequestTopic, *, create: bool
) -> MetadataResponseTopic:
    image = services.images.image
    if asked.topic_id != NO_TOPIC_ID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return _topic(image, topic)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(image, topic)
    try:
        check_name(name)
        if not (create and services.settings.broker.auto_create_topics_enable):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await services.topics.create(NewTopic(name))
    except ApiError as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return MetadataResponseTopic(error_code=refusal.code, name=name)
    image = services.images.image
    topic = image.topics.get(name)
    if topic is None:
        # Somebody else has made it, and our image lags; or it is gone already.
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name)
    return _topic(image, topic)


def _topic(image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(image, partition) for partition in topic.partitions],
    )


def _partition(image: ClusterImage, partition: PartitionImage) -> MetadataResponsePartition:
    leader = image.live_leader(partition)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=image.offline_replicas(partition),
    )


def _identity(asked: MetadataRequestTopic) -> Hashable:
    return asked.name, asked.topic_id


HANDLER: Final = Handler(API, handle, splitting=[Splitting("topics", "topics", identity=_identity)])
