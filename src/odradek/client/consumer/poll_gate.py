"""Work of a group that must run inside `poll`, and whether the program polls often enough.

A background task keeps a consumer in its group, but the user's rebalance listeners must not run
concurrently with the user's own code. So the task hands such work over with `run`, and `poll` does
it with `serve`. A member whose program `is_overdue` leaves the group.

Invariant: work that was handed over ends exactly once, whether it succeeded, raised, or was never
started because the consumer was closed; then `run` returns.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Work = Callable[[], Awaitable[None]]


class PollGate:
    def __init__(self, on_work: Callable[[], None], max_poll_interval_ms: int) -> None:
        self._on_work = on_work
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Work, asyncio.Future[None]]] = deque()
        self._max_idle_s = max_poll_interval_ms / 1000
        self._polling = 0
        self._last_poll_s = self._loop.time()
        self._polled = asyncio.Event()
        self._is_poll_awaited = False

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def enter_poll(self) -> None:
        self._polling += 1
        self.note_poll(self._loop.time())

    def leave_poll(self) -> None:
        self._polling -= 1
        self._last_poll_s = self._loop.time()

    def note_poll(self, now_s: float) -> bool:
        """Notes that the program polls, or takes a record from the iterator, which counts as much.

        Returns whether work was handed over that `serve` must do before a record is returned.
        """
        self._last_poll_s = now_s
        if self._is_poll_awaited:
            self._is_poll_awaited = False
            self._polled.set()
        return bool(self._waiting)

    def wake(self) -> None:
        """Wakes a waiting poll(), because the state of the group has changed."""
        self._on_work()

    def is_overdue(self) -> bool:
        """Returns whether `poll` was not called for `max.poll.interval.ms`."""
        return self._idle_s() >= self._max_idle_s

    def until_overdue_s(self) -> float:
        """Returns after which time `is_overdue` may be true, if `poll` is not called before."""
        return max(self._max_idle_s - self._idle_s(), 0) + 0.001

    def _idle_s(self) -> float:
        """Returns the time since the last poll; 0 while a poll is under way."""
        return 0.0 if self._polling else self._loop.time() - self._last_poll_s

    async def next_poll(self) -> None:
        """Returns when the next poll begins, at once if a poll is under way."""
        if not self._polling:
            self._polled.clear()
            self._is_poll_awaited = True
            await self._polled.wait()

    async def run(self, work: Work) -> None:
        """Hands work over to `poll` and returns when it is done; `poll` raises its errors."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((work, done))
        self._on_work()
        await done

    async def serve(self) -> None:
        """Does all work that was handed over, then raises the first error of it."""
        fault: Exception | None = None
        while self._waiting:
            work, done = self._waiting.popleft()
            if done.done():
                continue
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - of the user's listener; raised below
                fault = fault or error
            finally:
                if not done.done():
                    done.set_result(None)
            # The background task may hand over more work before records are returned.
            await asyncio.sleep(0)
        if fault is not None:
            raise fault
