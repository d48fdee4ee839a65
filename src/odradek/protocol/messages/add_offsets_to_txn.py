"""AddOffsetsToTxn: a producer says that its transaction will commit offsets of a group."""

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


class AddOffsetsToTxnRequest(Request):
    transactional_id: str = string()
    producer_id: ProducerId = producer_id_field()
    producer_epoch: ProducerEpoch = producer_epoch_field()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()


# Version 4 has a new error (TRANSACTION_ABORTABLE, KIP-890).
API: Final = Api(
    25, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, flexible_from=3, max_version=4
)
