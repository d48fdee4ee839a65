"""The metadata service of a machine: serves a SQLite store to the brokers over a Unix socket.

A broker's connection is its session. When the connection ends, the broker has crashed, and its
ephemeral nodes are deleted at once. A connection that is open but silent for the session timeout is
expired. Changes are pushed to all brokers as soon as they are durable.

When the service itself is restarted, the brokers are still alive: it finds their sessions in the
store's file, and waits for the session timeout for each broker to reconnect with the secret of its
session.

A broker cannot delay the others: one that does not read gets its notifications later and combined,
and its requests wait in its own socket.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, cast

from odradek.metadata import wire
from odradek.metadata.local import LocalSession
from odradek.metadata.sqlite import DurableSession, SqliteMetadata
from odradek.metadata.store import MetadataError, StoreUnavailable
from odradek.metadata.watches import PathWatch
from odradek.world import Randomness
from odradek.world.unix_sockets import listening_socket, remove_socket

logger = logging.getLogger("odradek.metadata")

# The shortest and longest interval between checks for silent connections.
_MIN_CHECK_S: Final = 0.02
_MAX_CHECK_S: Final = 1.0
# A service that was itself paused reads what is in its sockets before it expires a session.
_LAST_CHANCE_S: Final = 0.01


class MetadataService:
    """Serves a store at a Unix socket. It is closed before the store."""

    def __init__(self, metadata: SqliteMetadata, path: str, randomness: Randomness) -> None:
        """`metadata` has durable sessions and outlives the service."""
        self._metadata = metadata
        self._path = path
        self._randomness = randomness
        # Sessions of an earlier service whose brokers may reconnect.
        self._awaited = dict(metadata.found_sessions)
        self._ends: list[asyncio.TimerHandle] = []
        self._connections: dict[_Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._check: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listens; raises `StoreUnavailable` with the reason if it cannot."""
        loop = asyncio.get_running_loop()
        self._server = await self._listen(lambda: _Connection(self))
        self._check = loop.call_later(_MIN_CHECK_S, self._expire_silent)
        for session_id, session in self._awaited.items():
            delay_s = session.timeout_ms / 1000
            self._ends.append(loop.call_later(delay_s, self._give_up, session_id))

    async def _listen(self, connect: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        """Opens the Unix socket; the simulation listens in its own network instead."""
        try:
            listener = listening_socket(self._path)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot listen at {self._path}: {error.strerror or error}"
            ) from None
        return await asyncio.get_running_loop().create_unix_server(connect, sock=listener)

    async def close(self) -> None:
        """Stops listening and closes all connections. The sessions wait for the next service."""
        for timer in (self._check, *self._ends):
            if timer is not None:
                timer.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
            remove_socket(self._path)
        for connection in list(self._connections):
            connection.drop()

    def begin(self, timeout_ms: int, former: int, secret: str) -> tuple[LocalSession, str]:
        """Returns the session that a broker had with an earlier service, or a new one, and its
        secret."""
        awaited = self._awaited.get(former)
        if awaited is not None and awaited.secret == secret:
            del self._awaited[former]
            logger.info("session %d goes on", former)
            return self._metadata.reconnect(former), secret
        fresh = DurableSession(self._randomness.bytes(16).hex(), timeout_ms)
        return self._metadata.connect_durable(fresh), fresh.secret

    def _give_up(self, session_id: int) -> None:
        if self._awaited.pop(session_id, None) is not None:
            logger.info("session %d expired: its broker did not come back", session_id)
            self._metadata.end_session(session_id)

    def add(self, connection: "_Connection") -> None:
        self._connections[connection] = None

    def remove(self, connection: "_Connection") -> None:
        self._connections.pop(connection, None)

    def _expire_silent(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        interval_s = _MAX_CHECK_S
        for connection in self._connections:
            interval_s = min(interval_s, connection.timeout_s / 6)
            if connection.is_overdue(now_s):
                loop.call_later(_LAST_CHANCE_S, connection.expire_if_overdue)
        self._check = loop.call_later(max(interval_s, _MIN_CHECK_S), self._expire_silent)


class _Connection(asyncio.Protocol):
    def __init__(self, service: MetadataService) -> None:
        self._service = service
        self._reader = wire.FrameReader()
        self._session: LocalSession | None = None
        self._watch: PathWatch | None = None
        # Changes that are being written, in the order in which they arrived.
        self._changes: dict[asyncio.Task[None], None] = {}
        self._is_paused = False
        self._is_dropped = False
        self._transport: asyncio.Transport
        self._heard_at = asyncio.get_running_loop().time()
        self.timeout_s = _MAX_CHECK_S * 6
        self._methods: dict[str, Callable[..., Any]] = {}

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport of a Unix socket does not inherit from asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._service.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        try:
            for message in self._reader.feed(data):
                self._serve(message)
        except (wire.NotOurProtocol, KeyError, TypeError, ValueError) as error:
            logger.warning("closing a connection that does not speak our protocol: %r", error)
            self._transport.abort()

    def connection_lost(self, exception: Exception | None) -> None:
        self._service.remove(self)
        if self._session is not None and not self._is_dropped:
            self._session.end()

    def pause_writing(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self._push()

    # Silence

    def is_overdue(self, now_s: float) -> bool:
        """Returns whether the broker was silent for longer than its session timeout."""
        return now_s - self._heard_at > self.timeout_s

    def expire_if_overdue(self) -> None:
        if self.is_overdue(asyncio.get_running_loop().time()) and not self._transport.is_closing():
            if self._session is not None:
                logger.info("session %d expired", self._session.session_id)
                self._session.end()
            self._transport.write(wire.frame([0, wire.EXPIRED]))
            self._transport.close()

    def drop(self) -> None:
        """Closes the connection because the service stops; the session stays alive."""
        self._is_dropped = True
        if self._session is not None:
            self._session.leave()
        self._transport.abort()

    # Requests

    def _serve(self, message: list[Any]) -> None:
        request, method, *arguments = message
        session = self._session
        if session is None:
            if method != "hello":
                raise wire.NotOurProtocol("no greeting")
            self._greet(request, *arguments)
        elif method == "multi":
            operations = [wire.decode_operation(operation) for operation in arguments[0]]
            self._start(self._commit(request, session.multi(*operations)))
        elif method == "close":
            session.end()
            self._reply(request, None)
            self._transport.close()
        elif method == "ping":
            self._reply(request, None)
        elif self._changes:
            # A broker that no longer waits for its change reads back whether it was written.
            answer = partial(self._methods[method], *arguments)
            self._start(self._answer_after(list(self._changes), request, answer))
        else:
            self._reply(request, self._methods[method](*arguments))

    def _greet(
        self, request: int, protocol: int, timeout_ms: int = 0, former: int = 0, secret: str = ""
    ) -> None:
        if protocol != wire.PROTOCOL:
            why = f"it speaks version {wire.PROTOCOL} of the protocol, this broker {protocol}"
            self._transport.write(wire.frame([request, "StoreUnavailable", "", why]))
            self._transport.close()
            return
        self.timeout_s = timeout_ms / 1000
        session, secret = self._service.begin(timeout_ms, former, secret)
        self._session = session
        tree = session.tree
        self._methods = {
            "read": lambda path: wire.encode_node(tree.get(path)),
            "each": lambda paths: [wire.encode_node(tree.get(path)) for path in paths],
            "children": tree.children,
            "tree": lambda prefix: wire.encode_tree(tree.read_tree(prefix)),
        }
        self._watch = session.watch_with(self._push)
        # Changes of the broker's earlier connection that are still being written come first, so
        # that the broker can read back whether they were.
        self._start(self._commit(request, session.multi(), [session.session_id, secret]))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._changes[task] = None
        task.add_done_callback(self._changes.pop)

    async def _commit(
        self, request: int, change: Awaitable[list[int]], result: object = None
    ) -> None:
        try:
            versions = await change
        except MetadataError as error:
            if not self._transport.is_closing():
                self._transport.write(wire.frame(wire.encode_error(request, error)))
        else:
            self._reply(request, versions if result is None else result)

    async def _answer_after(
        self, changes: list[asyncio.Task[None]], request: int, answer: Callable[[], object]
    ) -> None:
        await asyncio.wait(changes)
        self._reply(request, answer())

    def _reply(self, request: int, result: object) -> None:
        if not self._transport.is_closing():
            self._transport.write(wire.frame([request, None, result]))

    def _push(self) -> None:
        """Sends the changed paths, unless the broker does not read: then they are collected."""
        if self._watch is None or self._is_paused or self._transport.is_closing():
            return
        changed = self._watch.pending()
        if changed:
            self._transport.write(wire.frame([0, wire.CHANGED, changed]))
