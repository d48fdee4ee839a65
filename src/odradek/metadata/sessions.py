"""What every `MetadataStore` keeps about its sessions and its watches."""

import asyncio
from collections.abc import Callable, Iterable

from odradek.metadata.store import EVERYTHING, SessionExpired

# Beyond this many paths, reading everything again is cheaper than remembering each.
_MAX_PATHS = 50_000


class Sessions:
    """The present session, and who waits for the next one."""

    __slots__ = ("_changed", "_is_open", "closed", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.closed = False
        self._is_open = False
        self._changed = asyncio.Event()

    def begin(self, session_id: int) -> None:
        self.session_id = session_id
        self._is_open = True
        self._tell()

    def lose(self) -> None:
        """No session until the next begins; `session_id` still names the last one."""
        self._is_open = False

    def close(self) -> None:
        self.closed = True
        self._tell()

    def require_open(self) -> None:
        if self.closed:
            raise SessionExpired

    async def after(self, previous: int) -> int:
        while True:
            self.require_open()
            if self._is_open and self.session_id != previous:
                return self.session_id
            await self._changed.wait()

    def _tell(self) -> None:
        wakened, self._changed = self._changed, asyncio.Event()
        wakened.set()


class PathWatch:
    """A `Watch`: paths gather here until somebody asks for them."""

    __slots__ = ("_changed", "_on_note", "_wakened", "closed")

    def __init__(self, on_note: Callable[[], None] | None = None) -> None:
        self._on_note = on_note
        self._changed: dict[str, None] = {}
        self._wakened = asyncio.Event()
        self.closed = False

    def note(self, paths: Iterable[str]) -> None:
        if self.closed:
            return
        self._changed.update(dict.fromkeys(paths))
        if len(self._changed) > _MAX_PATHS:
            self._changed = {EVERYTHING: None}
        self._wakened.set()
        if self._on_note is not None:
            self._on_note()

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
        # Those that their readers have closed are dropped here.
        self._all = [*(one for one in self._all if not one.closed), watch]
        return watch

    def note(self, paths: Iterable[str]) -> None:
        for watch in self._all:
            watch.note(paths)

    def expire(self) -> None:
        """No more will come."""
        for watch in self._all:
            watch.close()
        self._all.clear()
