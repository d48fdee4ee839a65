"""The log-in by SASL at the beginning of a connection, and again while it lasts (KIP-368).

It stands between a connection and the dispatcher, and lets nothing pass before the log-in but
ApiVersions:

    VERSIONS_OR_HANDSHAKE   ApiVersions (once) or SaslHandshake
    HANDSHAKE               SaslHandshake
    TOKENS                  SaslAuthenticate, after SaslHandshake 1
    BARE_TOKENS             tokens without a header, after SaslHandshake 0
    LOGGED_IN               everything, until the session has lapsed
    REFUSED                 nothing: the connection is about to be closed

Answers are Kafka's. What must not come before the log-in closes the connection without an answer.
After the handshake it is answered with ILLEGAL_SASL_STATE first. A failed log-in is answered after
`connection.failed.authentication.delay.ms`, and then the connection is closed. It only waits: other
connections are served meanwhile.

A session lapses after `connections.max.reauth.ms`, or with its token. The next ordinary request
after that closes the connection; a log-in is still possible, as the same principal and by the same
mechanism, and at most once a second. If sessions do not lapse, the gate is taken out of the way
after the log-in, and costs nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable
from enum import Enum
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from odradek.broker.authentication.illegal_state import illegal_state_response
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Pending, encoded_already
from odradek.protocol.apis import API_VERSIONS_KEY
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import RequestHeader, decode_request_header, encode_response
from odradek.protocol.messages import sasl_authenticate, sasl_handshake
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.types import Buffer
from odradek.security.principals import Principal
from odradek.security.sasl.server.exchange import Login, LoginFailed, ServerExchange, Step

if TYPE_CHECKING:
    from odradek.broker.authentication.secured_listeners import SecuredListener

logger = logging.getLogger("odradek.authentication")

_MIN_REAUTHENTICATION_PAUSE_S: Final = 1.0
_MAX_API_VERSIONS_WITHOUT_NAME: Final = 2
# Between the answer to a client that is refused and the end of its connection. Some clients lose an
# answer that they read together with the end.
_CLOSING_PAUSE_S: Final = 0.1


class State(Enum):
    VERSIONS_OR_HANDSHAKE = 1
    HANDSHAKE = 2
    TOKENS = 3
    BARE_TOKENS = 4
    LOGGED_IN = 5
    REFUSED = 6


class _Session(NamedTuple):
    """A log-in that counts. `expires_s` is by the clock of the event loop."""

    principal: Principal
    mechanism: str
    expires_s: float | None


class SaslGate:
    """The log-ins of one connection."""

    __slots__ = (
        "_began_again_s",
        "_connection",
        "_exchange",
        "_listener",
        "_mechanism",
        "_session",
        "_state",
    )

    def __init__(self, connection: Connection, listener: "SecuredListener") -> None:
        self._connection = connection
        self._listener = listener
        self._state = State.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._session: _Session | None = None
        # When the client began to log in again.
        self._began_again_s: float | None = None

    # What arrives

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        if self._state is State.BARE_TOKENS:
            return self._take_token(bytes(frame), None)
        header, position = decode_request_header(frame)
        if self._state is State.REFUSED:
            raise MalformedMessage("a request after the log-in was refused")
        if self._state is State.LOGGED_IN:
            return self._serve_logged_in(connection, frame, header, position)
        if self._state is State.TOKENS:
            return self._serve_token(frame, header, position)
        if header.api_key == sasl_handshake.API.key:
            return self._shake_hands(frame, header, position)
        if header.api_key == API_VERSIONS_KEY and self._state is State.VERSIONS_OR_HANDSHAKE:
            return self._tell_versions(connection, frame, header)
        raise MalformedMessage(f"a request of API {header.api_key} before the log-in")

    def _tell_versions(
        self, connection: Connection, frame: Buffer, header: RequestHeader
    ) -> Parts | Pending | None:
        reply = connection.serve_behind_guard(frame)
        # A version that is not served, or a bad name of the client's software, may be corrected.
        is_named = "software" in connection.session
        from odradek.protocol.messages.api_versions import API  # noqa: PLC0415 - it is loaded now

        if header.api_version <= API.max_version and (
            is_named or header.api_version <= _MAX_API_VERSIONS_WITHOUT_NAME
        ):
            self._state = State.HANDSHAKE
        return reply

    def _shake_hands(
        self, frame: Buffer, header: RequestHeader, position: int
    ) -> Parts | Pending | None:
        api = sasl_handshake.API
        _require_version(header, api.min_version, api.max_version)
        request = SaslHandshakeRequest.decode(frame, header.api_version, position)
        mechanisms = self._listener.mechanisms
        response = SaslHandshakeResponse(mechanisms=[*mechanisms])
        chosen = mechanisms.get(request.mechanism)
        if chosen is None:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._log_failure(f"mechanism {request.mechanism!r} is not enabled", "")
            self._close_soon()
        else:
            if self._session is not None and self._session.mechanism != chosen.name:
                raise MalformedMessage("another mechanism than in the first log-in")
            self._mechanism = chosen.name
            self._exchange = chosen.begin()
            self._state = State.TOKENS if header.api_version else State.BARE_TOKENS
        return _encoded(response, header)

    def _serve_token(
        self, frame: Buffer, header: RequestHeader, position: int
    ) -> Parts | Pending | None:
        api = sasl_authenticate.API
        if header.api_key != api.key:
            reply = illegal_state_response(frame, header, position)
            self._close_soon()
            return reply
        _require_version(header, api.min_version, api.max_version)
        request = SaslAuthenticateRequest.decode(frame, header.api_version, position)
        return self._take_token(bytes(request.auth_bytes), header)

    def _serve_logged_in(
        self, connection: Connection, frame: Buffer, header: RequestHeader, position: int
    ) -> Parts | Pending | None:
        session = self._session
        assert session is not None
        assert session.expires_s is not None  # Or else the gate would be out of the way.
        now_s = asyncio.get_running_loop().time()
        if header.api_key == sasl_handshake.API.key and (
            self._began_again_s is None
            or now_s - self._began_again_s >= _MIN_REAUTHENTICATION_PAUSE_S
        ):
            self._began_again_s = now_s
            return self._shake_hands(frame, header, position)
        if now_s >= session.expires_s:
            self._listener.counters.expired += 1
            raise MalformedMessage(f"the session of {session.principal} has lapsed")
        return connection.serve_behind_guard(frame)

    # The exchange

    def _take_token(self, token: bytes, header: RequestHeader | None) -> Parts | Pending | None:
        """Answers a token; `header` is that of its request, if it came in one."""
        assert self._exchange is not None
        try:
            step = self._exchange.respond(token)
        except LoginFailed as error:
            return Pending(self._fail(error, header), encoded_already, is_pipelined=False)
        if isawaitable(step):
            reply = self._take_step_later(step, header)
            return Pending(reply, encoded_already, is_pipelined=False)
        return self._take_step_or_fail(step, header)

    async def _take_step_later(
        self, step: Awaitable[Step], header: RequestHeader | None
    ) -> Parts | None:
        try:
            return self._take_step(await step, header)
        except LoginFailed as error:
            return await self._fail(error, header)

    def _take_step_or_fail(
        self, step: Step, header: RequestHeader | None
    ) -> Parts | Pending | None:
        try:
            return self._take_step(step, header)
        except LoginFailed as error:
            return Pending(self._fail(error, header), encoded_already, is_pipelined=False)

    def _take_step(self, step: Step, header: RequestHeader | None) -> Parts:
        """Raises `LoginFailed` if a client logs in again as somebody else."""
        lifetime_ms = 0 if step.login is None else self._log_in(step.login)
        if header is None:
            return [len(step.reply).to_bytes(4, "big") + step.reply]
        response = SaslAuthenticateResponse(
            error_message=None, auth_bytes=step.reply, session_lifetime_ms=lifetime_ms
        )
        return _encoded(response, header)

    def _log_in(self, login: Login) -> int:
        """Lets the client in; returns how long the session counts in ms, 0 if it does not lapse."""
        principal = self._listener.principal_of(login)
        previous = self._session
        if previous is not None and not principal.is_same_user(previous.principal):
            raise LoginFailed(
                f"it was {previous.principal} before",
                "Cannot change principals during re-authentication from"
                f" {previous.principal.principal_type}.{previous.principal.name}:"
                f" {principal.principal_type}.{principal.name}",
                login.name,
            )
        lifetime_ms = self._listener.session_lifetime_ms(self._mechanism, login)
        lapses = lifetime_ms is not None
        expires_s = asyncio.get_running_loop().time() + (lifetime_ms or 0) / 1000
        self._session = _Session(principal, self._mechanism, expires_s if lapses else None)
        self._exchange = None
        self._state = State.LOGGED_IN
        connection = self._connection
        connection.principal = principal
        connection.is_by_token = bool(login.token_id)
        if not lapses:
            connection.unguard()
        self._listener.logged_in(
            connection, self._mechanism, login.token_id, is_again=previous is not None
        )
        return lifetime_ms or 0

    async def _fail(self, error: LoginFailed, header: RequestHeader | None) -> Parts | None:
        """Answers a failed log-in after the delay, and closes the connection."""
        self._log_failure(str(error), error.user)
        await asyncio.sleep(self._listener.failure_delay_s)
        if header is None:
            self._connection.finish_after_reply()
            return None
        self._close_soon()
        again = "re-authentication" if self._session is not None else "authentication"
        generic = (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism"
            f" {self._mechanism}"
        )
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=error.told or generic
        )
        return _encoded(response, header)

    def _close_soon(self) -> None:
        """Serves nothing more, and closes when the client has had time to read the answer."""
        self._state = State.REFUSED
        asyncio.get_running_loop().call_later(_CLOSING_PAUSE_S, self._connection.finish)

    def _log_failure(self, reason: str, user: str) -> None:
        self._listener.failed(self._connection, self._mechanism, user, reason)


def _require_version(header: RequestHeader, lowest: int, highest: int) -> None:
    if not lowest <= header.api_version <= highest:
        raise MalformedMessage(
            f"version {header.api_version} of API {header.api_key} is not served here"
        )


def _encoded(
    response: SaslHandshakeResponse | SaslAuthenticateResponse, header: RequestHeader
) -> Parts:
    return cast("Parts", encode_response(response, header.api_version, header.correlation_id))
