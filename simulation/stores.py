"""The metadata stores of a simulated cluster, and the connection of each broker to its store.

    MemoryStore     in memory, with the faults of an ensemble (`odradek.metadata.memory`)
    SocketStore     SQLite behind the socket service, which has a host of its own
    LoneStore       SQLite inside a lone broker

SQLite keeps its files in a real temporary directory, which a run makes and removes. Nothing of it
reaches the trace: what the files hold is decided by the seed, and their names are not logged.
"""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, cast

from odradek.metadata.local import LocalSession
from odradek.metadata.memory import MemoryMetadata, MemorySession, StoreFaults
from odradek.metadata.remote import SocketMetadata
from odradek.metadata.remote import SocketStore as RemoteSession
from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store import Metadata
from odradek.metadata.tree import Tree
from odradek.world import World
from simulation.world import Simulation

STORE_SERVICE: Final = "keeper"
_PORT: Final = 2181
SESSION_TIMEOUT_MS: Final = 6_000


class StoreConnection(Protocol):
    """The connection of one broker to its store. It outlives the broker's processes."""

    # False for a Unix socket: a local connection cannot be cut.
    can_be_cut: bool

    @property
    def session_id(self) -> int | None:
        """The session of the process that runs now, if it has one."""

    def open(self, world: World) -> Metadata:
        """Returns the store as a process that starts is given it."""

    def cut(self) -> None: ...

    def reconnect(self) -> None: ...

    def slow(self, delay_s: float) -> None:
        """Delays every write of this broker, where the store allows it."""

    def pause(self) -> None:
        """The process is stopped, and silent to the store."""

    def expire(self) -> None:
        """The store ends the session while the broker runs."""

    def died(self, *, is_noticed: bool = True) -> None:
        """The process is dead. The store notices at once, or after the session timeout."""


class Store(Protocol):
    def connection(self, broker: str) -> StoreConnection: ...

    def listen(self, to: Callable[[Tree], None]) -> None:
        """Calls back with the tree, now and whenever another one takes its place."""


# In memory


class _SlowFaults:
    """The faults of a store, and an additional delay for one broker."""

    def __init__(self, of_all: StoreFaults) -> None:
        self._of_all = of_all
        self.delay_s = 0.0

    def operation_delay_s(self) -> float:
        return self._of_all.operation_delay_s() + self.delay_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_all, name)


class MemoryStoreConnection(MemoryMetadata):
    """Remembers the sessions of the broker it was made for."""

    can_be_cut = True

    def __init__(self, store: MemoryMetadata) -> None:
        self._slowness = _SlowFaults(store.faults)
        super().__init__(
            cast("StoreFaults", self._slowness),
            session_timeout_ms=round(store.session_timeout_s * 1000),
        )
        self.tree = store.tree
        self._sessions: list[MemorySession] = []

    def slow(self, delay_s: float) -> None:
        self._slowness.delay_s = delay_s

    def open(self, world: World) -> Metadata:
        return self

    def connect(self) -> MemorySession:
        session = super().connect()
        self._sessions.append(session)
        return session

    @property
    def session_id(self) -> int | None:
        return self._sessions[-1].session_id if self._sessions else None

    def cut(self) -> None:
        for session in self._sessions:
            session.cut()

    pause = cut

    def reconnect(self) -> None:
        for session in self._sessions:
            session.reconnect()

    def expire(self) -> None:
        if self._sessions:
            self._sessions[-1].expire()

    def died(self, *, is_noticed: bool = True) -> None:
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.crash(is_noticed=is_noticed)


class MemoryStore:
    def __init__(self, metadata: MemoryMetadata) -> None:
        self._metadata = metadata

    def connection(self, broker: str) -> StoreConnection:
        return MemoryStoreConnection(self._metadata)

    def listen(self, to: Callable[[Tree], None]) -> None:
        to(self._metadata.tree)


# SQLite behind the socket service


class _Service(MetadataService):
    async def _listen(self, connect: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(connect, STORE_SERVICE, _PORT)


class _Session(RemoteSession):
    async def _open_connection(self, line: asyncio.Protocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: line, STORE_SERVICE, _PORT)


class SocketStoreConnection:
    can_be_cut = False

    def __init__(self, simulation: Simulation, broker: str) -> None:
        self._network = simulation.network
        self._broker = broker
        self._metadata: _Sockets | None = None

    def open(self, world: World) -> Metadata:
        self._metadata = _Sockets(STORE_SERVICE, world, session_timeout_ms=SESSION_TIMEOUT_MS)
        return self._metadata

    @property
    def session_id(self) -> int | None:
        return None if self._metadata is None else self._metadata.session_id

    def cut(self) -> None:
        raise NotImplementedError

    def reconnect(self) -> None:
        """Nothing was cut."""

    def slow(self, delay_s: float) -> None:
        """What is written to a Unix socket is there at once."""

    def pause(self) -> None:
        """A stopped process is silent, and its connection stays open."""

    def expire(self) -> None:
        """The end of its connection ends a session."""
        self._network.reset(self._broker, STORE_SERVICE)

    def died(self, *, is_noticed: bool = True) -> None:
        """The service sees the end of the connection, as it would the end of any process."""
        self._metadata = None


class _Sockets(SocketMetadata):
    def connect(self) -> _Session:
        session = _Session(self._path, self._world, self._timeout_ms)
        self._stores.append(session)
        return session

    @property
    def session_id(self) -> int | None:
        return self._stores[-1].session_id if self._stores else None


class _OwnDirectory:
    """A real directory for SQLite's file. It goes with its owner at the latest: a run that fails
    does not get as far as `remove`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="odradek-simulation-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class SocketStore:
    """The socket service on a host of its own. It can be killed and restarted; its file stays."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._host = simulation.host(STORE_SERVICE)
        self._directory = _OwnDirectory()
        self._database: SqliteMetadata | None = None
        self._on_tree: Callable[[Tree], None] = lambda tree: None
        self.starts = 0

    def connection(self, broker: str) -> StoreConnection:
        return SocketStoreConnection(self._simulation, broker)

    def listen(self, to: Callable[[Tree], None]) -> None:
        self._on_tree = to

    def start(self) -> None:
        if not self._host.processes:
            self.starts += 1
            self._host.start(self._serve, f"{STORE_SERVICE}#{self.starts}")

    async def _serve(self, world: World) -> None:
        path = str(self._directory.path / "metadata.sqlite")
        self._database = SqliteMetadata(path, world, has_durable_sessions=True)
        self._on_tree(self._database.tree)
        service = _Service(self._database, STORE_SERVICE, world.randomness)
        await service.start()
        await asyncio.get_running_loop().create_future()

    def kill(self) -> None:
        """What was not committed is rolled back, as when a process dies."""
        self._host.kill()
        close_database(self._database)
        self._database = None

    def pause(self) -> None:
        self._host.stop()

    def resume(self) -> None:
        self._host.resume()

    def end(self) -> None:
        self.kill()
        self._directory.remove()


# SQLite inside a lone broker


class _LoneDatabase(SqliteMetadata):
    last_session_id: int | None = None

    def connect(self) -> LocalSession:
        session = super().connect()
        self.last_session_id = session.session_id
        return session


class LoneStore:
    """The file of a broker that has its store in its own process. `lose` removes the file."""

    can_be_cut = False

    def __init__(self) -> None:
        self._directory = _OwnDirectory()
        self._database: _LoneDatabase | None = None
        self._on_tree: Callable[[Tree], None] = lambda tree: None

    def connection(self, broker: str) -> StoreConnection:
        return cast("StoreConnection", self)

    def listen(self, to: Callable[[Tree], None]) -> None:
        self._on_tree = to

    def open(self, world: World) -> Metadata:
        path = str(self._directory.path / "metadata.sqlite")
        self._database = _LoneDatabase(path, world)
        self._on_tree(self._database.tree)
        return self._database

    @property
    def session_id(self) -> int | None:
        return None if self._database is None else self._database.last_session_id

    def cut(self) -> None:
        """There is no connection that could be cut."""

    reconnect = pause = expire = cut

    def slow(self, delay_s: float) -> None:
        """The store is in the same process."""

    def died(self, *, is_noticed: bool = True) -> None:
        close_database(self._database)
        self._database = None

    def lose(self) -> None:
        """For a broker that does not run."""
        self.died()
        for file in self._directory.path.iterdir():
            file.unlink()

    def end(self) -> None:
        self.died()
        self._directory.remove()


def close_database(database: SqliteMetadata | None) -> None:
    if database is not None:
        database._database.close()
