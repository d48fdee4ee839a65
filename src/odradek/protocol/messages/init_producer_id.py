"""InitProducerId: gives a producer an id and an epoch, for idempotence and transactions.

A null `transactional_id` asks for idempotence alone. From version 3 a producer may send the id and
the epoch that it had, to get the next epoch.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, int16, int32, int64, string


class InitProducerIdRequest(Request):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()


# Versions 4 and 5 have new errors (PRODUCER_FENCED; TRANSACTION_ABORTABLE, KIP-890).
API: Final = Api(22, InitProducerIdRequest, InitProducerIdResponse, flexible_from=2, max_version=5)
