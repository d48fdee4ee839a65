"""CreatePartitions 0-3: gives a topic more partitions. Records stay where they are."""

from collections import Counter
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    API,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        assignment = topic.assignments
        try:
            if named[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice.")
            await services.topics.grow(
                topic.name,
                topic.count,
                None if assignment is None else [one.broker_ids for one in assignment],
                validate_only=request.validate_only,
            )
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
    return CreatePartitionsResponse(results=results)


HANDLER: Final = Handler(API, handle, splitting=[Splitting("topics", "results")])
