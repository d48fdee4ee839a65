"""What the cluster agrees on: a small tree of versioned nodes, as every implementation offers it.

It promises what ZooKeeper promises and no more. Versions order the changes of one node.
Several operations happen together or not at all. Ephemeral nodes go with the session that
made them. Notifications may be late, and several changes may arrive as one. After a lost
connection nobody knows whether a change happened: read back before trying again.

Exceptions:

    MetadataError
    ├── Refused            the answer is certain: nothing changed
    │   ├── NodeExists     Create: the path is taken
    │   ├── NoNode         the node, or the parent of a new one, is missing
    │   ├── BadVersion     the node has another version than expected
    │   ├── NotEmpty       Delete: there are nodes below
    │   └── InvalidPath    the path is malformed, or its parent is ephemeral
    ├── SessionExpired     the store gave this session up; its ephemeral nodes are gone
    ├── OutcomeUnknown     the change may or may not have happened
    └── StoreUnavailable   the store cannot be opened, or failed for good
"""

from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
PERMANENT: Final = 0
"""The owner of a node that outlives the session which made it."""
EVERYTHING: Final = "/"
"""In a notification: anything may have changed."""


class MetadataError(Exception):
    pass


class Refused(MetadataError):
    reason = "refused"

    def __init__(self, path: str, detail: str = "") -> None:
        self.path = path
        super().__init__(f"{path}: {self.reason}{detail}")


class NodeExists(Refused):
    reason = "the node exists already"


class NoNode(Refused):
    reason = "there is no such node"


class BadVersion(Refused):
    reason = "the node has another version"


class NotEmpty(Refused):
    reason = "there are nodes below it"


class InvalidPath(Refused):
    reason = "no node can have this path"


class SessionExpired(MetadataError):
    def __init__(self) -> None:
        super().__init__("the metadata store gave this session up")


class OutcomeUnknown(MetadataError):
    def __init__(self) -> None:
        super().__init__("the connection was lost before the metadata store answered")


class StoreUnavailable(MetadataError):
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
        once. `EVERYTHING` among them means that some may be missing.

        Raises `SessionExpired` when no more will come."""
        ...

    def pending(self) -> list[str]:
        """The same without waiting; perhaps empty."""
        ...

    def close(self) -> None: ...


class Metadata(Protocol):
    """A store that gives out sessions, one for each broker."""

    def connect(self) -> "MetadataStore": ...

    async def close(self) -> None: ...


class MetadataStore(Protocol):
    """One session with the store."""

    @property
    def session_id(self) -> int: ...

    async def read(self, path: str) -> Node | None: ...

    async def children(self, path: str) -> list[str]:
        """The names directly below a node, sorted; empty if there is no such node."""
        ...

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        """A node and all below it by path, parents first; empty if there is no such node."""
        ...

    async def multi(self, *operations: Operation) -> list[int]:
        """Does all operations in order, or none and raises. When it returns, the change is
        durable and visible to this session's reads; notifications come when they come.

        The result holds the new version of each node made or set, `ANY_VERSION` for others."""
        ...

    def watch(self) -> Watch:
        """Changes from now on."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        ...
