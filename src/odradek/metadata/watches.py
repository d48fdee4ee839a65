"""The watches of a `MetadataStore`, for all implementations: which nodes have changed."""

import asyncio
from collections.abc import Callable, Iterable

from odradek.metadata.store import EVERYTHING, SessionExpired

# With more changed paths than this, reading all nodes again is cheaper.
_MAX_PATHS = 50_000


class PathWatch:
    """A `Watch`: collects the paths of changed nodes until its reader takes them."""

    __slots__ = ("_changed", "_on_changes", "_wakened", "closed")

    def __init__(self, on_changes: Callable[[], None] | None = None) -> None:
        self._on_changes = on_changes
        self._changed: dict[str, None] = {}
        self._wakened = asyncio.Event()
        self.closed = False

    def add_changes(self, paths: Iterable[str]) -> None:
        if self.closed:
            return
        self._changed.update(dict.fromkeys(paths))
        if len(self._changed) > _MAX_PATHS:
            self._changed = {EVERYTHING: None}
        self._wakened.set()
        if self._on_changes is not None:
            self._on_changes()

    async def next(self) -> list[str]:
        while not self._changed:
            if self.closed:
                raise SessionExpired
            self._wakened.clear()
            await self._wakened.wait()
        return self.pending()

    def pending(self) -> list[str]:
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def close(self) -> None:
        self.closed = True
        self._wakened.set()


class Watches:
    """The watches of one `MetadataStore`."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[PathWatch] = []

    def add(self, watch: PathWatch) -> PathWatch:
        # Watches that their readers have closed are dropped here.
        self._all = [*(open_watch for open_watch in self._all if not open_watch.closed), watch]
        return watch

    def add_changes(self, paths: Iterable[str]) -> None:
        for watch in self._all:
            watch.add_changes(paths)

    def expire(self) -> None:
        """Closes all watches."""
        for watch in self._all:
            watch.close()
        self._all.clear()
