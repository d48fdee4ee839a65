"""OffsetCommit 2-10: a group's positions, kept until they are overwritten or go unused.

Topics and partitions that do not exist are refused one by one, and the rest is committed.
From version 10 topics are named by id; the id is kept with the offset in any version.
`retention_time_ms` (up to 4) is honoured.
"""

from collections.abc import Sequence
from typing import Final, cast

from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import CommitOffsets, OffsetToCommit
from odradek.metadata import TopicImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.refusal import Refused

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
_FIRST_VERSION_THAT_KNOWS_MISSING_GROUPS: Final = 9


async def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    by_id = context.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    topics = []
    offsets: list[OffsetToCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        partitions = []
        image = _topic(services, topic, by_id=by_id)
        for asked in topic.partitions:
            index = asked.partition_index
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
                        asked.committed_offset,
                        asked.committed_leader_epoch,
                        asked.committed_metadata,
                        image.topic_id,
                    )
                )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    if offsets:
        command = CommitOffsets(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            tuple(offsets),
            retention_ms=request.retention_time_ms,
            knows_missing_groups=context.version >= _FIRST_VERSION_THAT_KNOWS_MISSING_GROUPS,
        )
        for answer, error in zip(answers, await commit(services, command), strict=True):
            answer.error_code = error
    return OffsetCommitResponse(topics=topics)


async def commit(services: Services, command: CommitOffsets) -> Sequence[ErrorCode]:
    """An error for each offset: a refusal is the same for all of them."""
    try:
        answer = await services.groups.ask(command.group_id, command)
    except Refused as refusal:
        return [refusal.code] * len(command.offsets)
    return cast(list[ErrorCode], answer)


def _topic(
    services: Services, asked: OffsetCommitRequestTopic, *, by_id: bool
) -> TopicImage | None:
    image = services.images.image
    return image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)


def _unknown(*, by_id: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
