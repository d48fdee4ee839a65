"""DeleteRecords (v0-v2): moves the log start offset of partitions up to an offset.

The offset -1 stands for the high watermark. Records below the offset cannot be read any more; the
disk space is freed when whole segments are below it. The response waits until the replicas on live
brokers have moved their start too (its low watermark is the least of their log start offsets), and
until this broker would start there after a crash. Topics whose cleanup.policy has no `delete` are
refused with POLICY_VIOLATION, internal topics with INVALID_TOPIC_EXCEPTION.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    API,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.statemachine.watermark import Waiter

_HIGH_WATERMARK: Final = -1


class _Deletion(NamedTuple):
    """A deletion that the leader has done, and its followers perhaps not yet."""

    answer: DeleteRecordsPartitionResult
    partition: Partition
    upto: int


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
                partition_index=partition_request.partition_index, low_watermark=-1
            )
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.name, partition_request.partition_index)
                upto = (
                    None
                    if partition_request.offset == _HIGH_WATERMARK
                    else Offset(partition_request.offset)
                )
                deletions.append(_Deletion(answer, partition, partition.delete_records(upto)))
            except ApiError as error:
                answer.error_code = error.code
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    response = DeleteRecordsResponse(topics=topics + [_denied_result(topic) for topic in denied])
    if not deletions:
        return response
    return _when_done(services, context.deadline_s(request.timeout_ms), response, deletions)


def _denied_result(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=partition.partition_index,
                low_watermark=-1,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for partition in topic.partitions
        ],
    )


async def _when_done(
    services: Services,
    deadline_s: float,
    response: DeleteRecordsResponse,
    waiting: list[_Deletion],
) -> DeleteRecordsResponse:
    loop = asyncio.get_running_loop()
    await services.logs.checkpoint_log_start_offsets()
    is_late = False
    while True:
        undone = []
        for deletion in waiting:
            try:
                if deletion.partition.log.durable_start_offset < deletion.upto:
                    # The checkpoint could not be written (no file descriptor, no disk space), so
                    # the records would be back after a crash.
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
                if _is_done(services, deletion):
                    continue
                if is_late:
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
                undone.append(deletion)
            except ApiError as error:
                deletion.answer.error_code = error.code
        if not undone:
            return response
        waiting = undone
        waiter = Waiter()
        for deletion in waiting:
            if deletion.partition.leadership is not None:
                waiter.watch(deletion.partition.leadership.log_start_changes)
        is_late = not await waiter.wait(deadline_s - loop.time())


def _is_done(services: Services, deletion: _Deletion) -> bool:
    """Returns whether every live replica has followed. If so, the answer is complete."""
    low_watermark = deletion.partition.low_watermark(services.images.image.brokers)
    if low_watermark < deletion.upto:
        return False
    deletion.answer.low_watermark = low_watermark
    return True


HANDLER: Final = Handler(
    API, handle, permission=CheckedByHandler("DELETE on each topic"), splitting=[PARTITIONS]
)
