"""SaslAuthenticate: one step of a SASL exchange."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateRequest(Request):
    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Response):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+")


API: Final = Api(36, SaslAuthenticateRequest, SaslAuthenticateResponse, flexible_from=2)
