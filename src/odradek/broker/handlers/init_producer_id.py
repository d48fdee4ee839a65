"""InitProducerId 0-5: a fresh identity for an idempotent producer.

Without a transactional id every request gets a new producer id with epoch 0. Transactional
ids need the transaction coordinator, which this broker does not have yet.
"""

from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    return InitProducerIdResponse(producer_id=await services.producer_ids.next(), producer_epoch=0)
