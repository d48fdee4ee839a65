"""The tree of nodes in memory, without I/O: plans operations and applies them.

An `Overlay` shows the tree as it will be after changes that are not applied yet. So a multi is
checked as a whole before it is applied, and several multis before one write to the disk.
`Tree.apply` then applies the changes and notifies the listeners.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata.store import (
    ANY_VERSION,
    PERMANENT,
    BadVersion,
    Check,
    Create,
    Delete,
    InvalidPath,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
)
from odradek.world.timeslice import Timeslice

_ROOT = Node(b"", 0, 0)
# Takes about a millisecond.
_PLANNED_AT_ONCE = 200


class Tree:
    def __init__(
        self,
        nodes: Mapping[str, Node] | None = None,
        transaction: int = 0,
        sessions: Iterable[int] = (),
    ) -> None:
        """`sessions` are those that own ephemeral nodes among `nodes`. The ids of new sessions are
        above `transaction`."""
        self.nodes: dict[str, Node] = {"/": _ROOT}
        # Dictionaries for their order: sets of strings are ordered differently in each process.
        self._below: dict[str, dict[str, None]] = {}
        self._owned: dict[int, dict[str, None]] = {session: {} for session in sessions}
        self._listeners: list[Callable[[Iterable[str]], None]] = []
        self.transaction = transaction
        self._sessions_begun = transaction
        self.apply(nodes or {})

    # Reading

    def get(self, path: str) -> Node | None:
        return self.nodes.get(path)

    def child_count(self, path: str) -> int:
        return len(self._below.get(path, ()))

    def children(self, path: str) -> list[str]:
        return sorted(child.rpartition("/")[2] for child in self._below.get(path, ()))

    def read_tree(self, prefix: str) -> dict[str, Node]:
        """Returns the nodes at and below a path, each before its children."""
        nodes: dict[str, Node] = {}
        unread = [prefix] if prefix in self.nodes else []
        while unread:
            path = unread.pop()
            nodes[path] = self.nodes[path]
            children = self._below.get(path)
            if children:
                unread.extend(reversed(children))
        return nodes

    # Changing

    def apply(self, changes: Mapping[str, Node | None]) -> None:
        """Applies changes that an `Overlay` has planned; None deletes a node."""
        for path, node in changes.items():
            before = self.nodes.get(path)
            # A session may have ended between the planning and the applying.
            if node is None or (node.owner != PERMANENT and node.owner not in self._owned):
                if before is not None:
                    self._forget(path, before)
                continue
            self.nodes[path] = node
            if before is None:
                self._below.setdefault(parent_of(path), {})[path] = None
            elif before.owner not in (node.owner, PERMANENT):
                self._owned[before.owner].pop(path, None)
            if node.owner != PERMANENT:
                self._owned[node.owner][path] = None
        if changes:
            if invariants.is_thorough():
                self.check(changes)
            for listener in tuple(self._listeners):
                listener(changes)

    def check(self, paths: Iterable[str]) -> None:
        """Raises `InvariantViolation` if nodes at these paths lack a parent, have an ephemeral one,
        or belong to a session that is over."""
        for path in paths:
            node, parent = self.nodes.get(path), self.nodes.get(parent_of(path))
            is_listed = path in self._below.get(parent_of(path), ())
            if path == "/" or (node is None and not is_listed):
                continue
            if node is None or not is_listed:
                raise InvariantViolation(path, "the node and its parent's list of children differ")
            if parent is None or parent.owner != PERMANENT:
                raise InvariantViolation(path, "the node has no parent, or an ephemeral one")
            if node.owner != PERMANENT and path not in self._owned.get(node.owner, ()):
                raise InvariantViolation(path, f"session {node.owner} does not own it")

    def _forget(self, path: str, node: Node) -> None:
        del self.nodes[path]
        parent = parent_of(path)
        siblings = self._below[parent]
        del siblings[path]
        if not siblings:
            del self._below[parent]
        if node.owner != PERMANENT:
            self._owned[node.owner].pop(path, None)

    # Sessions and watches

    def begin_session(self) -> int:
        self._sessions_begun += 1
        session_id = self._sessions_begun
        self._owned[session_id] = {}
        return session_id

    def is_alive(self, session_id: int) -> bool:
        return session_id in self._owned

    def end_session(self, session_id: int) -> None:
        """Deletes the session's ephemeral nodes; they have no children."""
        owned = self._owned.get(session_id, {})
        self.apply(dict.fromkeys(owned))
        self._owned.pop(session_id, None)

    def listen(self, listener: Callable[[Iterable[str]], None]) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Iterable[str]], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)


class View(Tree):
    """A copy that lags behind a tree, as a server of an ensemble lags behind its leader."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.apply({path: node for path, node in tree.nodes.items() if path != "/"})

    def apply(self, changes: Mapping[str, Node | None]) -> None:
        # The tree knows which sessions are alive; the copy accepts all of them.
        for node in changes.values():
            if node is not None:
                self._owned.setdefault(node.owner, {})
        super().apply(changes)


class Overlay:
    """Changes to a tree, or to another overlay, that are not applied yet."""

    __slots__ = ("_below", "_counts", "changes")

    def __init__(self, below: "Tree | Overlay") -> None:
        self._below = below
        self._counts: dict[str, int] = {}
        self.changes: dict[str, Node | None] = {}

    def get(self, path: str) -> Node | None:
        return self.changes[path] if path in self.changes else self._below.get(path)

    def child_count(self, path: str) -> int:
        count = self._counts.get(path)
        return self._below.child_count(path) if count is None else count

    def absorb(self, above: "Overlay") -> None:
        """Adds the changes of an overlay that was made on top of this one."""
        self.changes.update(above.changes)
        self._counts.update(above._counts)

    def plan(self, session_id: int, operations: Iterable[Operation], transaction: int) -> list[int]:
        """Plans the operations and returns the new versions of their nodes. If it raises
        `OperationFailed`, the overlay must not be used any more."""
        versions = []
        for operation in operations:
            match operation:
                case Create(path, value, ephemeral):
                    owner = session_id if ephemeral else PERMANENT
                    self._create(path, Node(value, 0, transaction, owner))
                    versions.append(0)
                case Set(path, value, version):
                    node = self._expect(path, version)
                    self.changes[path] = node._replace(value=value, version=node.version + 1)
                    versions.append(node.version + 1)
                case Delete(path, version):
                    self._delete(path, version)
                    versions.append(ANY_VERSION)
                case Check(path, version):
                    self._expect(path, version)
                    versions.append(ANY_VERSION)
        return versions

    async def plan_in_turns(
        self, session_id: int, operations: Sequence[Operation], transaction: int
    ) -> list[int]:
        """Does the same for many operations, and yields to other tasks in between. The tree may
        lose the nodes of sessions that end meanwhile, as it may until the changes are applied."""
        timeslice = Timeslice.of_running_loop()
        versions: list[int] = []
        for first in range(0, len(operations), _PLANNED_AT_ONCE):
            if first and timeslice.is_over():
                await timeslice.next_turn()
            some = operations[first : first + _PLANNED_AT_ONCE]
            versions += self.plan(session_id, some, transaction)
        return versions

    def _create(self, path: str, node: Node) -> None:
        check_path(path)
        if self.get(path) is not None:
            raise NodeExists(path)
        parent = parent_of(path)
        above = self.get(parent)
        if above is None:
            raise NoNode(parent, f", so {path} cannot be made")
        if above.owner != PERMANENT:
            raise InvalidPath(path, ": its parent is ephemeral")
        self.changes[path] = node
        self._counts[parent] = self.child_count(parent) + 1

    def _delete(self, path: str, version: int) -> None:
        if path == "/":
            raise InvalidPath(path, ": the root stays")
        self._expect(path, version)
        if self.child_count(path):
            raise NotEmpty(path)
        # Kept even if the node was created in this same overlay: the tree below may have it too.
        self.changes[path] = None
        parent = parent_of(path)
        self._counts[parent] = self.child_count(parent) - 1

    def _expect(self, path: str, version: int) -> Node:
        node = self.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path, f", {node.version} and not {version}")
        return node


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def check_path(path: str) -> None:
    if not path.startswith("/") or "" in path[1:].split("/") or "\0" in path:
        raise InvalidPath(path)
