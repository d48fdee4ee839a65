"""Logs a connection in by SASL, and again before the broker ends its session (KIP-368).

    SaslHandshake      names the mechanism
    SaslAuthenticate   carries the messages of the mechanism, there and back, until both are done

The broker may say how long the session lives. When 85 to 95 % of that are over, the connection logs
in again, between other requests: those that were sent before are answered first, and those that
come meanwhile wait in `Connection`. A broker's refusal is final: `AuthenticationFailed`, with the
broker's words. The messages never show a secret.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from odradek.client.errors import (
    AuthenticationFailed,
    BadResponse,
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    UnsupportedVersion,
)
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.sasl.client.exchange import (
    MAX_CHALLENGE_BYTES,
    ClientExchange,
    SaslFailed,
)
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.connection import Connection
    from odradek.client.login import Login

LOG_IN_REQUESTS: Final = (SaslHandshakeRequest, SaslAuthenticateRequest)
# No mechanism needs more; a broker that always asks for another message would never end.
_MAX_MESSAGES: Final = 20
# As in Kafka, and spread, so that a thousand connections do not log in at the same moment.
_EARLIEST: Final = 0.85
_SPREAD: Final = 0.10


class Session:
    """The log-in of one connection: the first, and the ones that renew it."""

    __slots__ = ("_connection", "_login", "_randomness", "_renewal", "_timer")

    def __init__(self, connection: "Connection", login: "Login", randomness: Randomness) -> None:
        self._connection = connection
        self._login = login
        self._randomness = randomness
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Logs in; raises `AuthenticationFailed`, or `ConnectionFailed` if the broker closes."""
        try:
            lifetime_ms = await self._log_in()
        except ConnectionClosed as error:
            raise ConnectionFailed(
                f"{self._connection.address} closed the connection during the log-in: {error}"
            ) from error
        self._renew_after(lifetime_ms)

    def end(self) -> None:
        """Stops renewing: the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _renew_after(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0 and self._connection.is_open:
            part = _EARLIEST + _SPREAD * self._randomness.fraction()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(lifetime_ms / 1000 * part, self._start_renewal)

    def _start_renewal(self) -> None:
        self._timer = None
        if self._connection.is_open:
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Logs in again; if that fails the connection ends, and the next one says why."""
        connection = self._connection
        try:
            # Before requests are held back: a token may have to be got from elsewhere.
            exchange = await self._login.exchange(connection.host)
            connection.hold_requests()
            lifetime_ms = await self._log_in(exchange)
        except (ClientError, KafkaError) as error:
            connection.fail(ConnectionClosed(f"the session could not be renewed: {error}"))
        else:
            connection.release_requests()
            self._renew_after(lifetime_ms)

    async def _log_in(self, exchange: ClientExchange | None = None) -> int:
        """Returns how long the session lives in milliseconds; 0 if that is not limited."""
        connection, login = self._connection, self._login
        exchange = exchange or await login.exchange(connection.host)
        await self._choose_mechanism(login.mechanism)
        message: bytes | None = exchange.first_message()
        for _ in range(_MAX_MESSAGES):
            answer = await connection.send(
                SaslAuthenticateRequest(auth_bytes=message or b""), SaslAuthenticateResponse
            )
            if answer.error_code != ErrorCode.NONE:
                login.refused()
                raise self._refused(answer)
            message = await self._reply(exchange, answer.auth_bytes)
            if exchange.is_complete and message is None:
                return answer.session_lifetime_ms
        raise BadResponse(f"{connection.address} does not end the log-in by {login.mechanism}")

    async def _choose_mechanism(self, mechanism: str) -> None:
        connection = self._connection
        try:
            if connection.version_for(SaslHandshakeRequest) < 1:
                raise UnsupportedVersion("SaslHandshake 1")
            chosen = await connection.send(
                SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse
            )
        except UnsupportedVersion:
            raise AuthenticationFailed(
                f"{connection.address} offers no log-in: its listener has no SASL; set"
                " security.protocol=PLAINTEXT or SSL"
            ) from None
        if chosen.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(sorted(chosen.mechanisms)[:_MAX_MESSAGES]) or "none"
            raise AuthenticationFailed(
                f"{connection.address} does not offer {mechanism}; set sasl.mechanism to one that"
                f" it offers: {offered}"
            )
        if chosen.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"{connection.address} takes no log-in: its listener has no SASL; set"
                " security.protocol=PLAINTEXT or SSL"
            )
        if chosen.error_code != ErrorCode.NONE:
            said = error_for(chosen.error_code).message
            raise AuthenticationFailed(f"{connection.address} refused {mechanism}: {said}")

    async def _reply(self, exchange: ClientExchange, challenge: bytes) -> bytes | None:
        try:
            if len(challenge) > MAX_CHALLENGE_BYTES:
                raise SaslFailed(f"the broker sent {len(challenge)} bytes, which is too much")
            if self._login.is_costly:
                return await asyncio.to_thread(exchange.reply, challenge)
            return exchange.reply(challenge)
        except SaslFailed as error:
            where = f"the log-in at {self._connection.address} by {self._login.mechanism}"
            raise AuthenticationFailed(f"{where} failed: {error}") from None

    def _refused(self, answer: SaslAuthenticateResponse) -> AuthenticationFailed:
        said = answer.error_message or error_for(answer.error_code).message
        return AuthenticationFailed(
            f"{self._connection.address} refused the log-in by {self._login.mechanism}: {said}"
        )
