"""DescribeProducers (v0): the active producers of partitions that this broker leads.

`current_txn_start_offset` is the offset at which the open transaction of a producer began, -1 if it
has none. Operators use it to find hanging transactions (KIP-664): they stay open in a partition
although the transaction coordinator does not know them.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_producers import (
    API,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    allowed, denied = context.split_authorized(
        Operation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                _describe(services, topic.name, index) for index in topic.partition_indexes
            ],
        )
        for topic in allowed
    ]
    return DescribeProducersResponse(topics=topics + [_denied_result(topic) for topic in denied])


def _denied_result(topic: TopicRequest) -> TopicResponse:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(partition_index=index, error_code=error, error_message=error.message)
            for index in topic.partition_indexes
        ],
    )


def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        log = services.replicas.leader(topic, index).log
    except ApiError as error:
        response.error_code, response.error_message = error.code, error.message
        return response
    response.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.transaction_first_offset,
        )
        for producer_id, entry in log.producers.entries.items()
    ]
    response.error_code = ErrorCode.NONE
    return response


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("READ on each topic"),
    splitting=[Splitting("topics", "topics", "partition_indexes", "partitions")],
)
