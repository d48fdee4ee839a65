"""What the cluster agrees on: a small tree of versioned nodes, as every implementation offers it.

It promises what ZooKeeper promises and no more. Versions order the changes of one node.
Several operations happen together or not at all. Ephemeral nodes go with the session that
made them. Notifications may be late, and several changes may arrive as one. After a lost
connection nobody knows whether a change happened: read back before trying again.

Exceptions:

    MetadataError
    ├── OperationFailed            the answer is certain: nothing changed
    │   ├── NodeExists     Create: the path is taken
    │   ├── NoNode         the node, or the parent of a new one, is missing
    │   ├── BadVersion     the node has another version than expected
    │   ├── NotEmpty       Delete: there are nodes below
    │   └── InvalidPath    the path is malformed, or its parent is ephemeral
    ├── SessionExpired     this store was closed; nothing more will come of it
    ├── OutcomeUnknown     the change may or may not have happened
    └── StoreUnavailable   nothing changed: the store is away, cannot be opened, or failed
        └── ChangeTooBig   it is there, but takes less at a time: make the change in parts

A `MetadataStore` outlives its sessions. When the store gave one up, its ephemeral nodes are
gone, the next session begins by itself as soon as it can, and `next_session` says so.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
PERMANENT: Final = 0
"""The owner of a node that outlives the session which made it."""
EVERYTHING: Final = "/"
"""In a notification: anything may have changed."""


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
    """A node as it was read. `created` numbers the change that made it, store-wide and rising,
    so a node made again under the same path is told from its predecessor."""

    value: bytes
    version: int
    created: int
    owner: int = PERMANENT


class Create(NamedTuple):
    """Makes a node, version 0. Its parent must exist and not be ephemeral."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    """Replaces a node's value and raises its version by one."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Removes a node without children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing, and lets the others happen only if the node has this version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check


class Watch(Protocol):
    """What changed since it was last asked."""

    async def next(self) -> list[str]:
        """Waits for changes and returns the paths of nodes that were made, set or removed, each
        once. `EVERYTHING` among them means that some may be missing: so it is whenever the
        connection was lost, and as soon as it is there again.

        Raises `SessionExpired` when no more will come."""
        ...

    def pending(self) -> list[str]:
        """The same without waiting; perhaps empty."""
        ...

    def close(self) -> None: ...


class Metadata(Protocol):
    """A store that brokers connect to."""

    def connect(self) -> "MetadataStore": ...

    async def close(self) -> None: ...


class MetadataStore(Protocol):
    """A broker's line to the store, through one session after the other.

    While the store is away, whatever is asked of it raises `StoreUnavailable`, or
    `OutcomeUnknown` if a change was already on its way."""

    @property
    def session_id(self) -> int:
        """The present session, or the last one there was; 0 before the first."""
        ...

    async def next_session(self, previous: int = 0) -> int:
        """Waits until a session other than `previous` is open. Its ephemeral nodes are to be
        made anew, and whatever rested on the former ones is void.

        Raises `SessionExpired` once the store is closed."""
        ...

    async def end_session(self, session_id: int) -> bool:
        """Ends the session of this broker's former life, if the store needs and is able to: the
        caller knows that its process is gone. Whether it did."""
        ...

    def may_have_expired(self) -> bool:
        """Whether, by this machine's monotonic clock, the store may have given the session up:
        true is a doubt, false a certainty. Cheap enough to ask at every request."""
        ...

    async def read(self, path: str) -> Node | None: ...

    async def read_each(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes in one go, each as it was at some moment."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names directly below a node, sorted; empty if there is no such node."""
        ...

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        """A node and all below it by path, parents first; empty if there is no such node.

        Each node is as it was at some moment, not all of them at the same one."""
        ...

    async def multi(self, *operations: Operation) -> list[int]:
        """Does all operations in order, or none and raises. When it returns, the change is
        durable and visible to this session's reads; notifications come when they come.

        The result holds the new version of each node made or set, `ANY_VERSION` for others."""
        ...

    def watch(self) -> Watch:
        """Changes from now on, of this session and of those that follow it."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        ...
