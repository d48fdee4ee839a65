"""ListOffsets (v1-v11): the offset for a timestamp, and the offsets at the ends of the log.

The special timestamps: -1 latest (the last stable offset for read_committed), -2 earliest, -3 the
record with the largest timestamp, -4 earliest local (there are no tiers, so earliest), -5 latest
tiered and -6 earliest pending upload (none: -1). Each is served from the version on that introduced
it; older versions and other negative timestamps get UNSUPPORTED_VERSION, as in Kafka.

A new leader whose high watermark has not reached the offset at which its leadership began may lag
behind the previous leader, which may have answered with a later end. Until then the answer is
OFFSET_NOT_AVAILABLE (KIP-207). Brokers ask for the log end offset, and a debugging replica (-2) is
answered by followers too. A partition that is named twice gets INVALID_REQUEST.
"""

from collections.abc import Hashable
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    API,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from odradek.replication.partition import Partition

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
# The first version that may ask for each special timestamp.
_FIRST_VERSIONS: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_TIERED: Final = (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD)
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING_REPLICA: Final = -2
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    not_available = (
        ErrorCode.OFFSET_NOT_AVAILABLE
        if context.version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
    topics = []
    allowed, denied = _split_authorized(context, request)
    for topic in allowed:
        answers = []
        for partition_request in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=partition_request.partition_index)
            answers.append(answer)
            try:
                if _identity(topic, partition_request) in context.duplicates:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                _check_time(partition_request.timestamp, context.version)
                partition = _partition(services, request.replica_id, topic.name, partition_request)
                partition.check_epoch(partition_request.current_leader_epoch)
                if partition_request.timestamp == _LATEST and _is_broker(
                    partition, request.replica_id
                ):
                    _answer_broker(partition, answer)
                else:
                    _answer(partition, partition_request, answer, committed_only)
                    is_tiered = partition_request.timestamp in _TIERED
                    if (
                        answer.offset < 0
                        and not is_tiered
                        and not partition.has_reached_epoch_start
                    ):
                        raise ApiError(not_available)
            except ApiError as error:
                answer.error_code = error.code
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics + [_denied_result(topic) for topic in denied])


def _split_authorized(
    context: RequestContext, request: ListOffsetsRequest
) -> tuple[list[ListOffsetsTopic], list[ListOffsetsTopic]]:
    is_broker = request.replica_id != _CONSUMER
    if is_broker and context.authorize_cluster_without_logging(Operation.CLUSTER_ACTION):
        return request.topics, []
    return context.split_authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )


def _denied_result(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for partition in topic.partitions
        ],
    )


def _check_time(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < _FIRST_VERSIONS.get(timestamp, version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _partition(
    services: Services, replica_id: int, topic: str, partition_request: ListOffsetsPartition
) -> Partition:
    if replica_id == _DEBUGGING_REPLICA:
        partition = services.replicas.get(topic, partition_request.partition_index)
        if partition is not None and partition.log.is_usable:
            return partition
    return services.replicas.leader(topic, partition_request.partition_index)


def _is_broker(partition: Partition, replica_id: int) -> bool:
    """Returns whether the request comes from a replica of the partition, or from a debugging
    replica. Other brokers are answered like consumers."""
    leadership = partition.leadership
    return replica_id == _DEBUGGING_REPLICA or (
        leadership is not None and replica_id in leadership.followers
    )


def _answer_broker(partition: Partition, answer: ListOffsetsPartitionResponse) -> None:
    """Answers with the log end offset and the leader epoch of the last record."""
    log = partition.log
    answer.offset = log.log_end_offset
    answer.leader_epoch = log.leader_epochs.epoch_for(answer.offset - 1)


def _answer(
    partition: Partition,
    partition_request: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    committed_only: bool,
) -> None:
    log = partition.log
    if partition_request.timestamp == _LATEST:
        if partition.has_reached_epoch_start:
            answer.offset = partition.readable(committed_only).value
            answer.leader_epoch = partition.leader_epoch
    elif partition_request.timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.leader_epochs.epoch_for(answer.offset)
    elif partition_request.timestamp not in _TIERED:
        found = partition.find_time(
            None if partition_request.timestamp == _MAX_TIMESTAMP else partition_request.timestamp,
            committed_only=committed_only,
        )
        if found is not None:
            answer.timestamp, answer.offset = found.timestamp_ms, found.offset
            answer.leader_epoch = found.leader_epoch


def _identity(topic: ListOffsetsTopic, partition_request: ListOffsetsPartition) -> Hashable:
    return topic.name, partition_request.partition_index


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE on each topic, or for brokers CLUSTER_ACTION on the cluster"
    ),
    # The search for a timestamp may read a hundred thousand records.
    splitting=[PARTITIONS._replace(max_elements=20, identity=_identity)],
)
