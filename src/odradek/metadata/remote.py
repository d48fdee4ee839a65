"""The metadata store of a machine as one of its brokers sees it: over a Unix socket.

The line to the service is kept up by a task: lost, it is tried again until it is there. While
it is not, what is asked raises `StoreUnavailable`, and the broker goes on with what it knows.

How the broker knows that its session lives, by its own monotonic clock: a ping that the kernel
has taken lies before the service, which expires nobody before it has read what lies there. So
the session lives for its timeout from that moment, answered or not. When nobody listens at
the socket there is no service that could expire it; the next one, which begins later, waits
for the same timeout.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

from odradek.metadata import wire
from odradek.metadata.sessions import PathWatch, Sessions, Watches
from odradek.metadata.store import (
    EVERYTHING,
    MetadataError,
    Node,
    Operation,
    OutcomeUnknown,
    StoreUnavailable,
    Watch,
)
from odradek.world import World
from odradek.world.unix_sockets import socket_address

logger = logging.getLogger("odradek.metadata")

_SHORTEST_RETRY_S: Final = 0.01
_MAX_RETRY_S: Final = 0.1
_PINGS_PER_TIMEOUT: Final = 3
_CLOSING_S: Final = 1.0
_NEVER_S: Final = float("-inf")


class SocketMetadata:
    """Where the service is; `connect` gives a broker its line to it."""

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
    """A `MetadataStore`. Made within a running loop, where its task lives until `close`."""

    def __init__(self, path: str, world: World, timeout_ms: int) -> None:
        self._path = path
        self._clock = world.clock
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._sessions = Sessions()
        self._watches = Watches()
        self._line: _Line | None = None
        self._was_open = asyncio.Event()
        self._failure = f"the metadata service at {path} is away"
        self._secret = ""
        self._lives_until_s = _NEVER_S
        self._keeper = asyncio.get_running_loop().create_task(self._keep_line())

    # Sessions

    @property
    def session_id(self) -> int:
        return self._sessions.session_id

    async def next_session(self, previous: int = 0) -> int:
        return await self._sessions.after(previous)

    async def end_session(self, session_id: int) -> bool:
        return False  # The service noticed the end of its connection.

    def may_have_expired(self) -> bool:
        return self._sessions.closed or self._clock.monotonic_s() >= self._lives_until_s

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
        self._sessions.require_open()
        return self._watches.add(PathWatch())

    async def _ask(self, method: str, argument: object) -> Any:
        self._sessions.require_open()
        if not self._was_open.is_set():
            await self._wait_for_first_line()
        line = self._line
        if line is None or line.is_silent:
            self._sessions.require_open()
            raise StoreUnavailable(self._failure)
        return await line.ask(method, argument)

    async def _wait_for_first_line(self) -> None:
        """Only the first: brokers and service start together."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._was_open.wait()
        except TimeoutError:
            raise StoreUnavailable(self._failure) from None

    async def close(self) -> None:
        if self._sessions.closed:
            return
        self._sessions.close()
        self._watches.expire()
        self._was_open.set()
        if self._line is not None and not self._line.is_silent:
            try:
                async with asyncio.timeout(_CLOSING_S):
                    await self._line.ask("close")
            except (MetadataError, TimeoutError):
                pass  # the end of the connection says the same
        self._keeper.cancel()
        await asyncio.wait([self._keeper])

    # Keeping the line

    async def _keep_line(self) -> None:
        retry_s = _SHORTEST_RETRY_S
        while not self._sessions.closed:
            line = _Line(self._watches)
            tried_s = self._clock.monotonic_s()
            try:
                await self._open(line)
                retry_s = _SHORTEST_RETRY_S
                await self._keep(line)
            except (OSError, StoreUnavailable) as error:
                why = getattr(error, "strerror", None) or str(error)
                self._failure = f"the metadata service at {self._path} is away: {why}"
                if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
                    self._prolong(tried_s)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _MAX_RETRY_S)
            finally:
                self._line = None
                line.drop()

    async def _open(self, line: "_Line") -> None:
        await self._open_connection(line)
        greeted_s = self._clock.monotonic_s()
        session_id, self._secret = await line.ask(
            "hello", wire.PROTOCOL, self._timeout_ms, self.session_id, self._secret
        )
        self._lives_until_s = greeted_s + self._timeout_s
        self._line = line
        self._sessions.begin(session_id)
        self._watches.note([EVERYTHING])
        self._was_open.set()

    async def _open_connection(self, line: asyncio.Protocol) -> None:
        """Connects to the Unix socket; the simulation connects in its own network instead."""
        with socket_address(self._path) as address:
            await asyncio.get_running_loop().create_unix_connection(lambda: line, address)

    async def _keep(self, line: "_Line") -> None:
        """Pings until the line is lost."""
        interval_s = self._timeout_s / _PINGS_PER_TIMEOUT
        while not line.lost.is_set():
            sent_s = self._clock.monotonic_s()
            line.ping().add_done_callback(partial(self._answered, sent_s))
            await line.flushed()
            if line.is_flushed:
                self._prolong(sent_s)
            try:
                async with asyncio.timeout(interval_s):
                    await line.lost.wait()
            except TimeoutError:
                line.note_silence(_PINGS_PER_TIMEOUT)
        self._sessions.lose()
        if line.is_expired:
            self._lives_until_s = _NEVER_S
        self._failure = f"the metadata service at {self._path} is away"
        logger.warning("lost the connection to the metadata service at %s", self._path)

    def _prolong(self, since_s: float) -> None:
        """If the session lived at that moment, it does for its timeout from then. If not even
        that is certain, only an answer makes it so."""
        if since_s < self._lives_until_s:
            self._lives_until_s = since_s + self._timeout_s

    def _answered(self, sent_s: float, ping: asyncio.Future[Any]) -> None:
        if not ping.cancelled() and ping.exception() is None:
            self._lives_until_s = max(self._lives_until_s, sent_s + self._timeout_s)


class _Line(asyncio.Protocol):
    """One connection: requests that wait for their replies, and changes as they come."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        # By number of request: who waits, and whether the request changes anything.
        self._waiting: dict[int, tuple[asyncio.Future[Any], bool]] = {}
        self._last_request = 0
        self._unanswered_pings = 0
        self.is_silent = False
        self.is_expired = False
        self.lost = asyncio.Event()

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport of a Unix socket is none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unanswered_pings = 0
        if self.is_silent:
            self.is_silent = False
            self._watches.note([EVERYTHING])
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
        """Gives the loop the turn in which it writes: uvloop does so only at its end."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    @property
    def is_flushed(self) -> bool:
        """Whether all that was sent lies before the service now, and not in our own buffer."""
        transport = self._transport
        return (
            transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def note_silence(self, max_pings: int) -> None:
        """Lets nobody wait for a service that has stopped answering. The connection stays: if
        it is only stopped, it will know us again."""
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
                self._watches.note(content[0])
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
