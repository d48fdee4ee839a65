"""DeleteRecords (v0-v2): moves the log start offset of partitions up to an offset.

The offset -1 means the high watermark. Records below the offset cannot be read any more; the disk
space is freed when whole segments are below it. The response waits until the replicas on live
brokers, in the ISR and among the eligible leader replicas have moved their log start offset too
(its low watermark is the lowest of these offsets), and until this broker has written its own to the
checkpoint file, so that neither a crash nor the next leader undoes the deletion. Topics whose
cleanup.policy has no `delete` get POLICY_VIOLATION, internal topics get INVALID_TOPIC_EXCEPTION.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.denied_results import denied_topics
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    API,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.statemachine.watermark import Waiter

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


class _Deletion(NamedTuple):
    """A deletion that this leader has applied. Its followers may not have applied it yet."""

    answer: DeleteRecordsPartitionResult
    partition: Partition
    new_start_offset: int


def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    topics = []
    deletions: list[_Deletion] = []
    allowed, denied = context.split_authorized(
        Operation.DELETE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    for topic in allowed:
        answers = []
        for partition_request in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=partition_request.partition_index,
                low_watermark=_NO_LOW_WATERMARK,
            )
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.name, partition_request.partition_index)
                new_start_offset = partition.delete_records(_requested_offset(partition_request))
                deletions.append(_Deletion(answer, partition, new_start_offset))
            except ApiError as error:
                answer.error_code = error.code
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    topics += denied_topics(
        denied,
        DeleteRecordsTopicResult,
        partial(DeleteRecordsPartitionResult, low_watermark=_NO_LOW_WATERMARK),
    )
    response = DeleteRecordsResponse(topics=topics)
    if not deletions:
        return response
    return _wait_for_followers(
        services, context.deadline_s(request.timeout_ms), response, deletions
    )


def _requested_offset(partition_request: DeleteRecordsPartition) -> Offset | None:
    """Returns the offset up to which records are deleted; None means the high watermark."""
    if partition_request.offset == _HIGH_WATERMARK:
        return None
    return Offset(partition_request.offset)


async def _wait_for_followers(
    services: Services,
    deadline_s: float,
    response: DeleteRecordsResponse,
    pending: list[_Deletion],
) -> DeleteRecordsResponse:
    """Returns the response when the answers of all deletions are complete."""
    loop = asyncio.get_running_loop()
    await services.logs.checkpoint_log_start_offsets()
    timed_out = False
    while True:
        pending = [
            deletion
            for deletion in pending
            if not _complete_answer(services, deletion, timed_out=timed_out)
        ]
        if not pending:
            return response
        waiter = Waiter()
        for deletion in pending:
            if deletion.partition.leadership is not None:
                waiter.watch(deletion.partition.leadership.log_start_changes)
        timed_out = not await waiter.wait(deadline_s - loop.time())


def _complete_answer(services: Services, deletion: _Deletion, *, timed_out: bool) -> bool:
    """Completes the answer if the replicas that count have applied the deletion, if it failed, or
    if it timed out. Returns whether the answer is complete."""
    answer = deletion.answer
    try:
        low_watermark = _low_watermark(services, deletion)
    except ApiError as error:
        answer.error_code = error.code
        return True
    if low_watermark >= deletion.new_start_offset:
        answer.low_watermark = low_watermark
        return True
    if timed_out:
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    return timed_out


def _low_watermark(services: Services, deletion: _Deletion) -> int:
    """Returns the lowest log start offset of the replicas that count. Raises `ApiError` if this
    broker is no longer the leader, or could not write the log start offset to the checkpoint file
    (no file descriptor, no disk space): the deleted records would be back after a crash."""
    if deletion.partition.log.durable_start_offset < deletion.new_start_offset:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    return deletion.partition.low_watermark(services.images.image.brokers)


HANDLER: Final = Handler(
    API, handle, permission=CheckedByHandler("DELETE on each topic"), splitting=[PARTITIONS]
)
