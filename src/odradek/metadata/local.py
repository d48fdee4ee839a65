"""A session with a store that lives in the same process: what `memory` and `sqlite` share."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from odradek.metadata.store import Node, Operation, SessionExpired, Watch
from odradek.metadata.tree import Tree


class Backend(Protocol):
    tree: Tree

    async def commit(self, session_id: int, operations: Sequence[Operation]) -> list[int]: ...


class LocalSession:
    """A `MetadataStore`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tree = backend.tree
        self._session_id = self._tree.begin_session()
        self._watches: list[LocalWatch] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    async def read(self, path: str) -> Node | None:
        self._require_alive()
        return self._tree.get(path)

    async def children(self, path: str) -> list[str]:
        self._require_alive()
        return self._tree.children(path)

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        self._require_alive()
        return self._tree.read_tree(prefix)

    async def multi(self, *operations: Operation) -> list[int]:
        self._require_alive()
        return await self._backend.commit(self._session_id, operations)

    def watch(self) -> Watch:
        self._require_alive()
        watch = LocalWatch(self._tree)
        self._watches.append(watch)
        return watch

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """Ends the session, as its owner's wish or as its expiry."""
        if self._tree.is_alive(self._session_id):
            self._tree.end_session(self._session_id)
        for watch in self._watches:
            watch.expire()

    def _require_alive(self) -> None:
        if not self._tree.is_alive(self._session_id):
            raise SessionExpired


class LocalWatch:
    """A `Watch`: paths gather here until somebody asks for them."""

    __slots__ = ("_changed", "_expired", "_tree", "_wakened")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._changed: dict[str, None] = {}
        self._wakened = asyncio.Event()
        self._expired = False
        tree.listen(self.note)

    def note(self, paths: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(paths))
        self._wakened.set()

    async def next(self) -> list[str]:
        while not self._changed:
            if self._expired:
                raise SessionExpired
            self._wakened.clear()
            await self._wakened.wait()
        return self.pending()

    def pending(self) -> list[str]:
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def expire(self) -> None:
        self.close()
        self._expired = True
        self._wakened.set()

    def close(self) -> None:
        self._tree.unlisten(self.note)
