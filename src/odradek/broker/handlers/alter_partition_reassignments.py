"""AlterPartitionReassignments (v0-v1): begins to move replicas to other brokers, or cancels moves.

The response says that the move was written to the metadata store. ListPartitionReassignments tells
when it is complete. The partitions of one topic are written together; each of them may be refused.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.cluster.reassignment import reassign
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    API,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from odradek.protocol.types import BrokerId


async def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
    )
    for topic in request.topics:
        try:
            errors = await reassign(
                services.images.cache,
                topic.name,
                {
                    partition.partition_index: None
                    if partition.replicas is None
                    else list(map(BrokerId, partition.replicas))
                    for partition in topic.partitions
                },
                may_change_factor=request.allow_replication_factor_change,
            )
        except ApiError as error:
            errors = {partition.partition_index: error for partition in topic.partitions}
        response.responses.append(_response(topic, errors))
    return response


def _response(topic: ReassignableTopic, errors: dict[int, ApiError]) -> ReassignableTopicResponse:
    answers = []
    for partition in topic.partitions:
        error = errors.get(partition.partition_index)
        answers.append(
            ReassignablePartitionResponse(
                partition_index=partition.partition_index,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return ReassignableTopicResponse(name=topic.name, partitions=answers)


def _error_response(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error,
        error_message=error.message,
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER, _error_response),
    splitting=[Splitting("topics", "responses", "partitions", "partitions")],
)
