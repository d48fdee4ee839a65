"""The interface of the metadata store: a small tree of versioned nodes.

It promises what ZooKeeper promises and no more. Versions order the changes of one node. The
operations of a multi are all carried out or none is. Ephemeral nodes are deleted with the session
that created them. Notifications may be late, and several changes may be notified as one. After a
lost connection it is not known whether a change was carried out: the caller reads back before it
tries again.

Exceptions:

    MetadataError
    ├── OperationFailed            nothing was changed
    │   ├── NodeExists     Create: the path is taken
    │   ├── NoNode         the node, or the parent of a new one, is missing
    │   ├── BadVersion     the node has another version than expected
    │   ├── NotEmpty       Delete: there are nodes below
    │   └── InvalidPath    the path is malformed, or its parent is ephemeral
    ├── SessionExpired     this store was closed
    ├── OutcomeUnknown     the change may have been carried out, or not
    └── StoreUnavailable   nothing was changed: the store cannot be reached or opened, or failed
        └── ChangeTooBig   the store takes less at a time: the change must be made in parts

A `MetadataStore` outlives its sessions. When a session has expired, its ephemeral nodes are
deleted, the next session begins by itself as soon as possible, and `next_session` returns.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
PERMANENT: Final = 0
"""The owner of a node that outlives the session that created it."""
EVERYTHING: Final = "/"
"""In a notification: any node may have changed."""


class MetadataError(Exception):
    pass


class OperationFailed(MetadataError):
    reason = "refused"

    def __init__(self, path: str, detail: str = "") -> None:
        self.path = path
        super().__init__(f"{path}: {self.reason}{detail}")


class NodeExists(OperationFailed):
    reason = "the node exists already"


class NoNode(OperationFailed):
    reason = "there is no such node"


class BadVersion(OperationFailed):
    reason = "the node has another version"


class NotEmpty(OperationFailed):
    reason = "there are nodes below it"


class InvalidPath(OperationFailed):
    reason = "no node can have this path"


class SessionExpired(MetadataError):
    def __init__(self) -> None:
        super().__init__("the session with the metadata store is over")


class OutcomeUnknown(MetadataError):
    def __init__(self) -> None:
        super().__init__("the connection was lost before the metadata store answered")


class StoreUnavailable(MetadataError):
    pass


class ChangeTooBig(StoreUnavailable):
    pass


class Node(NamedTuple):
    """A node as it was read. `created` is the number of the change that created it. It rises across
    the whole store, so a node that was deleted and created again can be told from its predecessor.
    """

    value: bytes
    version: int
    created: int
    owner: int = PERMANENT


class Create(NamedTuple):
    """Creates a node with version 0. Its parent must exist and not be ephemeral."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    """Replaces a node's value and increments its version."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing, but lets the multi fail unless the node has this version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check


class Watch(Protocol):
    """Collects the paths of nodes that change."""

    async def next(self) -> list[str]:
        """Waits for changes and returns the paths of nodes that were created, set or deleted, each
        once. `EVERYTHING` among them means that some may be missing, which is so after the
        connection was lost.

        Raises `SessionExpired` once the store is closed."""
        ...

    def pending(self) -> list[str]:
        """Returns the same without waiting; the list may be empty."""
        ...

    def close(self) -> None: ...


class Metadata(Protocol):
    """A store that brokers connect to."""

    def connect(self) -> "MetadataStore": ...

    async def close(self) -> None: ...


class MetadataStore(Protocol):
    """A broker's connection to the store, in one session after the other.

    While the store cannot be reached, every call raises `StoreUnavailable`, or `OutcomeUnknown` if
    a change was already sent."""

    @property
    def session_id(self) -> int:
        """The present session, or the last one; 0 before the first."""
        ...

    async def next_session(self, previous: int = 0) -> int:
        """Waits until a session other than `previous` is open. The broker has to create its
        ephemeral nodes again.

        Raises `SessionExpired` once the store is closed."""
        ...

    async def end_session(self, session_id: int) -> bool:
        """Ends the session of this broker's previous run, if the store would otherwise wait for its
        timeout. The caller knows that the process is gone. Returns whether the session ended."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """How long a session lives in the store after the last sign of life, at least."""
        ...

    def may_be_outdated(self) -> bool:
        """Returns whether the session may have expired, by this machine's monotonic clock, or this
        broker may have missed a change for as long as that. If it returns False the session is
        certainly alive. It is cheap enough for every request."""
        ...

    @property
    def resumptions(self) -> int:
        """How often the connection was lost and opened again in the same session. What changed
        meanwhile was not notified; the watches report `EVERYTHING`."""
        ...

    def note_all_read(self, resumption: int) -> None:
        """The broker has read all nodes and acts on them. `resumption` is what `resumptions` was
        before it read. Until then the new connection does not show that the broker is up to date
        (`session_life`)."""
        ...

    async def read(self, path: str) -> Node | None: ...

    async def read_each(self, paths: Sequence[str]) -> list[Node | None]:
        """Reads many nodes in one request. They may have been read at different moments."""
        ...

    async def children(self, path: str) -> list[str]:
        """Returns the names of a node's children, sorted; empty if there is no such node."""
        ...

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        """Returns a node and all nodes below it by path, parents first; empty if there is no such
        node. They may have been read at different moments."""
        ...

    async def multi(self, *operations: Operation) -> list[int]:
        """Carries out all operations in order, or none and raises. When it returns, the change is
        durable and visible to this session's reads; notifications may come later.

        Returns the new version of each node that was created or set, and `ANY_VERSION` for the
        other operations."""
        ...

    def watch(self) -> Watch:
        """Watches changes from now on, in this session and in those that follow it."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes are deleted at once."""
        ...
