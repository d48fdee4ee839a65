"""DescribeTopicPartitions (v0): the partitions of topics, page by page.

Topics are sorted by name; the cursor names the first partition of the next page.
"""

from typing import Final

from odradek.broker.authorized_operations import TOPIC_OPERATIONS
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import INTERNAL_TOPICS
from odradek.metadata import ClusterImage, PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_topic_partitions import (
    API,
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)


def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = services.images.image
    denied: list[TopicRequest] = []
    if request.topics:
        allowed, denied = context.split_authorized(
            Operation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
        )
        names = {topic.name for topic in allowed}
    else:
        names = {
            name
            for name in image.topics
            if context.authorize_without_logging(Operation.DESCRIBE, ResourceType.TOPIC, name)
        }
    cursor = request.cursor
    limit = services.settings.broker.max_request_partition_size_limit
    left = max(min(request.response_partition_limit, limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name
                )
            )
            continue
        resumes = cursor is not None and name == cursor.topic_name
        first = max(cursor.partition_index, 0) if cursor is not None and resumes else 0
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = topic.partitions[first : first + left]
        left -= len(page)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[_partition(image, partition) for partition in page],
                topic_authorized_operations=context.authorized_operations(
                    ResourceType.TOPIC, name, TOPIC_OPERATIONS
                ),
            )
        )
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    response.topics += [
        DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=topic.name
        )
        for topic in denied
    ]
    return response


def _partition(
    image: ClusterImage, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    leader = image.live_leader(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # The protocol allows null, but the tools of Apache Kafka fail with it.
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=list(partition.last_known),
        offline_replicas=image.offline_replicas(partition),
    )


HANDLER: Final = Handler(API, handle, permission=CheckedByHandler("DESCRIBE on each topic"))
