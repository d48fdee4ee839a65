"""InitProducerId: gives a producer an id and an epoch, for idempotence and transactions.

A null `transactional_id` asks for idempotence alone. From version 3 a producer may send the id and
the epoch that it had, to get the next epoch.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    int16,
    int32,
    producer_epoch_field,
    producer_id_field,
    string,
)
from odradek.protocol.types import ProducerEpoch, ProducerId


class InitProducerIdRequest(Request):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: ProducerId = producer_id_field("3+", default=-1)
    producer_epoch: ProducerEpoch = producer_epoch_field("3+", default=-1)


class InitProducerIdResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: ProducerId = producer_id_field(default=-1)
    producer_epoch: ProducerEpoch = producer_epoch_field()


# Versions 4 and 5 have new errors (PRODUCER_FENCED; TRANSACTION_ABORTABLE, KIP-890).
API: Final = Api(22, InitProducerIdRequest, InitProducerIdResponse, flexible_from=2, max_version=5)
