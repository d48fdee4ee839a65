"""What others have sent to a source, until it is safe in the topic.

A source that others send to (a webhook, a syslog or log-agent acceptor) cannot read a range again
after it has ended. So it keeps what came until the engine says that it is stored, and only then
tells the sender: a sender that got no answer sends again. The inbox is bounded. When it is full,
nothing more is read from connections, which slows the senders down; there is no other way to be
honest with them.

The listener fills the inbox on its event loop; the task reads it in its own thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.connect.records import Header


class Entry(NamedTuple):
    """What becomes a record. Without a topic it goes to that of the connector."""

    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    topic: str | None = None


class Inbox:
    """Entries have sequence numbers, from `first` on. Invariant: those in the inbox are `_first` to
    `_first + len(_entries)`."""

    def __init__(self, capacity: int, first: int, loop: asyncio.AbstractEventLoop) -> None:
        self._capacity = capacity
        self._first = first
        self._loop = loop
        self._entries: deque[Entry] = deque()
        self._lock = threading.Lock()
        # Touched on the event loop only.
        self._stored = first
        self._unstored: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._room: deque[asyncio.Future[None]] = deque()

    # The listener's side

    async def put(self, entries: Sequence[Entry]) -> "asyncio.Future[None]":
        """Waits for room, and returns a future that is done when the entries are stored."""
        while len(self._entries) >= self._capacity:
            waiting = self._loop.create_future()
            self._room.append(waiting)
            await waiting
        with self._lock:
            self._entries.extend(entries)
            end = self._first + len(self._entries)
        future: asyncio.Future[None] = self._loop.create_future()
        if entries:
            self._unstored.append((end, future))
        else:
            future.set_result(None)
        return future

    def offer(self, entry: Entry) -> bool:
        """Takes an entry if there is room, for senders that cannot be slowed down."""
        with self._lock:
            if len(self._entries) >= self._capacity:
                return False
            self._entries.append(entry)
        return True

    def _release(self, end: int) -> None:
        self._stored = max(self._stored, end)
        while self._unstored and self._unstored[0][0] <= self._stored:
            _, future = self._unstored.popleft()
            if not future.done():
                future.set_result(None)
        while self._room:
            waiting = self._room.popleft()
            if not waiting.done():
                waiting.set_result(None)

    # The task's side

    def end_from(self, begin: int, count: int) -> int:
        """Returns where `count` entries from `begin` on end, or fewer if there are."""
        with self._lock:
            self._check(begin)
            return min(begin + count, self._first + len(self._entries))

    def between(self, begin: int, end: int) -> list[Entry]:
        with self._lock:
            self._check(begin)
            self._check(end)
            skipped = begin - self._first
            return [self._entries[skipped + number] for number in range(end - begin)]

    def stored(self, end: int) -> None:
        """Forgets entries before `end`, and tells their senders."""
        with self._lock:
            while self._first < end and self._entries:
                self._entries.popleft()
                self._first += 1
        self._loop.call_soon_threadsafe(self._release, end)

    def _check(self, number: int) -> None:
        if not self._first <= number <= self._first + len(self._entries):
            raise DataError(
                f"entry {number} is not here any more: what others send can be read once only"
            )
