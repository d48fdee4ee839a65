"""DescribeTransactions 0: the state of transactional ids that this broker coordinates."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import (
    API,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from odradek.transactions.commands import Examine
from odradek.transactions.transaction import Transaction


async def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            await _describe(services, transactional_id)
            for transactional_id in request.transactional_ids
        ]
    )


async def _describe(services: Services, transactional_id: str) -> TransactionState:
    state = TransactionState(transactional_id=transactional_id)
    if not transactional_id:
        state.error_code = ErrorCode.INVALID_REQUEST
        return state
    try:
        found = await services.transactions.ask(transactional_id, Examine(transactional_id))
    except ApiError as refusal:
        state.error_code = refusal.code
        return state
    if not isinstance(found, Transaction):
        state.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return state
    state.transaction_state = found.status.title
    state.transaction_timeout_ms = found.timeout_ms
    state.transaction_start_time_ms = found.started_ms
    state.producer_id, state.producer_epoch = found.producer_id, found.producer_epoch
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    state.topics = [
        TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()
    ]
    return state


HANDLER: Final = Handler(
    API, handle, splitting=[Splitting("transactional_ids", "transaction_states")]
)
