"""EndTxn: commits or aborts a transaction. From version 5 the response has the producer id and
epoch for the next transaction."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    boolean,
    int16,
    int32,
    producer_epoch_field,
    producer_id_field,
    string,
)
from odradek.protocol.types import ProducerEpoch, ProducerId


class EndTxnRequest(Request):
    transactional_id: str = string()
    producer_id: ProducerId = producer_id_field()
    producer_epoch: ProducerEpoch = producer_epoch_field()
    committed: bool = boolean()


class EndTxnResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: ProducerId = producer_id_field("5+", default=-1)
    producer_epoch: ProducerEpoch = producer_epoch_field("5+", default=-1)


API: Final = Api(26, EndTxnRequest, EndTxnResponse, flexible_from=3)
