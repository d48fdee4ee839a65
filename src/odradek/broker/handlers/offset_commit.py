"""OffsetCommit (v2-v10): stores the offsets of a group until they are overwritten or expire.

Partitions that do not exist get an error; the offsets of the others are committed. From version 10
topics are identified by id; the id is stored with the offset in any version. `retention_time_ms`
(up to version 4) is obeyed. If the offsets do not fit into one batch of the internal topic
(`max.message.bytes`), all of them get UNKNOWN_SERVER_ERROR, as in Kafka.

If the offsets are committed as soon as they are written, `handle` returns the response at once, so
that a client that sends commit after commit does not wait for a turn of the event loop each time.
"""

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import CommitOffsets, OffsetToCommit
from odradek.metadata import TopicImage
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    API,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.types import TopicPartition

_FIRST_VERSION_WITH_TOPIC_IDS: Final = OffsetCommitRequestTopic.first_version_with("topic_id")
_FIRST_VERSION_THAT_KNOWS_MISSING_GROUPS: Final = 9


def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not context.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        denial = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetCommitResponse(
            topics=[_denied_result(topic, denial) for topic in request.topics]
        )
    allowed, denied = context.split_authorized(
        Operation.READ,
        ResourceType.TOPIC,
        request.topics,
        lambda topic: context.topic_name(topic.name, topic.topic_id),
    )
    by_id = context.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    topics = []
    offsets: list[OffsetToCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    for topic in allowed:
        partitions = []
        image = _topic(services, topic, by_id=by_id)
        for partition_request in topic.partitions:
            index = partition_request.partition_index
            answer = OffsetCommitResponsePartition(partition_index=index)
            partitions.append(answer)
            if image is None:
                answer.error_code = _unknown(by_id=by_id)
            elif not 0 <= index < len(image.partitions):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answers.append(answer)
                offsets.append(
                    OffsetToCommit(
                        TopicPartition(image.name, index),
                        partition_request.committed_offset,
                        partition_request.committed_leader_epoch,
                        partition_request.committed_metadata,
                        image.topic_id,
                    )
                )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    topics += [_denied_result(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]
    response = OffsetCommitResponse(topics=topics)
    if not offsets:
        return response
    command = CommitOffsets(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        tuple(offsets),
        retention_ms=request.retention_time_ms,
        knows_missing_groups=context.version >= _FIRST_VERSION_THAT_KNOWS_MISSING_GROUPS,
    )
    try:
        errors = services.groups.begin(command.group_id, command)
    except ApiError as error:
        return _answer(response, answers, [error.code] * len(answers))
    if errors.done() and errors.exception() is None:
        return _answer(response, answers, errors.result())
    return _answer_later(response, answers, errors)


def _denied_result(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            )
            for partition in topic.partitions
        ],
    )


def _answer(
    response: OffsetCommitResponse,
    answers: Sequence[OffsetCommitResponsePartition],
    errors: Sequence[ErrorCode],
) -> OffsetCommitResponse:
    for answer, error in zip(answers, errors, strict=True):
        answer.error_code = error
    return response


async def _answer_later(
    response: OffsetCommitResponse,
    answers: Sequence[OffsetCommitResponsePartition],
    commit: "Future[list[ErrorCode]]",
) -> OffsetCommitResponse:
    try:
        errors = await commit
    except ApiError as error:
        errors = [error.code] * len(answers)
    return _answer(response, answers, errors)


async def commit(services: Services, command: CommitOffsets) -> Sequence[ErrorCode]:
    """Asks the coordinator; returns the error code of each offset. If the command as a whole fails,
    all offsets have the same error code."""
    try:
        return await services.groups.ask(command.group_id, command)
    except ApiError as error:
        return [error.code] * len(command.offsets)


def _topic(
    services: Services, topic: OffsetCommitRequestTopic, *, by_id: bool
) -> TopicImage | None:
    image = services.images.image
    return image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)


def _unknown(*, by_id: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("READ on the group and on each topic"),
    # Up to this number the offsets that a group commits together are written in one batch.
    splitting=[PARTITIONS._replace(max_elements=1_000)],
    has_small_responses=True,
)
