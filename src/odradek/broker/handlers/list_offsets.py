"""ListOffsets (v1-v11): the offset for a timestamp, and the offsets at the ends of the log.

The special timestamps: -1 latest (the last stable offset for read_committed), -2 earliest, -3 the
record with the largest timestamp. Odradek has no tiered storage: -4 (earliest local) is the same as
earliest, -5 (latest tiered) and -6 (earliest pending upload) return offset -1. Each special
timestamp is accepted from the request version that introduced it. In older versions, and for other
negative timestamps, the error is UNSUPPORTED_VERSION, as in Kafka. A partition that is named twice
gets INVALID_REQUEST.

The high watermark of a new leader may be lower than the one that the previous leader returned to
clients. Until it reaches the start offset of the leader epoch, the error is OFFSET_NOT_AVAILABLE
(KIP-207). For latest, a follower of the partition gets the log end offset. A request with replica
id -2 (debugging) is also served by followers.
"""

from collections.abc import Hashable
from typing import Final

from odradek.broker.denied_results import denied_topics
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
from odradek.protocol.types import BrokerId, Offset
from odradek.replication.partition import Partition

_LATEST: Final = -1
_EARLIEST: Final = -2
_LARGEST_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
# The first version that may ask for each special timestamp.
_FIRST_VERSIONS: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _LARGEST_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_TIERED: Final = (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD)
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING_REPLICA: Final = BrokerId(-2)
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    allowed, denied = _split_authorized(context, request)
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _answer_partition(services, context, request, topic, partition_request)
                for partition_request in topic.partitions
            ],
        )
        for topic in allowed
    ]
    topics += denied_topics(denied, ListOffsetsTopicResponse, ListOffsetsPartitionResponse)
    return ListOffsetsResponse(topics=topics)


def _answer_partition(
    services: Services,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: ListOffsetsTopic,
    partition_request: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=partition_request.partition_index)
    try:
        if _identity(topic, partition_request) in context.duplicates:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        timestamp = partition_request.timestamp
        _check_timestamp_supported(timestamp, context.version)
        partition = _partition(services, request.replica_id, topic.name, partition_request)
        partition.check_epoch(partition_request.current_leader_epoch)
        if timestamp == _LATEST and _gets_log_end_offset(partition, request.replica_id):
            _answer_log_end_offset(partition, answer)
        else:
            committed_only = request.isolation_level == _READ_COMMITTED
            _answer_timestamp(partition, timestamp, answer, committed_only)
            _check_epoch_start_reached(partition, timestamp, answer, context.version)
    except ApiError as error:
        answer.error_code = error.code
    return answer


def _split_authorized(
    context: RequestContext, request: ListOffsetsRequest
) -> tuple[list[ListOffsetsTopic], list[ListOffsetsTopic]]:
    is_consumer = request.replica_id == _CONSUMER
    if not is_consumer and context.authorize_cluster_without_logging(Operation.CLUSTER_ACTION):
        return request.topics, []
    return context.split_authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )


def _check_timestamp_supported(timestamp: int, version: int) -> None:
    if timestamp >= 0:
        return
    first_version = _FIRST_VERSIONS.get(timestamp)
    if first_version is None or version < first_version:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _check_epoch_start_reached(
    partition: Partition, timestamp: int, answer: ListOffsetsPartitionResponse, version: int
) -> None:
    """Raises `ApiError` if there is no offset because the leader is new (KIP-207): the client must
    not take the answer for the answer of an empty log."""
    has_offset = answer.offset >= 0 or timestamp in _TIERED
    if has_offset or partition.has_reached_epoch_start:
        return
    if version >= _FIRST_VERSION_WITH_NOT_AVAILABLE:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)


def _partition(
    services: Services, replica_id: BrokerId, topic: str, partition_request: ListOffsetsPartition
) -> Partition:
    if replica_id == _DEBUGGING_REPLICA:
        partition = services.replicas.get(topic, partition_request.partition_index)
        if partition is not None and partition.log.is_usable:
            return partition
    return services.replicas.leader(topic, partition_request.partition_index)


def _gets_log_end_offset(partition: Partition, replica_id: BrokerId) -> bool:
    """Returns whether the request comes from a replica of the partition, or from a debugging
    replica. Other brokers are answered like consumers."""
    leadership = partition.leadership
    return replica_id == _DEBUGGING_REPLICA or (
        leadership is not None and replica_id in leadership.followers
    )


def _answer_log_end_offset(partition: Partition, answer: ListOffsetsPartitionResponse) -> None:
    """Answers with the log end offset and the leader epoch of the last record."""
    log = partition.log
    answer.offset = log.log_end_offset
    answer.leader_epoch = log.leader_epochs.epoch_for(Offset(answer.offset - 1))


def _answer_timestamp(
    partition: Partition,
    timestamp: int,
    answer: ListOffsetsPartitionResponse,
    committed_only: bool,
) -> None:
    log = partition.log
    if timestamp == _LATEST:
        if partition.has_reached_epoch_start:
            answer.offset = partition.readable(committed_only).value
            answer.leader_epoch = partition.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.leader_epochs.epoch_for(answer.offset)
    elif timestamp not in _TIERED:
        record = partition.find_time(
            None if timestamp == _LARGEST_TIMESTAMP else timestamp, committed_only=committed_only
        )
        if record is not None:
            answer.timestamp, answer.offset = record.timestamp_ms, record.offset
            answer.leader_epoch = record.leader_epoch


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
