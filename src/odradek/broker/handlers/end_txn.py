"""EndTxn (v0-v5): commits or aborts the transaction of a producer.

The response is sent when the PrepareCommit or PrepareAbort record is replicated. The transaction
markers are written afterwards. In version 5 (transactions version 2) the response has the producer
id and the epoch that the producer uses next: the same id with the next epoch, or a new id. In older
versions a request that arrives late could end the producer's next transaction, so it is refused
(`broker.late_requests`).
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import API, EndTxnRequest, EndTxnResponse
from odradek.transactions.commands import EndTransaction, ProducerIdResult
from odradek.transactions.transaction import LAST_EPOCH, NO_PRODUCER, VERSION_2

_FIRST_VERSION_WITH_PRODUCER_FENCED: Final = 2
_FIRST_VERSION_THAT_BUMPS: Final = EndTxnResponse.first_version_with("producer_epoch")


async def handle(
    services: Services, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    if not context.authorize(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    result = await _end(services, context, request)
    error = result.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(
        error_code=error,
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


async def _end(
    services: Services, context: RequestContext, request: EndTxnRequest
) -> ProducerIdResult:
    if not request.transactional_id:
        return ProducerIdResult(ErrorCode.INVALID_REQUEST)
    bumps_epoch = context.version >= _FIRST_VERSION_THAT_BUMPS
    if not bumps_epoch:
        services.late_requests.check(
            context.address,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
        )
    # The markers carry the next epoch. No producer gets the last epoch, so a producer whose next
    # epoch would be the last one needs a new id.
    may_need_id = bumps_epoch and request.producer_epoch >= LAST_EPOCH - 1
    try:
        fresh_producer_id = await services.producer_ids.next() if may_need_id else NO_PRODUCER
        command = EndTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_transaction_version=VERSION_2 if bumps_epoch else 0,
            fresh_producer_id=fresh_producer_id,
            client_address=context.address,
        )
        return await services.transactions.ask(request.transactional_id, command)
    except ApiError as error:
        return ProducerIdResult(error.code)


HANDLER: Final = Handler(API, handle, permission=CheckedByHandler("WRITE on the transactional id"))
