"""RenewDelegationToken: moves the end of a delegation token to a later time."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Request):
    hmac: bytes = bytes_()
    # From now on; -1: as long as the broker renews by default.
    renew_period_ms: int = int64(default=-1)


class RenewDelegationTokenResponse(Response):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


# Kafka 4 has no version 0 any more. Version 2 is flexible.
API: Final = Api(
    39,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    flexible_from=2,
    min_version=1,
)
