"""ExpireDelegationToken: ends a delegation token, now or at another time than it would end."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(Request):
    hmac: bytes = bytes_()
    # From now on; -1: now.
    expiry_time_period_ms: int = int64(default=-1)


class ExpireDelegationTokenResponse(Response):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


# Kafka 4 has no version 0 any more. Version 2 is flexible.
API: Final = Api(
    40,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    flexible_from=2,
    min_version=1,
)
