"""The metadata store in a ZooKeeper ensemble, with Kafka's paths below an optional chroot.

A broker sees its own changes at once, and is notified of those of others by one watch of the whole
tree. After every reconnection the watch is set again, and the server catches up with its leader,
before the broker reads: so it can read back whether a change whose outcome was unknown was carried
out. ZooKeeper 3.6 or later is needed.

The broker knows by its own monotonic clock whether its session is alive. A server that has answered
a request tells the leader within a tick that the session is alive. So the broker takes its
session as alive for two thirds of its timeout after it sent the last request that was answered.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo import exceptions as kazoo

from odradek.metadata.current_session import CurrentSession
from odradek.metadata.kazoo_bridge import KazooBridge, end_session
from odradek.metadata.remembered_session import RememberedSession
from odradek.metadata.session_life import SessionLife
from odradek.metadata.store import (
    ANY_VERSION,
    EVERYTHING,
    BadVersion,
    ChangeTooBig,
    Check,
    Create,
    Delete,
    InvalidPath,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    Set,
    StoreUnavailable,
    Watch,
)
from odradek.metadata.tree import check_path, parent_of
from odradek.metadata.watches import PathWatch, Watches
from odradek.metadata.zookeeper_acls import acl_of
from odradek.metadata.zookeeper_security import HOW_TO_LOG_IN, OPEN, ZookeeperSecurity
from odradek.world import World

logger = logging.getLogger("odradek.metadata")

_HEARTBEATS_PER_TIMEOUT: Final = 6
_CERTAIN: Final = 2 / 3
# ZooKeeper's jute.maxbuffer is 1 MiB by default; it closes the connection of a larger request.
_MAX_BYTES: Final = 1_000_000
_BYTES_PER_OPERATION: Final = 64
_READS_TOGETHER: Final = 100
# A broker that starts logs what it waits for after this time.
_LOGGED_AFTER_S: Final = 1.5
_WANTS_LOG_IN: Final = (
    kazoo.AuthFailedError,
    kazoo.NoAuthError,
    kazoo.SessionClosedRequireSaslError,
)
# ZooKeeper's own nodes, which the broker sees if there is no chroot.
_ITS_OWN: Final = "/zookeeper"


class ZookeeperMetadata:
    """The address of the ensemble, as in `host:2181,other:2181/chroot`."""

    def __init__(
        self,
        address: str,
        world: World,
        *,
        session_timeout_ms: int = 6_000,
        connection_timeout_ms: int | None = None,
        remembered: RememberedSession | None = None,
        security: ZookeeperSecurity = OPEN,
    ) -> None:
        """`remembered` stores the session in the directory of the broker that connects here.
        `connection_timeout_ms` is how long the first connection may take; by default it is the
        session timeout."""
        self._address = address
        self._world = world
        self._timeout_ms = session_timeout_ms
        self._patience_ms = connection_timeout_ms or session_timeout_ms
        self._remembered = remembered
        self._security = security
        self._stores: list[ZookeeperStore] = []

    def connect(self) -> "ZookeeperStore":
        store = ZookeeperStore(
            self._address,
            self._world,
            self._timeout_ms,
            self._remembered,
            patience_ms=self._patience_ms,
            security=self._security,
        )
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._stores.clear()


class ZookeeperStore:
    """A `MetadataStore`. It is made in a running event loop, in which its tasks run until
    `close`."""

    def __init__(
        self,
        address: str,
        world: World,
        timeout_ms: int,
        remembered: RememberedSession | None = None,
        *,
        patience_ms: int | None = None,
        security: ZookeeperSecurity = OPEN,
    ) -> None:
        hosts, _, chroot = address.partition("/")
        self._hosts = hosts
        self._chroot = "/" + chroot.strip("/") if chroot.strip("/") else ""
        self._world = world
        self._timeout_s = timeout_ms / 1000
        self._patience_s = (patience_ms or timeout_ms) / 1000
        self._remembered = remembered
        self._security = security
        self._noted_session = 0
        self._session = CurrentSession()
        self._watches = Watches()
        self._life = SessionLife()
        self._is_available = False
        self._was_available = asyncio.Event()
        self._failure = f"no ZooKeeper answers at {hosts}; start one, or mend zookeeper.connect"
        self._preparing: asyncio.Task[None] | None = None
        self._has_logged_waiting = False
        self._zookeeper = KazooBridge(
            hosts,
            self._timeout_s,
            on_state=self._note_state,
            on_changes=self._note_changes,
            security=security,
        )
        self._zookeeper.start()
        self._heartbeats = asyncio.get_running_loop().create_task(self._send_heartbeats())

    # Sessions

    @property
    def session_id(self) -> int:
        return self._session.session_id

    async def next_session(self, previous: int = 0) -> int:
        return await self._session.after(previous)

    @property
    def session_timeout_s(self) -> float:
        return self._zookeeper.agreed_timeout_s or self._timeout_s

    def may_be_outdated(self) -> bool:
        return (
            self._session.closed or self._world.clock.monotonic_s() >= self._life.informed_until_s
        )

    @property
    def resumptions(self) -> int:
        return self._life.resumptions

    def note_all_read(self, resumption: int) -> None:
        self._life.note_all_read(resumption)

    async def end_session(self, session_id: int) -> bool:
        key = None if self._remembered is None else self._remembered.read()
        if key is None or key.session_id != session_id:
            return False
        await self._require_connection()
        end = partial(end_session, self._hosts, self._timeout_s, key, self._security)
        return await self._world.workers.run_blocking(end)

    async def _remember_session(self) -> None:
        key = self._zookeeper.session_key
        if self._remembered is not None and key is not None:
            await self._world.workers.run_blocking(partial(self._remembered.save, key))
            self._noted_session = key.session_id

    # Reading

    async def read(self, path: str) -> Node | None:
        await self._require_connection()
        ((node, _),) = await self._read_nodes([path])
        return node

    async def read_each(self, paths: Sequence[str]) -> list[Node | None]:
        await self._require_connection()
        return [node for node, _ in await self._read_nodes(paths)]

    async def children(self, path: str) -> list[str]:
        await self._require_connection()
        (names,) = await self._list_nodes([path])
        return names

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        await self._require_connection()
        nodes: dict[str, Node] = {}
        level = [prefix]
        while level:
            parents = []
            for path, (node, children) in zip(level, await self._read_nodes(level), strict=True):
                if node is not None:
                    nodes[path] = node
                    if children:
                        parents.append(path)
            level = [
                f"{parent.rstrip('/')}/{name}"
                for parent, names in zip(parents, await self._list_nodes(parents), strict=True)
                for name in names
            ]
        return nodes

    async def _read_nodes(self, paths: Sequence[str]) -> list[tuple[Node | None, int]]:
        """Returns each node, and how many children it has."""
        return [
            (None, 0)
            if node is None
            else (
                Node(node[0], node[1].version, node[1].czxid, node[1].ephemeralOwner),
                node[1].numChildren,
            )
            for node in await self._in_batches(self._zookeeper.read_nodes, paths)
        ]

    async def _list_nodes(self, paths: Sequence[str]) -> list[list[str]]:
        listed = []
        for path, names in zip(
            paths, await self._in_batches(self._zookeeper.list_nodes, paths), strict=True
        ):
            is_root = path == "/" and not self._chroot
            listed.append(
                sorted(name for name in names or () if not is_root or "/" + name != _ITS_OWN)
            )
        return listed

    async def _in_batches(
        self, ask: Callable[[Sequence[str]], asyncio.Future[Any]], paths: Sequence[str]
    ) -> list[Any]:
        places = [self._at(path) for path in paths]
        answers = await asyncio.gather(
            *(
                self._answer(ask(places[start : start + _READS_TOGETHER]))
                for start in range(0, len(places), _READS_TOGETHER)
            )
        )
        results = [result for answer in answers for result in answer]
        for result in results:
            if isinstance(result, Exception):
                raise StoreUnavailable(f"ZooKeeper at {self._hosts} refuses to be read: {result!r}")
        return results

    async def _answer(self, answer: asyncio.Future[Any]) -> Any:
        """Returns the result of a read; errors of the connection become `StoreUnavailable`."""
        try:
            return await answer
        except (
            kazoo.ConnectionLoss,
            kazoo.ConnectionClosedError,
            kazoo.SessionExpiredError,
            kazoo.OperationTimeoutError,
        ):
            self._session.require_open()
            raise StoreUnavailable(self._lost()) from None

    # Changing

    async def multi(self, *operations: Operation) -> list[int]:
        await self._require_connection()
        _check_before_sending(operations)
        if not operations:
            return []
        if self._noted_session != self.session_id and any(
            isinstance(operation, Create) and operation.ephemeral for operation in operations
        ):
            await self._remember_session()
        transaction = self._zookeeper.client.transaction()
        for operation in operations:
            path = self._at(operation.path)
            match operation:
                case Create(_, value, ephemeral):
                    acl = acl_of(operation.path, self._security.sets_acls)
                    transaction.create(path, value, acl=acl, ephemeral=ephemeral)
                case Set(_, value, version):
                    transaction.set_data(path, value, version)
                case Delete(_, version):
                    transaction.delete(path, version)
                case Check(_, version):
                    transaction.check(path, version)
        try:
            results = await self._zookeeper.awaited(transaction.commit_async())
        except kazoo.ZookeeperError:
            # Refusals come as results; an error is about the connection or the session.
            raise OutcomeUnknown from None
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, kazoo.NoAuthError | kazoo.InvalidACLError):
                raise StoreUnavailable(self._not_allowed(self._at(operation.path)))
        return _versions(operations, results)

    def watch(self) -> Watch:
        self._session.require_open()
        return self._watches.add(PathWatch())

    async def close(self) -> None:
        if self._session.closed:
            return
        self._session.close()
        self._watches.expire()
        self._was_available.set()
        tasks = [task for task in (self._heartbeats, self._preparing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._world.workers.run_blocking(self._zookeeper.stop)
        if self._remembered is not None and self._is_available:
            self._remembered.forget()

    # The connection

    async def _require_connection(self) -> None:
        self._session.require_open()
        if not self._was_available.is_set():
            # Waits only the first time: an ensemble may start together with its brokers.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await self._wait_and_log()
        self._session.require_open()
        if not self._is_available:
            raise StoreUnavailable(self._zookeeper.troubles.newest or self._failure)

    async def _wait_and_log(self) -> None:
        """Waits until ZooKeeper answers, and logs that it waits if that takes long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOGGED_AFTER_S):
                await self._was_available.wait()
                return
        if not self._has_logged_waiting:
            self._has_logged_waiting = True
            logger.warning(
                "waiting for ZooKeeper at %s, for %.0f s at most (zookeeper.connection.timeout.ms)",
                self._hosts,
                self._patience_s,
            )
        await self._was_available.wait()

    def _note_state(self, state: str) -> None:
        if self._session.closed:
            return
        self._is_available = False
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        if state == "CONNECTED":
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
            return
        logger.warning("lost the connection to ZooKeeper at %s", self._hosts)
        self._failure = self._lost()
        self._session.lose()
        if state == "LOST":
            self._life.end()

    async def _prepare(self) -> None:
        """Sets the watch and catches up, before a new connection is used. If the connection is lost
        meanwhile, kazoo reports a new state."""
        zookeeper, client = self._zookeeper, self._zookeeper.client
        root = self._at("/")
        sent_s = self._world.clock.monotonic_s()
        try:
            if self._chroot:
                acl = acl_of("/", self._security.sets_acls)
                await self._answer(zookeeper.awaited(client.ensure_path_async(root, acl)))
            await zookeeper.watch_tree(root)
            await self._answer(zookeeper.awaited(client.sync_async(root)))
        except kazoo.UnimplementedError:
            self._failure = f"ZooKeeper at {self._hosts} is older than 3.6; a later one is needed"
            logger.error(self._failure)
            return
        except StoreUnavailable:
            return
        except kazoo.ZookeeperError as error:
            self._failure = f"ZooKeeper at {self._hosts} cannot be used: {error!r}"
            if isinstance(error, _WANTS_LOG_IN):
                self._failure = f"ZooKeeper at {self._hosts} wants a log-in: {HOW_TO_LOG_IN}"
            self._zookeeper.troubles.note(self._failure)
            return
        self._life.connect(is_resumed=zookeeper.session_id == self.session_id)
        self._note_answer(sent_s)
        self._zookeeper.troubles.newest = ""
        self._is_available = True
        self._session.begin(zookeeper.session_id)
        self._watches.add_changes([EVERYTHING])
        self._was_available.set()

    async def _send_heartbeats(self) -> None:
        """Sends a small request regularly, to know that the session is alive."""
        while True:
            await asyncio.sleep(self._certain_s() / _CERTAIN / _HEARTBEATS_PER_TIMEOUT)
            if self._is_available:
                sent_s = self._world.clock.monotonic_s()
                with suppress(StoreUnavailable):
                    await self._read_nodes(["/"])
                    # kazoo's thread may have begun a new session before this event loop was told
                    # that the last one expired. The answer says nothing about the last session.
                    if self._is_available:
                        self._note_answer(sent_s)

    def _note_answer(self, sent_s: float) -> None:
        self._life.prolong(sent_s + self._certain_s())

    def _certain_s(self) -> float:
        return self.session_timeout_s * _CERTAIN

    def _note_changes(self, paths: Iterable[str]) -> None:
        start = len(self._chroot)
        self._watches.add_changes(
            path[start:] or "/" for path in paths if start or not path.startswith(_ITS_OWN)
        )

    def _not_allowed(self, path: str) -> str:
        return (
            f"ZooKeeper at {self._hosts} does not allow this broker to change {path}: its nodes"
            " belong to another user; log in as that one, or give them to this one with"
            " `odradek zookeeper-security-migration`"
        )

    def _lost(self) -> str:
        return f"the connection to ZooKeeper at {self._hosts} is lost"

    def _at(self, path: str) -> str:
        return self._chroot + path if path != "/" else self._chroot or "/"


def _check_before_sending(operations: Iterable[Operation]) -> None:
    size = 0
    for operation in operations:
        path = operation.path
        if path == "/" and isinstance(operation, Delete):
            raise InvalidPath(path, ": the root stays")
        if isinstance(operation, Create):
            check_path(path)
        size += len(path) + len(getattr(operation, "value", b"")) + _BYTES_PER_OPERATION
    if size > _MAX_BYTES:
        raise ChangeTooBig(
            f"a change of {size} bytes is more than ZooKeeper takes at once; make it in parts"
        )


def _versions(operations: Iterable[Operation], results: list[Any]) -> list[int]:
    versions = []
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, Exception):
            error = _operation_error(operation, result)
            if error is not None:
                raise error
        versions.append(
            0
            if isinstance(operation, Create)
            else getattr(result, "version", ANY_VERSION)
            if isinstance(operation, Set)
            else ANY_VERSION
        )
    return versions


_ERROR_TYPES: Final[dict[type[Exception], type[OperationFailed]]] = {
    kazoo.NodeExistsError: NodeExists,
    kazoo.NoNodeError: NoNode,
    kazoo.BadVersionError: BadVersion,
    kazoo.NotEmptyError: NotEmpty,
    kazoo.NoChildrenForEphemeralsError: InvalidPath,
    kazoo.BadArgumentsError: InvalidPath,
}


def _operation_error(
    operation: Operation, error: Exception
) -> OperationFailed | OutcomeUnknown | None:
    """Returns the error of one operation; None if it was only rolled back with another one."""
    path = operation.path
    if isinstance(error, kazoo.RolledBackError | kazoo.RuntimeInconsistency):
        return None
    if isinstance(error, kazoo.NoNodeError) and isinstance(operation, Create):
        return NoNode(parent_of(path), f", so {path} cannot be made")
    error_type = _ERROR_TYPES.get(type(error))
    return OutcomeUnknown() if error_type is None else error_type(path)
