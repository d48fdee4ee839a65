"""LookUp (v0-v1): the newest record of a key, from the leader of a partition; from v1 on also the
time of the record at an offset. Odradek's own API.

The answer is the one of a consumer that has read the partition to its end: up to the high
watermark, and for read_committed up to the last stable offset. A tombstone that is still in the log
is returned, without a value. LookUp works for every topic. In a topic that is not compacted it
finds only records that retention has not deleted.

The first look-up in a partition starts to build an index, which is kept current from then on
(`storage/key_index`). Until it is built the log is read backwards until the key is found: the
answer is the same, but takes longer. If the values of many keys would make a response too large,
only the first keys are answered.

The time of an offset is that of the first record from there on. The coordinator of a group asks for
it to tell the group's lag in seconds (`broker/management/lag.py`), so brokers may ask without READ.
It comes from the time index, without a read of old records (`broker/backlogs.py`). Not done:
followers do not serve this API.
"""

from functools import partial
from typing import Final

from odradek.broker.backlogs import backlog_of
from odradek.broker.denied_results import denied_topics
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.look_up import (
    API,
    LookUpHeader,
    LookUpPartition,
    LookUpPartitionResult,
    LookUpRequest,
    LookUpResponse,
    LookUpResult,
    LookUpTime,
    LookUpTopic,
    LookUpTopicResult,
)
from odradek.replication.partition import Partition
from odradek.storage import StorageError
from odradek.storage.key_index.search import BytesRead, FoundRecord
from odradek.world.timeslice import Timeslice

_READ_COMMITTED: Final = 1
# A response with about so many bytes of values is full: the client asks again for the other keys.
_MAX_BYTES: Final = 16 << 20


class _Room:
    """How many bytes of values the response has room for."""

    __slots__ = ("bytes_left",)

    def __init__(self) -> None:
        self.bytes_left = _MAX_BYTES


async def handle(
    services: Services, context: RequestContext, request: LookUpRequest
) -> LookUpResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    topics, room = [], _Room()
    timeslice = Timeslice.of_running_loop()
    allowed: list[LookUpTopic] = request.topics
    denied: list[LookUpTopic] = []
    if not _is_of_coordinator(context, request):
        allowed, denied = context.split_authorized(
            Operation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
        )
    for topic in allowed:
        answers = []
        for partition_request in topic.partitions:
            answer = LookUpPartitionResult(partition_index=partition_request.partition_index)
            try:
                await _look_up(
                    services,
                    topic.name,
                    partition_request,
                    answer,
                    timeslice=timeslice,
                    room=room,
                    committed_only=committed_only,
                )
            except ApiError as error:
                answer.results, answer.times = [], []
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        topics.append(LookUpTopicResult(name=topic.name, partitions=answers))
    denied_partition = partial(
        LookUpPartitionResult, error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.message
    )
    topics += denied_topics(denied, LookUpTopicResult, denied_partition)
    return LookUpResponse(topics=topics)


def _is_of_coordinator(context: RequestContext, request: LookUpRequest) -> bool:
    """Returns whether another broker asks, and for times alone."""
    return not any(
        partition.keys for topic in request.topics for partition in topic.partitions
    ) and context.authorize_cluster_without_logging(Operation.CLUSTER_ACTION)


async def _look_up_times(
    partition: Partition,
    partition_request: LookUpPartition,
    answer: LookUpPartitionResult,
    timeslice: Timeslice,
) -> None:
    answer.high_watermark = partition.high_watermark.value
    for asked in partition_request.offsets:
        if timeslice.is_over():
            await timeslice.next_turn()
        answer.times.append(LookUpTime(timestamp=backlog_of(partition, asked.offset).timestamp_ms))


async def _look_up(
    services: Services,
    topic: str,
    partition_request: LookUpPartition,
    answer: LookUpPartitionResult,
    *,
    timeslice: Timeslice,
    room: _Room,
    committed_only: bool,
) -> None:
    partition = services.replicas.leader(topic, partition_request.partition_index)
    partition.check_epoch(partition_request.current_leader_epoch)
    if not partition.has_reached_epoch_start:
        # The previous leader may have answered with a newer record.
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    epoch = partition.leader_epoch
    read = BytesRead()
    try:
        await _look_up_times(partition, partition_request, answer, timeslice)
        if not partition_request.keys:
            return
        index = services.key_indexes.of(partition.log)
        for asked_key in partition_request.keys:
            if room.bytes_left <= 0:
                break
            if timeslice.is_over():
                await timeslice.next_turn()
            record = await index.look_up(
                bytes(asked_key.key),
                end_offset=partition.readable(committed_only).value,
                committed_only=committed_only,
                read=read,
            )
            answer.results.append(_result(record))
            if record is not None:
                room.bytes_left -= len(record.record.value or b"") + _size_of(record.record.headers)
        answer.unindexed_bytes = services.key_indexes.looked_up(index)
    except StorageError as error:
        raise ApiError(error.code, str(error)) from error
    except OSError as error:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    answer.bytes_read = read.total
    if not partition.is_leader or partition.leader_epoch != epoch:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _size_of(headers: list[tuple[str, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)


def _result(found_record: FoundRecord | None) -> LookUpResult:
    if found_record is None:
        return LookUpResult()
    record = found_record.record
    return LookUpResult(
        offset=record.offset,
        leader_epoch=found_record.leader_epoch,
        timestamp=record.timestamp_ms,
        timestamp_type=int(found_record.is_log_append_time),
        value=record.value,
        headers=[LookUpHeader(name=name, value=value) for name, value in record.headers],
    )


# A large request is not split: the limit on the bytes of values holds for all of its partitions.
HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "READ on each topic; for times alone CLUSTER_ACTION on the cluster is enough"
    ),
)
