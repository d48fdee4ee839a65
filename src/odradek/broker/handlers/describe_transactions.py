"""DescribeTransactions (v0): the state of transactional ids that this broker coordinates."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import (
    API,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from odradek.transactions.commands import DescribeTransaction


async def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    allowed, denied = context.split_authorized(
        Operation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        request.transactional_ids,
        lambda transactional_id: transactional_id,
    )
    states = [await _describe(services, transactional_id) for transactional_id in allowed]
    for state in states:
        state.topics = [
            topic
            for topic in state.topics
            if context.authorize_without_logging(
                Operation.DESCRIBE, ResourceType.TOPIC, topic.topic
            )
        ]
    states += [
        TransactionState(
            transactional_id=transactional_id,
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
        for transactional_id in denied
    ]
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(services: Services, transactional_id: str) -> TransactionState:
    state = TransactionState(transactional_id=transactional_id)
    if not transactional_id:
        state.error_code = ErrorCode.INVALID_REQUEST
        return state
    try:
        transaction = await services.transactions.ask(
            transactional_id, DescribeTransaction(transactional_id)
        )
    except ApiError as error:
        state.error_code = error.code
        return state
    if transaction is None:
        state.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return state
    state.transaction_state = transaction.status.kafka_name
    state.transaction_timeout_ms = transaction.timeout_ms
    state.transaction_start_time_ms = transaction.started_ms
    state.producer_id, state.producer_epoch = transaction.producer_id, transaction.producer_epoch
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    state.topics = [
        TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()
    ]
    return state


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE on each transactional id; topics without DESCRIBE are left out"
    ),
    splitting=[Splitting("transactional_ids", "transaction_states")],
)
