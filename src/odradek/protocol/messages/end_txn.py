"""EndTxn: commits or aborts a transaction. From version 5 the response has the producer id and
epoch for the next transaction."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


API: Final = Api(26, EndTxnRequest, EndTxnResponse, flexible_from=3)
