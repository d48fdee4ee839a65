"""ListPartitionReassignments (v0): the current reassignments of all topics, or of some."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.cluster.elections import partitions_of
from odradek.cluster.reassignment import is_moving
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_partition_reassignments import (
    API,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = services.images.image
    requested_partitions = (
        None
        if request.topics is None
        else {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    )
    names = (
        image.topics.keys()
        if requested_partitions is None
        else {name for name, _ in requested_partitions}
    )
    topics: dict[str, OngoingTopicReassignment] = {}
    for topic_partition, partition in partitions_of(image, names):
        if not is_moving(partition) or (
            requested_partitions is not None and topic_partition not in requested_partitions
        ):
            continue
        topic = topics.setdefault(
            topic_partition.topic, OngoingTopicReassignment(name=topic_partition.topic)
        )
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=topic_partition.partition,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _error_response(
    request: ListPartitionReassignmentsRequest, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error, error_message=error.message)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response)
)
