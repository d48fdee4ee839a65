"""Brokers that ask for a log-in before they answer, and that can be told to cheat."""

import socket
from collections.abc import Callable
from dataclasses import dataclass

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import Request, Response
from tests.unit.client.mini_cluster import Close, Instead, MiniCluster

Answers = Callable[[bytes], SaslAuthenticateResponse]


@dataclass(frozen=True)
class Refused:
    """What the broker says instead of letting a client in."""

    message: str

    def __call__(self, _: bytes) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message=self.message,
            auth_bytes=b"",
        )


@dataclass(frozen=True)
class Says:
    """What the broker says in an exchange that goes well so far."""

    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

    def __call__(self, _: bytes) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=0,
            error_message=None,
            auth_bytes=self.auth_bytes,
            session_lifetime_ms=self.session_lifetime_ms,
        )


class SaslCluster(MiniCluster):
    """Each log-in is answered by the next of `script`; the last one is repeated."""

    def __init__(
        self,
        *script: Answers,
        mechanisms: tuple[str, ...] = ("PLAIN",),
        breaks_off: bool = False,
    ) -> None:
        super().__init__()
        self.served[SaslHandshakeRequest.api_key] = (0, 1)
        self.served[SaslAuthenticateRequest.api_key] = (0, 2)
        self.script = list(script)
        self.mechanisms = list(mechanisms)
        self.logged_in: list[bytes] = []
        self.is_logging_in = True
        self._breaks_off = breaks_off

    def use_free_port(self) -> None:
        """For the real network, where the port of the simulation may be taken."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.ports = {1: probe.getsockname()[1]}

    async def answer(self, node: int, request: Request, version: int) -> Response | Instead | None:
        if isinstance(request, SaslHandshakeRequest):
            self.requests.append((node, request, version))
            self.is_logging_in = True
            known = request.mechanism in self.mechanisms
            return SaslHandshakeResponse(
                error_code=0 if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                mechanisms=self.mechanisms,
            )
        if isinstance(request, SaslAuthenticateRequest):
            self.requests.append((node, request, version))
            self.logged_in.append(request.auth_bytes)
            if self._breaks_off:
                return Close
            answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            response = answer(request.auth_bytes)
            self.is_logging_in = response.error_code != 0
            return response
        if self.is_logging_in and not isinstance(request, ApiVersionsRequest):
            # As Kafka does: nothing but a log-in is answered meanwhile.
            return Close
        return await super().answer(node, request, version)
