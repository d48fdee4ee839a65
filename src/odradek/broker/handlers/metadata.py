"""Metadata (v0-v13): the brokers, the topics, and the leaders of the partitions.

A topic that does not exist is created if both the broker and the client allow it, and the response
shows it already. Brokers have the addresses of the listener to which the client is connected. When
a broker has just departed, the response waits for the elections (`broker.departed_brokers`). A
broker that lost its lease leaves itself out, as a broker and as a leader
(`broker.client_metadata`). Clients that ask for all topics share one encoded response
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
from odradek.broker.authorized_operations import NO_OPERATIONS, TOPIC_OPERATIONS
from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import brokers_on_listener
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import Encoded, RequestContext, Services
from odradek.cluster.internal_topics import INTERNAL_TOPICS
from odradek.cluster.topic_names import check_topic_name
from odradek.cluster.topics import NewTopic
from odradek.metadata import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.acls import Operation, ResourceType
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
from odradek.world.timeslice import Timeslice

_FIRST_VERSION_WITH_NULL_NAME: Final = MetadataResponseTopic.first_version_with_null("name")
_FIRST_VERSION_WITH_NULL_FOR_ALL: Final = MetadataRequest.first_version_with_null("topics")
# Versions 10 and 11 have the field, but clients must not use it (KAFKA-12701).
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 12
_PARTITIONS_A_STEP: Final = 100


async def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Encoded:
    requested_topics = request.topics
    if requested_topics is None or (
        not requested_topics and context.version < _FIRST_VERSION_WITH_NULL_FOR_ALL
    ):
        await services.departed_brokers.wait_for_leader_election(services.images, None)
        return await _answer_all(services, context, request)
    denied: list[MetadataRequestTopic] = []
    if services.authorizer is not None:
        allowed: list[MetadataRequestTopic] = []
        for topic in requested_topics:
            may_look = _may_look(services, context, request, topic)
            (allowed if may_look else denied).append(topic)
        requested_topics = allowed
    await services.departed_brokers.wait_for_leader_election(
        services.images,
        [topic.name or "" for topic in requested_topics] if requested_topics else None,
    )
    topics = [
        await _answer(services, request, topic)
        if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS or _has_only_a_name(topic)
        else MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "")
        for topic in requested_topics
    ]
    topics = [
        _hide_if_denied(context, topic, answered)
        for topic, answered in zip(requested_topics, topics, strict=True)
    ]
    image = services.images.image
    if request.include_topic_authorized_operations:
        for answered in topics:
            if answered.error_code == ErrorCode.NONE and answered.name is not None:
                answered.topic_authorized_operations = context.authorized_operations(
                    ResourceType.TOPIC, answered.name, TOPIC_OPERATIONS
                )
    topics += [_denied_result(context, topic) for topic in denied]
    response = MetadataResponse(
        brokers=_brokers(services, context, image),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.authorized_cluster_operations()
    return response


def _may_look(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    topic: MetadataRequestTopic,
) -> bool:
    """Returns whether the client may describe the topic, and create it if that would happen."""
    name = context.topic_name(topic.name, topic.topic_id)
    if name is None:
        return True  # The id is unknown; the answer says so.
    if not context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return False
    return (
        name in services.images.image.topics
        or not _is_creation_allowed(services, request)
        or context.authorize_cluster_without_logging(Operation.CREATE)
        or context.authorize(Operation.CREATE, ResourceType.TOPIC, name)
    )


def _is_creation_allowed(services: Services, request: MetadataRequest) -> bool:
    """Returns whether topics that do not exist are created: the client and the broker allow it."""
    return request.allow_auto_topic_creation and services.settings.broker.auto_create_topics_enable


def _denied_result(context: RequestContext, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """A client that asks by id is not told the name of the topic."""
    name = topic.name if topic.topic_id == NO_TOPIC_ID else None
    if name is None and context.version < _FIRST_VERSION_WITH_NULL_NAME:
        name = ""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic.topic_id
    )


def _hide_if_denied(
    context: RequestContext, topic_request: MetadataRequestTopic, answered: MetadataResponseTopic
) -> MetadataResponseTopic:
    """Returns the answer, or a denial if it shows a topic that the client may not describe. The
    handler may have waited, so that an id which was unknown before is the id of a topic now."""
    name = answered.name
    if (
        answered.error_code
        or name is None
        or context.authorize_without_logging(Operation.DESCRIBE, ResourceType.TOPIC, name)
    ):
        return answered
    return _denied_result(context, topic_request)


async def _answer_all(
    services: Services, context: RequestContext, request: MetadataRequest
) -> Encoded:
    """Answers with all topics that the client may describe. Clients that may see everything share
    one encoded answer; a client of a broker with an authorizer gets its own."""
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
    else:

        def authorized_operations(topic: str) -> int:
            if not wants_operations:
                return NO_OPERATIONS
            return context.authorized_operations(ResourceType.TOPIC, topic, TOPIC_OPERATIONS)

        image = services.images.image
        topics = await encode_topics(
            image,
            version,
            partial(_describe, authorized_operations),
            partial(context.authorize_without_logging, Operation.DESCRIBE, ResourceType.TOPIC),
        )
    if request.include_cluster_authorized_operations:
        tail.cluster_authorized_operations = context.authorized_cluster_operations()
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
    """Makes the answer about a topic in steps of a hundred partitions. The last step yields it."""
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
            *brokers_on_listener(image, listener_name),
            *services.departed_brokers.listed(listener_name),
        )
    ]


def _has_only_a_name(topic_request: MetadataRequestTopic) -> bool:
    return topic_request.name is not None and topic_request.topic_id == NO_TOPIC_ID


async def _answer(
    services: Services, request: MetadataRequest, topic_request: MetadataRequestTopic
) -> MetadataResponseTopic:
    image = services.images.image
    if topic_request.topic_id != NO_TOPIC_ID:
        topic = image.topics_by_id.get(topic_request.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_request.topic_id
            )
        return await _topic(image, topic)
    name = topic_request.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return await _topic(image, topic)
    try:
        check_topic_name(name)
        if not _is_creation_allowed(services, request):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await services.topics.create(NewTopic(name))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return MetadataResponseTopic(error_code=error.code, name=name)
    image = services.images.image
    topic = image.topics.get(name)
    if topic is None:
        # Another broker has created it and this broker has not seen it yet, or it is deleted again.
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name)
    return await _topic(image, topic)


async def _topic(image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
    answer = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.name in INTERNAL_TOPICS
    )
    # A topic of 5,000 partitions takes 20 ms.
    timeslice = Timeslice.of_running_loop()
    async for partitions in timeslice.batches(topic.partitions, _PARTITIONS_A_STEP):
        answer.partitions += [_partition(image, partition) for partition in partitions]
    return answer


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


def _identity(topic_request: MetadataRequestTopic) -> Hashable:
    return topic_request.name, topic_request.topic_id


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE on each topic; to create one, CREATE on it or on the cluster"
    ),
    splitting=[Splitting("topics", "topics", identity=_identity)],
)
