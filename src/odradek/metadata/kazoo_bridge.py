"""Uses kazoo from an asyncio event loop, and adds what it lacks: watches of a whole tree, many
reads in one request (both since ZooKeeper 3.6), and the negotiated session timeout.

kazoo talks to ZooKeeper in a thread of its own. Its results are handed to the event loop in the
order in which they came, many at a time. This module and `kazoo_client`, which makes the clients,
are the only ones that use kazoo's private names.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.serialization import Watch as WatchEvent
from kazoo.protocol.states import ZnodeStat

from odradek.metadata.kazoo_client import LoggedInConnection, Troubles, make_client
from odradek.metadata.remembered_session import SessionKey
from odradek.metadata.zookeeper_security import OPEN, ZookeeperSecurity

_PERSISTENT_RECURSIVE: Final = 1
# The type of an error, and of the end, among the parts of a multi request.
_END: Final = -1
# kazoo's read timeout is two thirds of the negotiated session timeout.
_TIMEOUT_BY_READ_TIMEOUT: Final = 1.5


class AddWatch:
    """A request for notifications of every change at a path and below, while the connection lasts.
    It has the interface of kazoo's own requests."""

    type = 106

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + int_struct.pack(_PERSISTENT_RECURSIVE))

    def deserialize(self, buffer: bytes, offset: int) -> bool:
        return True


class ReadTogether:
    """A request that reads many nodes, or the children of many. A node that is missing is None
    among the results; other errors are among the results as exceptions."""

    type = 22

    def __init__(self, requests: Sequence[GetData | GetChildren]) -> None:
        self._requests = requests

    def serialize(self) -> bytes:
        parts = []
        for request in self._requests:
            parts += [multiheader_struct.pack(request.type, False, -1), bytes(request.serialize())]
        parts.append(multiheader_struct.pack(_END, True, -1))
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        for request in self._requests:
            kind, _, _ = multiheader_struct.unpack_from(buffer, offset)
            offset += multiheader_struct.size
            if kind == _END:
                (code,) = int_struct.unpack_from(buffer, offset)
                offset += int_struct.size
                results.append(None if code == NoNodeError.code else EXCEPTIONS[code]())
            elif request.type == GetData.type:
                value, offset = read_buffer(buffer, offset)
                stat = ZnodeStat._make(stat_struct.unpack_from(buffer, offset))
                offset += stat_struct.size
                results.append((value, stat))
            else:
                names, offset = _read_names(buffer, offset)
                results.append(names)
        return results


def _read_names(buffer: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = int_struct.unpack_from(buffer, offset)
    offset += int_struct.size
    names = []
    for _ in range(count):
        name, offset = read_string(buffer, offset)
        names.append(name)
    return names, offset


class WatchfulConnection(LoggedInConnection):
    """A connection that passes on every watch event, and knows the negotiated session timeout."""

    on_event: Callable[[str], None]
    agreed_timeout_ms: float = 0.0

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = WatchEvent.deserialize(buffer, offset)
        self.on_event(event.path)

    def _connect(self, *arguments: Any) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(*arguments)
        self.agreed_timeout_ms = read_timeout_ms * _TIMEOUT_BY_READ_TIMEOUT
        return read_timeout_ms, connect_timeout_ms


class KazooBridge:
    """One kazoo client, used from the event loop in which this object was made."""

    def __init__(
        self,
        hosts: str,
        timeout_s: float,
        *,
        on_state: Callable[[str], None],
        on_changes: Callable[[list[str]], None],
        security: ZookeeperSecurity = OPEN,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_state = on_state
        self._on_changes = on_changes
        # Filled in kazoo's threads, emptied in the event loop; a deque is thread-safe.
        self._arrived: deque[Callable[[], None]] = deque()
        self._changed: deque[str] = deque()
        self._is_coming = False
        self.troubles = Troubles()
        self.client = make_client(
            hosts,
            timeout_s,
            security,
            connection_class=WatchfulConnection,
            troubles=self.troubles,
        )
        self._connection: WatchfulConnection = self.client._connection
        self._connection.on_event = self._note_event
        self.client.add_listener(self._note_state)

    def start(self) -> None:
        self.client.start_async()

    def stop(self) -> None:
        """Ends the session; blocks."""
        self.client.stop()
        self.client.close()

    @property
    def session_id(self) -> int:
        key = self.session_key
        return 0 if key is None else key.session_id

    @property
    def session_key(self) -> SessionKey | None:
        client_id = self.client.client_id
        return SessionKey(*client_id) if client_id is not None and client_id[0] else None

    @property
    def agreed_timeout_s(self) -> float:
        return float(self._connection.agreed_timeout_ms) / 1000

    def watch_tree(self, path: str) -> asyncio.Future[Any]:
        return self._call(AddWatch(path))

    def read_nodes(self, paths: Sequence[str]) -> asyncio.Future[Any]:
        """Returns value and stat of each node, or None."""
        return self._call(ReadTogether([GetData(path, None) for path in paths]))

    def list_nodes(self, paths: Sequence[str]) -> asyncio.Future[Any]:
        """Returns the names of each node's children, or None."""
        return self._call(ReadTogether([GetChildren(path, None) for path in paths]))

    def _call(self, request: AddWatch | ReadTogether) -> asyncio.Future[Any]:
        result = self.client.handler.async_result()
        self.client._call(request, result)
        return self.awaited(result)

    def awaited(self, result: Any) -> asyncio.Future[Any]:
        """Returns a future of the event loop for a result of kazoo."""
        future = self._loop.create_future()
        result.rawlink(lambda done: self._hand_over(partial(_settle, future, done)))
        return future

    # In kazoo's threads

    def _note_event(self, path: str) -> None:
        self._changed.append(path)
        self._hand_over(self._deliver_changes)

    def _note_state(self, state: str) -> None:
        self._hand_over(partial(self._on_state, state))

    def _hand_over(self, call: Callable[[], None]) -> None:
        self._arrived.append(call)
        if not self._is_coming:
            self._is_coming = True
            with suppress(RuntimeError):  # The event loop is closed.
                self._loop.call_soon_threadsafe(self._deliver)

    # In the loop

    def _deliver(self) -> None:
        self._is_coming = False
        while self._arrived:
            self._arrived.popleft()()

    def _deliver_changes(self) -> None:
        paths = []
        while self._changed:
            paths.append(self._changed.popleft())
        if paths:
            self._on_changes(paths)


def end_session(
    hosts: str, timeout_s: float, key: SessionKey, security: ZookeeperSecurity = OPEN
) -> bool:
    """Resumes a session of another process and closes it; blocks. Returns whether the session is
    over. If it was over already, a new session was opened and closed."""
    client = make_client(hosts, timeout_s, security, client_id=tuple(key))
    try:
        client.start(timeout_s)
    except client.handler.timeout_exception:
        return False
    finally:
        client.stop()
        client.close()
    return True


def _settle(future: asyncio.Future[Any], done: Any) -> None:
    if future.done():
        return
    error = done.exception
    if error is None:
        future.set_result(done.get_nowait())
    else:
        future.set_exception(error)
