"""One connection to one broker. Requests are pipelined, and answers are matched by correlation id.

Producer, consumer and admin client talk to brokers through it, and so do brokers among themselves.
It handles frames, correlation ids and API versions, and nothing else: `wire` has the socket's side,
`authentication` the log-in. Timers and the socket come from the running event loop, so it runs in
virtual time too.

Invariant: every request ends exactly once: with its response, or with one of `ConnectionClosed`,
`RequestTimedOut`, `BadResponse` (the tree is drawn in `client.errors`). A broker answers in order,
so a request that timed out has blocked the requests after it, and the connection is closed. It is
also closed when the broker sends bytes that cannot be read.

    connection = await Connection.open("localhost", 9092)
    response = await connection.request(MetadataRequest(topics=None), MetadataResponse)
    connection.close()
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from odradek import __version__
from odradek.client.api_versions import ApiVersions, choose_version
from odradek.client.errors import (
    AuthenticationFailed,
    BadResponse,
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    NoFirstAnswer,
    NotABroker,
    RequestTimedOut,
    UnsupportedVersion,
)
from odradek.client.metrics.counting import ConnectionCounts
from odradek.client.other_protocols import FIRST_CORRELATION_ID
from odradek.client.pending_request import PendingRequest
from odradek.client.wire import Wire
from odradek.protocol.errors import ErrorCode, MalformedMessage, raise_for
from odradek.protocol.headers import decode_correlation_id, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer
from odradek.world.sockets import set_buffers, why_not_connected

if TYPE_CHECKING:
    from odradek.client.authentication import Session
    from odradek.client.security import ClientSecurity

R = TypeVar("R", bound=Response)

_API_VERSIONS_KEY: Final = ApiVersionsRequest.api_key
# Fewer bytes than this are cheaper to join than to hand over one by one.
_JOIN_BYTES: Final = 65_536
_MAX_CORRELATION_IDS: Final = 1 << 31
_LOG_IN_KEYS: Final = (17, 36)  # SaslHandshake and SaslAuthenticate


class Connection:
    """Made by `Connection.open`. It belongs to one event loop."""

    __slots__ = (
        "_api_versions",
        "_client_id",
        "_correlation_id",
        "_failure",
        "_held",
        "_loop",
        "_max_in_flight",
        "_pending",
        "_request_timeout_s",
        "_reserved",
        "_session",
        "_timer",
        "_timer_at_s",
        "_versions",
        "_waiters",
        "_wire",
        "counts",
        "features",
        "host",
        "last_used_s",
        "port",
    )

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_ms: int,
        max_in_flight: int,
        counts: ConnectionCounts | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._request_timeout_s = request_timeout_ms / 1000
        self._max_in_flight = max_in_flight
        self._correlation_id = FIRST_CORRELATION_ID - 1
        self._pending: dict[int, PendingRequest] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        self._failure: ClientError | None = None
        # The log-in, and what is written after it while it is renewed; None without SASL.
        self._session: Session | None = None
        self._held: list[Buffer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0
        self._api_versions: ApiVersions = {_API_VERSIONS_KEY: (0, 4)}
        self._versions: dict[type[Request], int] = {}
        # The cluster's features that are in force, such as `transaction.version`.
        self.features: Mapping[str, int] = {}
        self._wire = Wire(self)
        self.counts = counts or ConnectionCounts()
        self.last_used_s = self._loop.time()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "odradek",
        connect_timeout_ms: int = 10_000,
        first_answer_timeout_ms: int | None = None,
        request_timeout_ms: int = 30_000,
        max_in_flight: int = 100,
        max_response_bytes: int = 1 << 30,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        api_versions: ApiVersions | None = None,
        counts: ConnectionCounts | None = None,
        security: "ClientSecurity | None" = None,
    ) -> Self:
        """Connects and asks for the broker's API versions, or raises `ConnectionFailed`.

        With `first_answer_timeout_ms` it raises `NoFirstAnswer` if these do not come in that time.

        With `security` it speaks TLS, logs in, or both; then it may raise `AuthenticationFailed`.

        `send_buffer_bytes` and `receive_buffer_bytes` are SO_SNDBUF and SO_RCVBUF of the socket;
        -1 leaves them to the operating system.

        With the `api_versions` of an earlier connection to the same broker it does not ask for
        them. It counts in `counts`, which may have counted for earlier connections.
        """
        connection = cls(
            host,
            port,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            max_in_flight=max_in_flight,
            counts=counts,
        )
        loop = asyncio.get_running_loop()
        tls = {} if security is None else await security.connect_options(host)
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                transport, _ = await loop.create_connection(
                    lambda: connection._wire, host, port, **tls
                )
                set_buffers(
                    transport.get_extra_info("socket"),
                    send_bytes=send_buffer_bytes,
                    receive_bytes=receive_buffer_bytes,
                )
        except TimeoutError:
            raise ConnectionFailed(
                f"{host}:{port} did not accept a connection within {connect_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise _not_connected(error, host, port, is_tls=bool(tls)) from error
        try:
            connection._api_versions = api_versions or await connection._negotiate(
                first_answer_timeout_ms
            )
            if security is not None and security.login is not None:
                await connection._log_in(security)
        except BaseException:
            await connection._give_up(is_tls=bool(tls))
            raise
        connection._wire.trust(max_response_bytes)
        return connection

    async def _give_up(self, *, is_tls: bool) -> None:
        if not is_tls:
            self.close()
            return
        # A polite end of TLS takes a while, in which the caller may end the event loop.
        self.fail(ConnectionClosed("it could not be used"))
        await self.wait_closed()

    # Requests

    async def request(
        self,
        message: Request,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> R:
        """Sends a request as soon as `max_in_flight` allows and returns the response."""
        if self._waiters or not self._has_room():
            await self._turn()
        return await self.send(
            message, response_class, timeout_ms=timeout_ms, max_version=max_version
        )

    def send(
        self,
        message: Request,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> "asyncio.Future[R]":
        """Writes a request at once, whatever is in flight, and returns the response's future.

        A future that is cancelled changes nothing on the wire: its answer is dropped when it
        comes. Raises `UnsupportedVersion` or `ConnectionClosed` at once.
        """
        version = self.version_for(type(message), max_version)
        self._write(message, version)
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        now_s = self._loop.time()
        pending = PendingRequest(
            self._loop.create_future(), response_class, version, now_s, now_s + timeout_s
        )
        self._pending[self._correlation_id] = pending
        self._watch(pending.deadline_s)
        self.last_used_s = now_s
        return cast("asyncio.Future[R]", pending.future)

    def send_without_reply(self, message: Request, *, max_version: int | None = None) -> None:
        """Writes a request that no broker answers: Produce with acks=0."""
        self._write(message, self.version_for(type(message), max_version))
        self.last_used_s = self._loop.time()

    def _write(self, message: Request, version: int) -> None:
        if self._failure is not None:
            raise ConnectionClosed(str(self._failure))
        self._correlation_id = (self._correlation_id + 1) % _MAX_CORRELATION_IDS
        # Clients send bytes; parts that are written later are for brokers' responses.
        parts = cast(
            "list[Buffer]", encode_request(message, version, self._correlation_id, self._client_id)
        )
        size = sum(map(len, parts))
        self.counts.requests += 1
        self.counts.bytes_out += size
        if self._held is not None and message.api_key not in _LOG_IN_KEYS:
            self._held += parts
            return
        transport = self._wire.transport
        if len(parts) == 1:
            transport.write(parts[0])
        elif size < _JOIN_BYTES:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def version_for(self, request_class: type[Request], max_version: int | None = None) -> int:
        """Returns the newest version that both sides know, or raises `UnsupportedVersion`."""
        version = self._versions.get(request_class)
        if version is None:
            version = choose_version(request_class, self._api_versions, self.address)
            self._versions[request_class] = version
        return version if max_version is None else min(version, max_version)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def api_versions(self) -> ApiVersions:
        """Returns the versions of each API that the broker knows."""
        return self._api_versions

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def closed_at_first_request(self) -> bool:
        """Returns whether the broker has closed it so; a listener that asks for a log-in does."""
        return self._wire.closed_at_first_request

    @property
    def has_no_answer_yet(self) -> bool:
        """Returns whether the broker answered ApiVersions, and nothing after it."""
        sent = self._correlation_id - FIRST_CORRELATION_ID + 1
        return self._session is None and 1 < sent == len(self._pending) + 1

    @property
    def is_open(self) -> bool:
        return self._failure is None

    def supports(self, request_class: type[Request], version: int = 0) -> bool:
        """Returns whether both sides know this version of an API, or a newer one."""
        try:
            return self.version_for(request_class) >= version
        except UnsupportedVersion:
            return False

    # Taking turns

    def _has_room(self) -> bool:
        return (
            len(self._pending) + self._reserved < self._max_in_flight
            and self._wire.is_writable
            and self._held is None
        ) or self._failure is not None

    async def _turn(self) -> None:
        """Returns when fewer than `max_in_flight` requests wait; callers take turns in order."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        self.wake_waiters()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            else:
                self._reserved -= 1
            self.wake_waiters()
            raise
        self._reserved -= 1

    def wake_waiters(self) -> None:
        while self._waiters and self._has_room():
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._reserved += 1
                waiter.set_result(None)

    # Answers

    def frame_received(self, frame: Buffer) -> None:
        """Called by the wire with each response."""
        pending = None
        if len(frame) >= 4:
            pending = self._pending.pop(decode_correlation_id(frame), None)
        if pending is None:
            self.fail(BadResponse(f"{self.address} answered a request that was never sent"))
            return
        now_s = self._loop.time()
        took_s = now_s - pending.sent_s
        self.counts.answered(pending.response_class.api_key, took_s, len(frame), now_s)
        if pending.future.cancelled():
            self.wake_waiters()
            return
        try:
            response = pending.decode(frame)
        except MalformedMessage as error:
            fault = BadResponse(f"{self.address} sent a malformed response: {error}")
            _fail_future(pending.future, fault)
            self.fail(fault)
            return
        pending.future.set_result(response)
        if self._waiters:
            self.wake_waiters()

    async def _negotiate(self, timeout_ms: int | None) -> ApiVersions:
        """Asks for ApiVersions, in an older version if the broker does not know ours."""
        request = ApiVersionsRequest(
            client_software_name="odradek", client_software_version=__version__
        )
        try:
            response = await self.request(request, ApiVersionsResponse, timeout_ms=timeout_ms)
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                offered = {api.api_key: api.max_version for api in response.api_keys}
                best = min(offered.get(_API_VERSIONS_KEY, 0), ApiVersionsRequest.versions.last)
                self._versions[ApiVersionsRequest] = best
                response = await self.request(request, ApiVersionsResponse)
            raise_for(response.error_code)
        except RequestTimedOut as error:
            if timeout_ms is None:
                raise
            raise NoFirstAnswer(
                f"{self.address} accepted the connection and answered nothing for"
                f" {timeout_ms / 1000:g} s: something else than a broker listens there, or the"
                " broker hangs"
            ) from error
        except ConnectionClosed as error:
            if isinstance(self._failure, NotABroker | AuthenticationFailed):
                raise self._failure from None
            raise ConnectionFailed(
                f"{self.address} closed the connection at once: {self._wire.why_at_once}"
            ) from error
        self._versions.clear()
        self.features = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }
        return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    # Log-in

    async def _log_in(self, security: "ClientSecurity") -> None:
        from odradek.client.authentication import Session  # noqa: PLC0415 - only with SASL

        assert security.login is not None
        self._session = Session(self, security.login, security.randomness)
        await self._session.begin()

    def hold_requests(self) -> None:
        """Keeps back requests from now on, while the session is renewed."""
        self._held = []

    def release_requests(self) -> None:
        """Writes what was kept back."""
        held, self._held = self._held, None
        if held and self._failure is None:
            self._wire.transport.writelines(held)
        self.wake_waiters()

    # Time-outs

    def _watch(self, deadline_s: float) -> None:
        """Sets the timer of the connection to this deadline, if it is the earliest one."""
        if self._timer is not None:
            if self._timer_at_s <= deadline_s:
                return
            self._timer.cancel()
        self._timer_at_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        late = [pending for pending in self._pending.values() if pending.deadline_s <= now_s]
        if late:
            name = late[0].response_class.__name__.removesuffix("Response")
            fault = RequestTimedOut(f"{self.address} did not answer {name} in time")
            for pending in late:
                _fail_future(pending.future, fault)
            self.fail(fault)
        elif self._pending:
            self._watch(min(pending.deadline_s for pending in self._pending.values()))

    # The end

    def fail(self, reason: ClientError, *, is_ours: bool = False) -> None:
        """Closes the connection; every request that waits for its answer fails with `error`."""
        if self._failure is None:
            self._failure = reason
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._session is not None:
                self._session.end()
            self._wire.end(at_once=not is_ours)
            fault = ConnectionClosed(str(reason))
            pending, self._pending = self._pending, {}
            for request in pending.values():
                _fail_future(request.future, fault)
            self.wake_waiters()

    def close(self) -> None:
        """Writes what was sent and closes; requests that wait fail with `ConnectionClosed`."""
        reason = ConnectionClosed(f"the connection to {self.address} was closed here")
        self.fail(reason, is_ours=True)

    def when_closed(self, call: Callable[[], object]) -> None:
        """Calls back when the socket is closed, by either side."""
        self._wire.lost.add_done_callback(lambda _: call())

    async def wait_closed(self) -> None:
        """Returns when the socket is closed."""
        await asyncio.shield(self._wire.lost)


def _not_connected(error: OSError, host: str, port: int, *, is_tls: bool) -> ClientError:
    if is_tls:
        from odradek.client.tls_failures import why_tls_failed  # noqa: PLC0415 - only with TLS

        fault = why_tls_failed(error, host, port)
        if fault is not None:
            return fault
    return ConnectionFailed(f"cannot connect to {host}:{port}: {why_not_connected(error)}")


def _fail_future(future: "asyncio.Future[Response]", fault: ClientError) -> None:
    if not future.done():
        future.set_exception(fault)
        # A caller that does not await the future must not make asyncio log its exception.
        future.exception()
