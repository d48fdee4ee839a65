"""InitProducerId (v0-v5): gives an idempotent or a transactional producer its id and epoch.

Without a transactional id every request gets a new producer id with epoch 0. With one, the producer
gets the next epoch of the producer id of this transactional id: a producer with an older epoch is
fenced, and its open transaction is aborted first. The request waits for a short time until the
abort is complete; if it takes longer, the client gets CONCURRENT_TRANSACTIONS and retries. From
version 3 a producer may send its current producer id and epoch, to continue after an error
(KIP-360).
"""

import asyncio
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.batch_header import NO_PRODUCER_EPOCH
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import (
    API,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.types import ProducerEpoch
from odradek.transactions.commands import InitProducer, ProducerIdResult

_FIRST_VERSION_WITH_FENCED: Final = 4
_NONE: Final = -1
# The markers of a transaction are usually written within milliseconds.
_PAUSES_S: Final = (0.002, 0.004, 0.008, 0.016, 0.032)


async def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    denial = _authorization_error(context, request.transactional_id)
    if denial is not None:
        return InitProducerIdResponse(error_code=denial, producer_epoch=NO_PRODUCER_EPOCH)
    identity = await _init(services, context, request)
    error = identity.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=error,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )


def _authorization_error(context: RequestContext, transactional_id: str | None) -> ErrorCode | None:
    """Returns why the client may not have a producer id, if so. For idempotence alone WRITE on any
    topic is enough (KIP-679), or IDEMPOTENT_WRITE on the cluster."""
    if transactional_id is not None:
        resource_type = ResourceType.TRANSACTIONAL_ID
        if context.authorize(Operation.WRITE, resource_type, transactional_id):
            return None
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if context.authorize_any(Operation.WRITE, ResourceType.TOPIC):
        return None
    if context.authorize_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _init(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> ProducerIdResult:
    transactional_id = request.transactional_id
    half_known = (request.producer_id == _NONE) != (request.producer_epoch == _NONE)
    if transactional_id == "" or half_known:
        return ProducerIdResult(ErrorCode.INVALID_REQUEST)
    try:
        fresh_producer_id = await services.producer_ids.next()
    except ApiError:
        # The metadata store cannot be reached. This error makes clients try again.
        return ProducerIdResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if transactional_id is None:
        return ProducerIdResult(ErrorCode.NONE, fresh_producer_id, ProducerEpoch(0))
    command = InitProducer(
        transactional_id,
        request.transaction_timeout_ms,
        fresh_producer_id,
        request.producer_id,
        request.producer_epoch,
        client_address=context.address,
    )
    try:
        for pause_s in _PAUSES_S:
            identity = await services.transactions.ask(transactional_id, command)
            if identity.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(pause_s)
    except ApiError as error:
        return ProducerIdResult(error.code)
    return identity


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "WRITE on the transactional id, or on any topic, or IDEMPOTENT_WRITE on the cluster"
    ),
)
