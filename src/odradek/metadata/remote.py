"""A broker's connection to the metadata service of its machine, over a Unix socket.

A task keeps the connection open and opens it again when it is lost. Meanwhile requests raise
`StoreUnavailable`, and the broker goes on with the image that it has.

The broker knows by its own monotonic clock whether its session is alive. The service reads all
requests in its socket before it expires a session. So a ping that is in the kernel's socket buffer
keeps the session alive for its timeout from that moment, answered or not. While no service listens
at the socket, none can expire the session; the next one waits for the same timeout when it starts.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

from odradek.metadata import wire
from odradek.metadata.current_session import CurrentSession
from odradek.metadata.session_life import SessionLife
from odradek.metadata.store import (
    EVERYTHING,
    MetadataError,
    Node,
    Operation,
    OutcomeUnknown,
    StoreUnavailable,
    Watch,
)
from odradek.metadata.watches import PathWatch, Watches
from odradek.world import World
from odradek.world.unix_sockets import socket_address

logger = logging.getLogger("odradek.metadata")

_MIN_RETRY_S: Final = 0.01
_MAX_RETRY_S: Final = 0.1
_PINGS_PER_TIMEOUT: Final = 3
_CLOSING_S: Final = 1.0


class SocketMetadata:
    """The address of the service; `connect` gives a broker its connection."""

    def __init__(self, path: str, world: World, *, session_timeout_ms: int = 6_000) -> None:
        self._path = path
        self._world = world
        self._timeout_ms = session_timeout_ms
        self._stores: list[SocketStore] = []

    def connect(self) -> "SocketStore":
        store = SocketStore(self._path, self._world, self._timeout_ms)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._stores.clear()


class SocketStore:
    """A `MetadataStore`. It is made in a running event loop, in which its task runs until
    `close`."""

    def __init__(self, path: str, world: World, timeout_ms: int) -> None:
        self._path = path
        self._clock = world.clock
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._session = CurrentSession()
        self._watches = Watches()
        self._connection: _Connection | None = None
        self._was_open = asyncio.Event()
        self._failure = f"the metadata service at {path} is away"
        self._secret = ""
        self._life = SessionLife()
        self._connecting = asyncio.get_running_loop().create_task(self._stay_connected())

    # Sessions

    @property
    def session_id(self) -> int:
        return self._session.session_id

    async def next_session(self, previous: int = 0) -> int:
        return await self._session.after(previous)

    async def end_session(self, session_id: int) -> bool:
        return False  # The service noticed the end of its connection.

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    def may_be_outdated(self) -> bool:
        return self._session.closed or self._clock.monotonic_s() >= self._life.informed_until_s

    @property
    def resumptions(self) -> int:
        return self._life.resumptions

    def note_all_read(self, resumption: int) -> None:
        self._life.note_all_read(resumption)

    # Requests

    async def read(self, path: str) -> Node | None:
        return wire.decode_node(await self._ask("read", path))

    async def read_each(self, paths: Sequence[str]) -> list[Node | None]:
        return [wire.decode_node(node) for node in await self._ask("each", list(paths))]

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._ask("children", path)
        return names

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        return wire.decode_tree(await self._ask("tree", prefix))

    async def multi(self, *operations: Operation) -> list[int]:
        encoded = [wire.encode_operation(operation) for operation in operations]
        versions: list[int] = await self._ask("multi", encoded)
        return versions

    def watch(self) -> Watch:
        self._session.require_open()
        return self._watches.add(PathWatch())

    async def _ask(self, method: str, argument: object) -> Any:
        self._session.require_open()
        if not self._was_open.is_set():
            await self._wait_for_first_connection()
        connection = self._connection
        if connection is None or connection.is_silent:
            self._session.require_open()
            raise StoreUnavailable(self._failure)
        return await connection.ask(method, argument)

    async def _wait_for_first_connection(self) -> None:
        """Waits for the first connection, because brokers and service start together."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._was_open.wait()
        except TimeoutError:
            raise StoreUnavailable(self._failure) from None

    async def close(self) -> None:
        if self._session.closed:
            return
        self._session.close()
        self._watches.expire()
        self._was_open.set()
        if self._connection is not None and not self._connection.is_silent:
            try:
                async with asyncio.timeout(_CLOSING_S):
                    await self._connection.ask("close")
            except (MetadataError, TimeoutError):
                pass  # The service ends the session with the connection.
        self._connecting.cancel()
        await asyncio.wait([self._connecting])

    # Staying connected

    async def _stay_connected(self) -> None:
        retry_s = _MIN_RETRY_S
        while not self._session.closed:
            connection = _Connection(self._watches)
            tried_s = self._clock.monotonic_s()
            try:
                await self._open_session(connection)
                retry_s = _MIN_RETRY_S
                await self._ping_until_lost(connection)
            except (OSError, StoreUnavailable) as error:
                why = getattr(error, "strerror", None) or str(error)
                self._failure = f"the metadata service at {self._path} is away: {why}"
                if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
                    self._prolong(tried_s)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _MAX_RETRY_S)
            finally:
                self._connection = None
                connection.drop()

    async def _open_session(self, connection: "_Connection") -> None:
        await self._open_connection(connection)
        greeted_s = self._clock.monotonic_s()
        session_id, self._secret = await connection.ask(
            "hello", wire.PROTOCOL, self._timeout_ms, self.session_id, self._secret
        )
        self._life.connect(is_resumed=session_id == self.session_id)
        self._life.prolong(greeted_s + self._timeout_s)
        self._connection = connection
        self._session.begin(session_id)
        self._watches.add_changes([EVERYTHING])
        self._was_open.set()

    async def _open_connection(self, connection: asyncio.Protocol) -> None:
        """Connects to the Unix socket; the simulation connects in its own network instead."""
        with socket_address(self._path) as address:
            await asyncio.get_running_loop().create_unix_connection(lambda: connection, address)

    async def _ping_until_lost(self, connection: "_Connection") -> None:
        """Pings the service until the connection is lost."""
        interval_s = self._timeout_s / _PINGS_PER_TIMEOUT
        while not connection.lost.is_set():
            sent_s = self._clock.monotonic_s()
            connection.ping().add_done_callback(partial(self._answered, sent_s))
            await connection.flushed()
            if connection.is_flushed:
                self._prolong(sent_s)
            try:
                async with asyncio.timeout(interval_s):
                    await connection.lost.wait()
            except TimeoutError:
                connection.note_silence(_PINGS_PER_TIMEOUT)
        self._session.lose()
        if connection.is_expired:
            self._life.end()
        self._failure = f"the metadata service at {self._path} is away"
        logger.warning("lost the connection to the metadata service at %s", self._path)

    def _prolong(self, since_s: float) -> None:
        """Extends the session's known life to its timeout after `since_s`, if the session was
        certainly alive then. Otherwise only an answer shows that it is."""
        if since_s < self._life.alive_until_s:
            self._life.prolong(since_s + self._timeout_s)

    def _answered(self, sent_s: float, ping: asyncio.Future[Any]) -> None:
        if not ping.cancelled() and ping.exception() is None:
            self._life.prolong(sent_s + self._timeout_s)


class _Connection(asyncio.Protocol):
    """One connection: matches replies to requests, and passes notifications to the watches."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        # By number of request: the future of its reply, and whether the request is a change.
        self._waiting: dict[int, tuple[asyncio.Future[Any], bool]] = {}
        self._last_request = 0
        self._unanswered_pings = 0
        self.is_silent = False
        self.is_expired = False
        self.lost = asyncio.Event()

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport of a Unix socket does not inherit from asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unanswered_pings = 0
        if self.is_silent:
            self.is_silent = False
            self._watches.add_changes([EVERYTHING])
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except (wire.NotOurProtocol, TypeError, ValueError) as error:
            logger.warning("the metadata service does not speak our protocol: %r", error)
            self.drop()

    def connection_lost(self, exception: Exception | None) -> None:
        self.lost.set()
        self._fail_waiting()

    # Requests

    def ask(self, method: str, *arguments: object) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = self._send(method, arguments)
        if request:
            self._waiting[request] = future, method == "multi"
        else:
            future.set_exception(StoreUnavailable("the connection to the metadata service ended"))
        return future

    def ping(self) -> asyncio.Future[Any]:
        self._unanswered_pings += 1
        return self.ask("ping")

    async def flushed(self) -> None:
        """Waits until the event loop has written: uvloop writes at the end of a turn."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    @property
    def is_flushed(self) -> bool:
        """Whether everything sent is in the kernel's socket buffer, not in the process's own."""
        transport = self._transport
        return (
            transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def note_silence(self, max_pings: int) -> None:
        """Fails the requests that wait if the service has stopped answering. The connection stays
        open: a service that was only paused still knows the session."""
        if self._unanswered_pings >= max_pings and not self.is_silent:
            self.is_silent = True
            self._fail_waiting()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send(self, method: str, arguments: Sequence[object]) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            return 0
        self._last_request += 1
        transport.write(wire.frame([self._last_request, method, *arguments]))
        return self._last_request

    def _take(self, message: list[Any]) -> None:
        request, kind, *content = message
        if request == 0:
            if kind == wire.CHANGED:
                self._watches.add_changes(content[0])
            elif kind == wire.EXPIRED:
                self.is_expired = True
            return
        future, _ = self._waiting.pop(request, (None, False))
        if future is None or future.done():
            return
        if kind is None:
            future.set_result(content[0])
        else:
            future.set_exception(wire.decode_error(kind, *content))

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, is_change in waiting.values():
            if not future.done():
                future.set_exception(
                    OutcomeUnknown()
                    if is_change
                    else StoreUnavailable("the connection to the metadata service was lost")
                )
