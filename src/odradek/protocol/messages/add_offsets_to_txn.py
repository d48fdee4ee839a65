"""AddOffsetsToTxn: a producer says that its transaction will commit offsets of a group."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()


# Version 4 has a new error (TRANSACTION_ABORTABLE, KIP-890).
API: Final = Api(
    25, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, flexible_from=3, max_version=4
)
