"""DeleteTopics (v1-v6): deletes topics by name, or from version 6 by id.

A topic that is named twice is refused. Not done: a topic that is named once by its name and once by
its id is deleted, and the second answer is that it is unknown; Kafka refuses both.
"""

from collections.abc import Hashable
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
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

# An older client does not know the error THROTTLING_QUOTA_EXCEEDED (KIP-599).
_FIRST_VERSION_WITH_QUOTA_ERROR: Final = 5
_FIRST_VERSION_WITH_IDS: Final = DeleteTopicsRequest.first_version_with("topics")


async def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    topics = (
        request.topics
        if context.version >= _FIRST_VERSION_WITH_IDS
        else [DeleteTopicState(name=name) for name in request.topic_names]
    )
    allowed, denied = topics, list[DeleteTopicState]()
    if not context.authorize_cluster_without_logging(Operation.DELETE):
        allowed, denied = context.split_authorized(
            Operation.DELETE,
            ResourceType.TOPIC,
            topics,
            lambda topic: context.topic_name(topic.name, topic.topic_id),
        )
    results = [await _delete(services, context, topic) for topic in allowed]
    return DeleteTopicsResponse(
        responses=results + [_denied_result(context, topic) for topic in denied]
    )


def _denied_result(context: RequestContext, topic: DeleteTopicState) -> DeletableTopicResult:
    """A client that may not describe a topic is not told the name that belongs to an id."""
    name = context.topic_name(topic.name, topic.topic_id)
    may_know = topic.topic_id == NO_TOPIC_ID or context.authorize_without_logging(
        Operation.DESCRIBE, ResourceType.TOPIC, name or ""
    )
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeletableTopicResult(
        name=name if may_know else None,
        topic_id=topic.topic_id,
        error_code=error,
        error_message=error.message,
    )


async def _delete(
    services: Services, context: RequestContext, topic: DeleteTopicState
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    image = services.images.image
    try:
        if (topic.name is None) == (topic.topic_id == NO_TOPIC_ID):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id.")
        if _identity(topic) in context.duplicates:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is named more than once.")
        if topic.name is None:
            by_id = image.topics_by_id.get(topic.topic_id)
            if by_id is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            result.name = by_id.name
        elif topic.name in image.topics:
            result.topic_id = image.topics[topic.name].topic_id
        topic_id = None if topic.topic_id == NO_TOPIC_ID else topic.topic_id
        known = image.topics.get(str(result.name))
        if known is not None:
            services.quotas.take_mutations(
                context, len(known.partitions), strict_from=_FIRST_VERSION_WITH_QUOTA_ERROR
            )
        await services.topics.delete(str(result.name), topic_id)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _identity(topic: DeleteTopicState) -> Hashable:
    return topic.name, topic.topic_id


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DELETE on the cluster or on each topic"),
    splitting=[
        Splitting("topics", "responses", identity=_identity),
        Splitting("topic_names", "responses", identity=lambda name: (name, NO_TOPIC_ID)),
    ],
)
