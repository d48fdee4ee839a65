"""The metadata store in a SQLite file: the default of a lone broker, and of `odradek up`.

One process owns the file. The tree is in memory, and the file is its durable copy: it is read once
when it is opened, and written before a change is visible. Changes that arrive during a commit are
written together in the next one. A worker thread waits for the disk, so that a slow disk delays
metadata and nothing else (figures in docs/decisions/0005-metadata-store.md).

The ephemeral nodes of a lone broker are never written, because its sessions end with its process.
Those of the metadata service are, with their sessions (`has_durable_sessions`): brokers outlive the
service, and resume their sessions when it is back.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from odradek.metadata.local import LocalSession
from odradek.metadata.store import (
    PERMANENT,
    MetadataError,
    Node,
    Operation,
    OutcomeUnknown,
    SessionExpired,
    StoreUnavailable,
)
from odradek.metadata.tree import Overlay, Tree
from odradek.world import World
from odradek.world.disk import make_private

_FORMAT = 1

_SCHEMA = (
    """create table if not exists node(
        path text primary key,
        value blob not null,
        version integer not null,
        created integer not null
    ) without rowid""",
    """create table if not exists store(
        one integer primary key check (one = 1),
        format integer not null,
        openings integer not null
    )""",
    """create table if not exists session(
        id integer primary key,
        secret text not null,
        timeout_ms integer not null
    )""",
    """create table if not exists ephemeral(
        path text primary key,
        value blob not null,
        version integer not null,
        created integer not null,
        owner integer not null
    ) without rowid""",
)


class DurableSession(NamedTuple):
    """A session that outlives the process of the service. Only its broker knows the secret."""

    secret: str
    timeout_ms: int


class _Waiting:
    """A multi that waits to be written."""

    __slots__ = ("operations", "session_id", "versions")

    def __init__(
        self, session_id: int, operations: Sequence[Operation], versions: asyncio.Future[list[int]]
    ) -> None:
        self.session_id = session_id
        self.operations = operations
        self.versions = versions


class SqliteMetadata:
    """The store itself; `connect` gives a broker its session."""

    def __init__(self, path: str, world: World, *, has_durable_sessions: bool = False) -> None:
        """Opens or creates the file; raises `StoreUnavailable` with the reason if it cannot."""
        self._path = path
        self._keeps_sessions = has_durable_sessions
        self._begun: dict[int, DurableSession] = {}
        self._ended: list[int] = []
        # Ended sessions that could not be written because the disk was full: the next change
        # writes them.
        self._ended_unwritten: list[int] = []
        self._world = world
        self._waiting: list[_Waiting] = []
        self._committing: asyncio.Task[None] | None = None
        self._failure: str | None = None
        try:
            self._database, nodes, openings, sessions = _open(path, has_durable_sessions)
        except sqlite3.Error as error:
            why = _why_not(error, path)
            raise StoreUnavailable(f"cannot open the metadata store {path}: {why}") from None
        # As in ZooKeeper, the high half counts openings, so that numbers rise without being stored.
        self.tree = Tree(nodes, transaction=openings << 32, sessions=sessions)
        self.found_sessions: Mapping[int, DurableSession] = sessions

    def connect(self) -> LocalSession:
        return LocalSession(self)

    def connect_durable(self, session: DurableSession) -> LocalSession:
        """Returns a new session, which is written with the first node that it creates."""
        connected = LocalSession(self)
        self._begun[connected.session_id] = session
        return connected

    def reconnect(self, session_id: int) -> LocalSession:
        """Resumes a session that was found in the file, or whose connection was closed."""
        return LocalSession(self, session_id)

    def end_session(self, session_id: int) -> None:
        self.tree.end_session(session_id)
        if self._keeps_sessions and self._failure is None:
            self._begun.pop(session_id, None)
            self._ended.append(session_id)
            self._start_committing()

    async def commit(self, session_id: int, operations: Sequence[Operation]) -> list[int]:
        if self._failure is not None:
            raise StoreUnavailable(self._failure)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(session_id, operations, loop.create_future())
        self._waiting.append(waiting)
        self._start_committing()
        return await waiting.versions

    def _start_committing(self) -> None:
        if self._committing is None:
            # A task of its own: the first caller may be cancelled while others wait.
            self._committing = asyncio.get_running_loop().create_task(self._commit_waiting())

    async def close(self) -> None:
        if self._committing is not None:
            await self._committing
        self._failure = f"the metadata store {self._path} is closed"
        self._database.close()

    async def _commit_waiting(self) -> None:
        try:
            while self._waiting or self._ended:
                batch, self._waiting = self._waiting, []
                try:
                    await self._commit_batch(batch)
                finally:
                    # No caller waits for ever, even if the event loop is being closed.
                    for waiting in batch:
                        _fail(waiting, OutcomeUnknown())
        finally:
            self._committing = None

    async def _commit_batch(self, batch: list[_Waiting]) -> None:
        together = Overlay(self.tree)
        planned: list[tuple[_Waiting, list[int]]] = []
        for waiting in batch:
            if not self.tree.is_alive(waiting.session_id):
                _fail(waiting, SessionExpired())
                continue
            overlay = Overlay(together)
            try:
                versions = await overlay.plan_in_turns(
                    waiting.session_id, waiting.operations, self.tree.transaction + 1
                )
            except MetadataError as metadata_error:
                _fail(waiting, metadata_error)
                continue
            self.tree.transaction += 1
            together.absorb(overlay)
            planned.append((waiting, versions))
        try:
            await self._write(together.changes)
        except _DiskFull as error:
            for waiting, _ in planned:
                _fail(waiting, StoreUnavailable(f"the disk of {self._path} is full: {error}"))
            return
        except (sqlite3.Error, RuntimeError) as error:
            # An executor that was shut down raises RuntimeError.
            self._give_up(error, [waiting for waiting, _ in planned])
            return
        self.tree.apply(together.changes)
        for waiting, versions in planned:
            if not waiting.versions.done():
                waiting.versions.set_result(versions)

    async def _write(self, changes: dict[str, Node | None]) -> None:
        rows = _Rows()
        for path, node in changes.items():
            rows.gone.append((path,))
            if node is None:
                continue
            if node.owner == PERMANENT:
                rows.nodes.append((path, node.value, node.version, node.created))
            elif self._keeps_sessions:
                rows.ephemeral.append((path, *node))
                begun = self._begun.pop(node.owner, None)
                if begun is not None:
                    rows.sessions.append((node.owner, *begun))
        # A session that ends during the write is written with the next one.
        ended, self._ended, self._ended_unwritten = self._ended_unwritten + self._ended, [], []
        rows.ended = [(session_id,) for session_id in ended]
        # A registration is not written unless sessions are durable.
        if rows.nodes or rows.ephemeral or rows.ended or any(n is None for n in changes.values()):
            try:
                await self._world.workers.run_blocking(lambda: _store(self._database, rows))
            except _DiskFull:
                # Nothing was written: sessions are written with the next change.
                for session_id, secret, timeout_ms in rows.sessions:
                    self._begun[session_id] = DurableSession(secret, timeout_ms)
                self._ended_unwritten += ended
                raise

    def _give_up(self, error: Exception, planned: list[_Waiting]) -> None:
        """Fails for good: after a failed write it is not known what the file holds until it is
        opened again."""
        self._failure = f"the metadata store {self._path} failed: {error}"
        for waiting in planned:
            _fail(waiting, OutcomeUnknown())
        for waiting in self._waiting:
            _fail(waiting, StoreUnavailable(self._failure))
        self._waiting.clear()
        self._ended.clear()


def _fail(waiting: _Waiting, error: MetadataError) -> None:
    if not waiting.versions.done():
        waiting.versions.set_exception(error)


class _Rows:
    """The rows that one commit deletes and inserts, in this order."""

    __slots__ = ("ended", "ephemeral", "gone", "nodes", "sessions")

    def __init__(self) -> None:
        self.gone: list[tuple[str]] = []
        self.nodes: list[tuple[str, bytes, int, int]] = []
        self.ephemeral: list[tuple[str, bytes, int, int, int]] = []
        self.sessions: list[tuple[int, str, int]] = []
        self.ended: list[tuple[int]] = []


def _why_not(error: sqlite3.Error, path: str) -> str:
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_BUSY:
        return "another process is using it"
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        directory = path.rpartition("/")[0] or "."
        return f"{error}; check that the user of this process may write to {directory}"
    return str(error)


_Content = tuple[dict[str, Node], int, dict[int, DurableSession]]


def _open(
    path: str, has_durable_sessions: bool
) -> tuple[sqlite3.Connection, dict[str, Node], int, dict[int, DurableSession]]:
    """Returns the database, its nodes, how often it has been opened, and its sessions."""
    # Private, because it holds credentials of users. SQLite gives its other files the same
    # permissions, and reports itself why it cannot open the file.
    with suppress(OSError):
        make_private(path)
    # Commits run in worker threads, one at a time, so the connection may be used by any thread.
    database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("pragma locking_mode = exclusive")
        database.execute("pragma journal_mode = wal")
        # A commit returns when the write-ahead log is on the disk: it survives a power cut.
        database.execute("pragma synchronous = full")
        return database, *_load(database, has_durable_sessions)
    except sqlite3.Error:
        database.close()
        raise


def _load(database: sqlite3.Connection, has_durable_sessions: bool) -> _Content:
    # One transaction, so that a new store costs one disk write and not three.
    database.execute("begin immediate")
    for statement in _SCHEMA:
        database.execute(statement)
    database.execute(
        "insert into store values (1, ?, 1) on conflict do update set openings = openings + 1",
        (_FORMAT,),
    )
    found, openings = database.execute("select format, openings from store").fetchone()
    if found != _FORMAT:
        raise sqlite3.DatabaseError(f"its format is {found}; this version reads {_FORMAT}")
    if not has_durable_sessions:
        database.execute("delete from ephemeral")
        database.execute("delete from session")
    rows = database.execute("select path, value, version, created from node order by path")
    nodes = {path: Node(value, version, created) for path, value, version, created in rows}
    for path, *node in database.execute(
        "select path, value, version, created, owner from ephemeral"
    ):
        nodes[path] = Node(*node)
    sessions = {
        session_id: DurableSession(secret, timeout_ms)
        for session_id, secret, timeout_ms in database.execute(
            "select id, secret, timeout_ms from session"
        )
    }
    database.execute("commit")
    return nodes, openings, sessions


class _DiskFull(Exception):
    """The disk is full, and nothing was written."""


def _store(database: sqlite3.Connection, rows: _Rows) -> None:
    try:
        _store_rows(database, rows)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        if database.in_transaction:
            database.execute("rollback")
        raise _DiskFull(str(error)) from error


def _store_rows(database: sqlite3.Connection, rows: _Rows) -> None:
    database.execute("begin immediate")
    database.executemany("delete from node where path = ?", rows.gone)
    database.executemany("delete from ephemeral where path = ?", rows.gone)
    database.executemany("insert into node values (?, ?, ?, ?)", rows.nodes)
    database.executemany("insert into ephemeral values (?, ?, ?, ?, ?)", rows.ephemeral)
    database.executemany("insert into session values (?, ?, ?)", rows.sessions)
    database.executemany("delete from ephemeral where owner = ?", rows.ended)
    database.executemany("delete from session where id = ?", rows.ended)
    database.execute("commit")
