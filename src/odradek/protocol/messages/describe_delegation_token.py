"""DescribeDelegationToken: the delegation tokens that the client may see, with their secrets."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    bytes_,
    int16,
    int32,
    int64,
    string,
)


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request):
    # Null: tokens of every owner. Empty: none.
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()


# Kafka 4 has no version 0 any more.
API: Final = Api(
    41,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    flexible_from=2,
    min_version=1,
)
