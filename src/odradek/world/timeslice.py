"""Long loops yield to other tasks after a time slice, not after a number of steps.

A broker is one event loop: while one coroutine computes, every connection waits. A loop over
partitions, members, segments or records therefore asks before each step whether the long loops have
used their time slice in this turn (iteration) of the event loop, and if so yields to other tasks:

    timeslice = Timeslice.of_running_loop()
    for partition in partitions:
        if timeslice.is_over():
            await timeslice.next_turn()
        create_log(partition)

All long loops of one event loop share one `Timeslice`. If each of fifty loops had five milliseconds
of its own in every turn, the other connections would wait for 250. Loops that wait for their next
turn are resumed in order. The first loop that is resumed in a turn uses up the slice; the others
find it used up and wait for the next turn, in the same order. So they finish one after the other.

A step that is longer than the slice by itself still stalls the event loop: it has to be split, or
to run in a thread (`world.workers`). The time is read from `time.perf_counter`, because uvloop's
own clock stands still during a turn. The simulation replaces this clock by a pseudo-random counter
(`measured_by`), so that a run with the same seed always yields at the same steps.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# Other tasks wait at most this long for the long loops. A turn costs about 10 µs, 0.2 % of it.
SLICE_S: Final = 0.005


class Timeslice:
    """Measures how long the long loops of one event loop have run in its current turn.

    Invariant: `_turn` counts the turns in which a long loop was resumed. The first
    long loop that is resumed in a turn of the event loop restarts the measurement.
    """

    __slots__ = ("_began_s", "_turn")

    def __init__(self) -> None:
        self._turn = 0
        self._began_s = _stopwatch()

    @staticmethod
    def of_running_loop() -> "Timeslice":
        """Returns the object that all long loops of the running event loop share."""
        loop = asyncio.get_running_loop()
        timeslice = _timeslices_by_loop.get(loop)
        if timeslice is None:
            timeslice = _timeslices_by_loop[loop] = Timeslice()
        return timeslice

    def is_over(self) -> bool:
        """Returns whether the caller must await `next_turn()` before its next step.

        If no long loop ran for a while, the first call returns True although the slice is unused,
        because the old start time is still set. The caller then yields once, which restarts the
        measurement.
        """
        return _stopwatch() - self._began_s >= SLICE_S

    async def next_turn(self) -> None:
        """Returns in a later turn of the event loop, when there is time again for one step."""
        while True:
            turn = self._turn
            await asyncio.sleep(0)
            if self._turn == turn:
                self._turn += 1
                self._began_s = _stopwatch()
            if not self.is_over():
                return

    async def pause(self) -> None:
        """Yields to other tasks if the slice is over; for work of several long steps."""
        if self.is_over():
            await self.next_turn()

    async def batches(self, items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
        """Yields the items `size` at a time. Before each batch but the first it lets other tasks
        run if the slice is over, so a short sequence is never interrupted."""
        for first in range(0, len(items), size):
            if first and self.is_over():
                await self.next_turn()
            yield items[first : first + size]

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Runs a generator to its end, many steps in a turn, and returns what it returns."""
        while True:
            if self.is_over():
                await self.next_turn()
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value


def read_stopwatch() -> float:
    """Returns the time by which turns are measured, in seconds."""
    return _stopwatch()


_stopwatch: Callable[[], float] = time.perf_counter
_timeslices_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Timeslice] = WeakKeyDictionary()


@contextmanager
def measured_by(stopwatch: Callable[[], float]) -> Iterator[None]:
    """Measures turns by another stopwatch, for the simulation, whose runs must be repeatable."""
    global _stopwatch  # noqa: PLW0603 - only the simulation and tests use it, with one event loop
    previous = _stopwatch
    _stopwatch = stopwatch
    try:
        yield
    finally:
        _stopwatch = previous
