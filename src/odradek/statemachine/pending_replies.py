"""Holds replies until the records that they depend on are committed.

A `Runner` adds replies with the offset that they wait for. Replies are sent in the order of these
offsets when the log has committed them, or fail after a time (`CommitTimeout`): a follower that
does not answer delays the commit until it is removed from the ISR, which may take longer
than clients wait. If a reply fails, the decision is not undone; the client sends its request again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple, Protocol

from odradek.protocol.types import NO_OFFSET, Offset
from odradek.statemachine.machine import Reply


class CommitTimeout(NamedTuple):
    """How long replies wait, and the error that callers get after that."""

    timeout_ms: int
    error: Callable[[], Exception]


class SendReplies(Protocol):
    """Sends replies to their callers, or the error in place of each reply."""

    def __call__(self, replies: Sequence[Reply[Any]], error: Exception | None = None) -> None: ...


class _Entry:
    """Replies that wait for `offset`; `replies` is empty after they were sent."""

    __slots__ = ("deadline_s", "offset", "replies")

    def __init__(self, offset: Offset, replies: Sequence[Reply[Any]], deadline_s: float) -> None:
        self.offset = offset
        self.replies = replies
        self.deadline_s = deadline_s


class PendingReplies:
    """The waiting replies of one runner.

    Invariant: while replies wait, `_task` waits for the lowest offset of the heap, and (if there
    is a time-out) `_timer` fires no later than the deadline of the oldest entry."""

    def __init__(
        self,
        wait_until_committed: Callable[[Offset], Awaitable[None]],
        send: SendReplies,
        fail: Callable[[Exception], None],
        timeout: CommitTimeout | None,
    ) -> None:
        """`wait_until_committed` returns when everything below an offset is committed. If it
        raises, leadership is lost, and `fail` is called with the reason."""
        self._wait_until_committed = wait_until_committed
        self._send = send
        self._fail = fail
        self._timeout = timeout
        self._heap: list[tuple[Offset, int, _Entry]] = []
        # Numbers that order entries with the same offset in the heap.
        self._tie_breakers = count()
        # In the order of their arrival, which is that of their deadlines.
        self._by_age: deque[_Entry] = deque()
        self._task: asyncio.Task[None] | None = None
        self._awaited = NO_OFFSET
        self._timer: asyncio.TimerHandle | None = None

    def add(self, offset: Offset, replies: Sequence[Reply[Any]]) -> None:
        """Holds the replies until everything below `offset` is committed."""
        loop = asyncio.get_running_loop()
        timeout_s = 0.0 if self._timeout is None else self._timeout.timeout_ms / 1000
        entry = _Entry(offset, replies, loop.time() + timeout_s)
        heappush(self._heap, (offset, next(self._tie_breakers), entry))
        if self._timeout is not None:
            self._by_age.append(entry)
            if self._timer is None:
                self._timer = loop.call_at(entry.deadline_s, self._time_out, self._timeout)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        elif offset < self._awaited:
            # The task waits for a later offset.
            self._task.cancel()
            self._task = loop.create_task(self._run())

    def clear(self) -> None:
        """Drops all replies. The runner fails their callers."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._awaited = NO_OFFSET
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._by_age.clear()

    async def _run(self) -> None:
        heap = self._heap
        while heap:
            offset, _, entry = heap[0]
            if not entry.replies:
                heappop(heap)
                continue
            self._awaited = offset
            try:
                await self._wait_until_committed(offset)
            except Exception as error:  # noqa: BLE001 - any error means that leadership is lost
                self._fail(error)
                return
            while heap and heap[0][0] <= offset:
                entry = heappop(heap)[2]
                replies, entry.replies = entry.replies, ()
                if replies:
                    self._send(replies)
            while self._by_age and not self._by_age[0].replies:
                self._by_age.popleft()

    def _time_out(self, timeout: CommitTimeout) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        # A timer of the event loop may fire a clock tick early.
        now_s = loop.time() + 0.001
        while self._by_age:
            entry = self._by_age[0]
            if entry.replies and entry.deadline_s > now_s:
                self._timer = loop.call_at(entry.deadline_s, self._time_out, timeout)
                return
            self._by_age.popleft()
            replies, entry.replies = entry.replies, ()
            if replies:
                self._send(replies, timeout.error())
