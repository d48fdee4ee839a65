"""CreatePartitions (v0-v3): gives topics more partitions. Records are not moved to them.

The response is sent when the partitions are in the metadata store; `timeout_ms` is ignored.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    API,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.protocol.types import BrokerId

# An older client does not know the error THROTTLING_QUOTA_EXCEEDED (KIP-599).
_FIRST_VERSION_WITH_QUOTA_ERROR: Final = 3


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    allowed, denied = context.split_authorized(
        Operation.ALTER, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    results = []
    for topic in allowed:
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        assignment = topic.assignments
        try:
            if topic.name in context.duplicates:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice.")
            await services.topics.add_partitions(
                topic.name,
                topic.count,
                None
                if assignment is None
                else [list(map(BrokerId, partition.broker_ids)) for partition in assignment],
                validate_only=request.validate_only,
                admit=lambda partitions: services.quotas.take_mutations(
                    context, partitions, strict_from=_FIRST_VERSION_WITH_QUOTA_ERROR
                ),
            )
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return CreatePartitionsResponse(results=results + [_denied_result(topic) for topic in denied])


def _denied_result(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=error, error_message=error.message
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("ALTER on each topic"),
    splitting=[Splitting("topics", "results", identity=lambda topic: topic.name)],
)
