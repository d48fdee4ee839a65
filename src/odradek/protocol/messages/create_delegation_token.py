"""CreateDelegationToken: a secret by which a client can log in as its owner for a time."""

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


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request):
    # The owner of the token; null or empty: whoever asks.
    owner_principal_type: str | None = string("3+", nullable="3+", default=None)
    owner_principal_name: str | None = string("3+", nullable="3+", default=None)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    # -1: as long as the broker allows.
    max_lifetime_ms: int = int64(default=-1)


class CreateDelegationTokenResponse(Response):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32()


# Kafka 4 has no version 0 any more.
API: Final = Api(
    38, CreateDelegationTokenRequest, CreateDelegationTokenResponse, flexible_from=2, min_version=1
)
