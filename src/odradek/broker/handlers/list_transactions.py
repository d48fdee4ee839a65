"""ListTransactions (v0-v2): the transactional ids that this broker coordinates.

They are filtered by state, by producer, by how long a transaction has been open (version 1), and by
a regular expression that the whole id must match (version 2).

Not done: an expression matches ids of letters, digits, dots, underscores and hyphens alone, as in
topic names, because the same linear-time matcher serves both.
"""

from collections.abc import Iterable
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_transactions import (
    API,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.transactions.transaction import PREPARED, Status, Transaction

_STATES: Final = frozenset(status.kafka_name for status in Status)
_OPEN: Final = PREPARED | {Status.ONGOING}


def handle(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    if services.transactions.is_loading():
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = services.world.clock.now_ms()
    try:
        transactions = [
            transaction for transaction in _all(services) if _matches(transaction, request, now_ms)
        ]
    except ApiError as error:
        return ListTransactionsResponse(error_code=error.code)
    if request.transactional_id_pattern:
        try:
            pattern = compile_pattern(request.transactional_id_pattern)
            matching = pattern.matching(
                transaction.transactional_id for transaction in transactions
            )
        except InvalidPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        transactions = [
            transaction for transaction in transactions if transaction.transactional_id in matching
        ]
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _STATES],
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.status.kafka_name,
            )
            for transaction in transactions
            if context.authorize_without_logging(
                Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
            )
        ],
    )


def _all(services: Services) -> Iterable[Transaction]:
    for machine in services.transactions.machines():
        yield from machine.transactions.values()


def _matches(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and transaction.status.kafka_name not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return transaction.status in _OPEN and now_ms - transaction.started_ms > request.duration_filter


HANDLER: Final = Handler(
    API, handle, permission=CheckedByHandler("DESCRIBE on a transactional id to see it")
)
