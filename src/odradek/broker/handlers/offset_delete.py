"""OffsetDelete 0: a group forgets its positions in some partitions.

Topics that members subscribe to are refused: they would begin anew without knowing why.
"""

from typing import Final, cast

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import DeleteOffsets
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_delete import (
    API,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.types import TopicPartition


async def handle(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    image = services.images.image
    topics = []
    partitions: list[TopicPartition] = []
    answers: list[OffsetDeleteResponsePartition] = []
    for topic in request.topics:
        responses = []
        for asked in topic.partitions:
            index = asked.partition_index
            answer = OffsetDeleteResponsePartition(partition_index=index)
            responses.append(answer)
            if image.partition(topic.name, index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answers.append(answer)
                partitions.append(TopicPartition(topic.name, index))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=responses))
    command = DeleteOffsets(request.group_id, tuple(partitions))
    try:
        errors = cast(list[ErrorCode], await services.groups.ask(request.group_id, command))
    except ApiError as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    for answer, error in zip(answers, errors, strict=True):
        answer.error_code = error
    return OffsetDeleteResponse(topics=topics)


HANDLER: Final = Handler(API, handle, splitting=[PARTITIONS])
