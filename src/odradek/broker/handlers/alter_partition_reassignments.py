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


async def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
    )
    for topic in request.topics:
        try:
            refusals = await reassign(
                services.images.cache,
                topic.name,
                {partition.partition_index: partition.replicas for partition in topic.partitions},
                may_change_factor=request.allow_replication_factor_change,
            )
        except ApiError as refusal:
            refusals = {partition.partition_index: refusal for partition in topic.partitions}
        response.responses.append(_response(topic, refusals))
    return response


def _response(topic: ReassignableTopic, refusals: dict[int, ApiError]) -> ReassignableTopicResponse:
    answers = []
    for partition in topic.partitions:
        refusal = refusals.get(partition.partition_index)
        answers.append(
            ReassignablePartitionResponse(
                partition_index=partition.partition_index,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
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
