"""SaslAuthenticate: one step of a SASL exchange."""

from odradek.protocol.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+")
