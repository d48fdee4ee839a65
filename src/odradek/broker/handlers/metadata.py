"""Metadata 0-13: brokers, topics, and who leads what.

A topic that does not exist is created here when both the broker and the client allow it, and
the answer shows it already. Clients get the addresses of the listener they came in by. When
a broker has just gone they are answered after the election (`broker.absences`). A broker that lost
its lease leaves itself out, as a broker and as a leader (`broker.client_images`).
"""

from typing import Final

from odradek.broker.endpoints import reachable
from odradek.broker.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import INTERNAL_TOPICS
from odradek.cluster.topics import NewTopic, check_name
from odradek.metadata import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.layout import NO_LEADER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import NO_TOPIC_ID
from odradek.replication.refusal import Refused

_FIRST_VERSION_WITH_NULL_FOR_ALL: Final = 1
# Versions 10 and 11 have the field, but nobody was to use it yet.
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 12


async def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    asked = request.topics
    await services.absences.settled(
        services.images, None if not asked else [topic.name or "" for topic in asked]
    )
    if asked is None or (not asked and context.version < _FIRST_VERSION_WITH_NULL_FOR_ALL):
        image = services.images.image
        topics = [_topic(image, image.topics[name]) for name in sorted(image.topics)]
    else:
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
        brokers=[
            MetadataResponseBroker(
                node_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack
            )
            for broker, listener in (
                *reachable(image, context.connection.listener),
                *services.absences.listed(context.connection.listener),
            )
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


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
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await services.topics.create(NewTopic(name))
    except Refused as refusal:
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
