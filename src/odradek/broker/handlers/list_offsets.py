"""ListOffsets 1-11: the offset at a time, and at the ends of the log.

The special times: -1 latest (last stable for read_committed), -2 earliest, -3 the record with
the highest timestamp, -4 earliest local (no tiers here, so earliest), -5 latest tiered (none).
"""

from typing import Final

from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.replication.partition import Partition
from odradek.replication.refusal import Refused

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_READ_COMMITTED: Final = 1


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.name, asked.partition_index)
                partition.check_epoch(asked.current_leader_epoch)
                _answer(partition, asked, answer, committed_only)
            except Refused as refusal:
                answer.error_code = refusal.code
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _answer(
    partition: Partition,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    committed_only: bool,
) -> None:
    log = partition.log
    if asked.timestamp == _LATEST:
        answer.offset = partition.readable(committed_only).value
        answer.leader_epoch = partition.leader_epoch
    elif asked.timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.leader_epochs.epoch_for(answer.offset)
    elif asked.timestamp == _LATEST_TIERED:
        answer.offset = -1
    elif asked.timestamp == _MAX_TIMESTAMP or asked.timestamp >= 0:
        found = partition.find_time(
            None if asked.timestamp == _MAX_TIMESTAMP else asked.timestamp,
            committed_only=committed_only,
        )
        if found is not None:
            answer.timestamp, answer.offset = found.timestamp_ms, found.offset
            answer.leader_epoch = found.leader_epoch
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{asked.timestamp} is not a time.")
