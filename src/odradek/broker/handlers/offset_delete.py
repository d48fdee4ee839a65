"""OffsetDelete (v0): deletes the committed offsets of a group for some partitions.

Topics to which members are subscribed are refused, because the members would start again from
`auto.offset.reset`.
"""

from typing import Final

from odradek.broker.denied_results import denied_topics
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import DeleteOffsets
from odradek.protocol.acls import Operation, ResourceType
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
    if not context.authorize(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed, denied = context.split_authorized(
        Operation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    denied_results = denied_topics(denied, OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    if denied_results and not allowed:
        return OffsetDeleteResponse(topics=denied_results)
    image = services.images.image
    topics = []
    partitions: list[TopicPartition] = []
    answers: list[OffsetDeleteResponsePartition] = []
    for topic in allowed:
        responses = []
        for partition_request in topic.partitions:
            index = partition_request.partition_index
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
        errors = await services.groups.ask(request.group_id, command)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=denied_results)
    for answer, error_code in zip(answers, errors, strict=True):
        answer.error_code = error_code
    return OffsetDeleteResponse(topics=topics + denied_results)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DELETE on the group, READ on each topic"),
    splitting=[PARTITIONS],
)
