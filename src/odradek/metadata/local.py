"""A session with a store in the same process, for `memory` and `sqlite`.

A session ends when it is closed; `memory` may also expire it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from odradek.metadata.current_session import CurrentSession
from odradek.metadata.store import EVERYTHING, Node, Operation, Watch
from odradek.metadata.tree import Tree
from odradek.metadata.watches import PathWatch, Watches


class Backend(Protocol):
    tree: Tree

    async def commit(self, session_id: int, operations: Sequence[Operation]) -> list[int]: ...

    def end_session(self, session_id: int) -> None: ...


class LocalSession:
    """A `MetadataStore`."""

    def __init__(self, backend: Backend, session_id: int | None = None) -> None:
        """Begins a session, or resumes one that is alive."""
        self._backend = backend
        self._tree = backend.tree
        self._session = CurrentSession()
        self._watches = Watches()
        self._session.begin(self._tree.begin_session() if session_id is None else session_id)
        self._tree.listen(self._notice)

    @property
    def tree(self) -> Tree:
        return self._tree

    @property
    def session_id(self) -> int:
        return self._session.session_id

    async def next_session(self, previous: int = 0) -> int:
        return await self._session.after(previous)

    async def end_session(self, session_id: int) -> bool:
        return False

    @property
    def session_timeout_s(self) -> float:
        return 0.0  # It ends with this process.

    def may_be_outdated(self) -> bool:
        return self._session.closed

    @property
    def resumptions(self) -> int:
        return 0  # There is no connection that could be lost.

    def note_all_read(self, resumption: int) -> None:
        """Nothing was missed."""

    async def read(self, path: str) -> Node | None:
        self._session.require_open()
        return self._tree.get(path)

    async def read_each(self, paths: Sequence[str]) -> list[Node | None]:
        return [await self.read(path) for path in paths]

    async def children(self, path: str) -> list[str]:
        self._session.require_open()
        return self._tree.children(path)

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        self._session.require_open()
        return self._tree.read_tree(prefix)

    async def multi(self, *operations: Operation) -> list[int]:
        self._session.require_open()
        return await self._backend.commit(self.session_id, operations)

    def watch(self) -> Watch:
        return self.watch_with(None)

    def watch_with(self, on_changes: Callable[[], None] | None) -> PathWatch:
        """Returns a watch that calls `on_changes` whenever it has new paths."""
        self._session.require_open()
        return self._watches.add(PathWatch(on_changes))

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """Closes the session without waiting."""
        if not self._session.closed:
            self._backend.end_session(self.session_id)
            self.leave()

    def leave(self) -> None:
        """Leaves the session without ending it."""
        self._session.close()
        self._tree.unlisten(self._notice)
        self._watches.expire()

    def _notice(self, paths: Iterable[str]) -> None:
        self._watches.add_changes(paths)

    def renew(self) -> None:
        """Expires the session, with its ephemeral nodes, and begins the next one."""
        self._backend.end_session(self.session_id)
        self._session.begin(self._tree.begin_session())
        self._watches.add_changes([EVERYTHING])
