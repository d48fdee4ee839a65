"""InitProducerId: a producer's id and epoch, for idempotence and transactions.

A null `transactional_id` asks for idempotence alone. From version 3 a producer may name its
old id and epoch to have the epoch raised.
"""

from odradek.protocol.schema import Request, Response, int16, int32, int64, string


class InitProducerIdRequest(Request, key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response, key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
