"""DeleteTopics 1-6: removes topics by name, or from version 6 by id."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import (
    API,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.types import NO_TOPIC_ID

_FIRST_VERSION_WITH_IDS: Final = 6


async def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    asked = (
        request.topics
        if context.version >= _FIRST_VERSION_WITH_IDS
        else [DeleteTopicState(name=name) for name in request.topic_names]
    )
    return DeleteTopicsResponse(responses=[await _delete(services, topic) for topic in asked])


async def _delete(services: Services, asked: DeleteTopicState) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    image = services.images.image
    try:
        if (asked.name is None) == (asked.topic_id == NO_TOPIC_ID):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id.")
        if asked.name is None:
            by_id = image.topics_by_id.get(asked.topic_id)
            if by_id is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            result.name = by_id.name
        elif asked.name in image.topics:
            result.topic_id = image.topics[asked.name].topic_id
        topic_id = None if asked.topic_id == NO_TOPIC_ID else asked.topic_id
        await services.topics.delete(str(result.name), topic_id)
    except ApiError as refusal:
        result.error_code, result.error_message = refusal.code, refusal.message
    return result


HANDLER: Final = Handler(
    API, handle, splitting=[Splitting("topics", "responses"), Splitting("topic_names", "responses")]
)
