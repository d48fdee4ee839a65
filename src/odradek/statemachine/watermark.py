"""A watermark is an offset that only rises and can be awaited.

The flushed offset, the high watermark and the last stable offset are watermarks. The log
end is not one: it retreats on truncation. Waiters fail at once when the watermark fails,
which is how lost leadership reaches the requests that wait for replication.

A task that waits for many watermarks at once registers one `Waiter` with all of them and is woken
once. To learn which of them moved, it registers one `Wakeable` with each.
"""

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from odradek.protocol.types import FIRST_OFFSET, Offset

_ticket = count()


class Wakeable(Protocol):
    """An object that can be registered with a watermark until the watermark moves."""

    def wake(self) -> None:
        """Called when the watermark has moved or failed; the registration has ended then."""
        ...


class Waiter:
    """Wakes a task when the first of the watermarks that it watches moves or fails."""

    __slots__ = ("_future", "_watermarks")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watermarks: list[Watermark] = []

    def watch(self, watermark: "Watermark") -> None:
        watermark.waiters[self] = None
        self._watermarks.append(watermark)

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float) -> bool:
        """Returns whether it was woken before the time was up, and ends all registrations."""
        timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out)
        try:
            await self._future
            return True
        except TimeoutError:
            return False
        finally:
            timer.cancel()
            for watermark in self._watermarks:
                watermark.waiters.pop(self, None)

    def _time_out(self) -> None:
        if not self._future.done():
            self._future.set_exception(TimeoutError())


class Watermark:
    """An offset that only rises, and the tasks that wait for it.

    Invariants: `value` never falls; no task waits for an offset that was reached."""

    __slots__ = ("_failed", "_reached", "value", "waiters")

    def __init__(self, value: Offset = FIRST_OFFSET) -> None:
        self.value = value
        # A dict keeps the order of registration; a set would wake in the order of addresses, which
        # differs from run to run of a simulation.
        self.waiters: dict[Wakeable, None] = {}
        self._reached: list[tuple[Offset, int, asyncio.Future[None]]] = []
        self._failed: Exception | None = None

    def advance(self, offset: Offset) -> None:
        """Advances the watermark to `offset`; a lower offset changes nothing."""
        if offset <= self.value:
            return
        self.value = offset
        reached = self._reached
        while reached and reached[0][0] <= offset:
            future = heappop(reached)[2]
            if not future.done():
                future.set_result(None)
        if self.waiters:
            self._wake_waiters()

    def nudge(self) -> None:
        """Wakes the waiters without moving: something beside the watermark has changed."""
        if self.waiters:
            self._wake_waiters()

    def fail(self, reason: Exception) -> None:
        """Fails all tasks that wait, now and later, with `reason`."""
        self._failed = reason
        self.fail_waiters(reason)

    def fail_waiters(self, reason: Exception) -> None:
        """Fails the tasks that wait now with `reason`, but not those that come later."""
        reached, self._reached = self._reached, []
        for _, _, future in reached:
            if not future.done():
                future.set_exception(reason)
        self._wake_waiters()

    async def wait_for(self, offset: Offset) -> None:
        """Returns when the watermark is at `offset` or higher."""
        if self.value >= offset:
            return
        if self._failed is not None:
            raise self._failed
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._reached, (offset, next(_ticket), future))
        await future

    def _wake_waiters(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()
