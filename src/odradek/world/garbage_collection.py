"""Python's garbage collector of cycles, tuned so that its pauses do not grow with the process.

By default CPython (3.11) looks at every container object when the number of older ones has grown by
a quarter. A broker with 10,000 partitions has a million objects, and stands still for 300 ms. So
objects that have survived a collection of the oldest generation are frozen (`gc.freeze`): the
collector does not look at them any more, and the next collection looks only at objects made since.
A frozen object is freed as ever when nothing refers to it; only cycles among frozen objects are not
found.

A full collection finds those. In a process with few objects it takes 40 ms at most, and is made
when the process has been idle and has frozen enough objects since the last one. In a larger process
it would be a pause that clients notice, even if it begins in an idle moment. So there it is made
only when so many objects were frozen that a leak must be suspected: two million in an idle process;
in a busy one three times as many as there were, and two million more.

To count the frozen objects (`gc.get_freeze_count`) CPython walks over all of them: 30 to 60 ms for
two million. So they are counted only when there may be enough of them: the number at the last count
plus what was frozen since is the most that there can be.

The collector begins when 2,000 more objects were made than freed, and the freeing of frozen objects
counts. While the 10,000 partitions of a topic are deleted it does not begin at all, and the 70,000
objects that the deletion makes would be looked at together afterwards, for 45 ms. A loop that frees
so many calls `collect_recent` from time to time.
"""

import asyncio
import gc
import logging
import time
from typing import Final

logger = logging.getLogger("odradek.server")

# The youngest generation is collected when so many objects have been made, the middle one after so
# many collections of the youngest, the oldest after so many of the middle. CPython: 700, 10, 10. So
# a collection of the oldest generation has about 12,000 objects to look at, and takes 4 ms. With
# five collections of the youngest in place of two it took 9 ms, and all collections together as
# long.
_THRESHOLDS: Final = (2000, 2, 1)
_OLDEST: Final = 2
_CHECK_INTERVAL_S: Final = 10.0
# A process is idle if it has used less than this part of one processor since the last check.
_IDLE_SHARE: Final = 0.01
# A small process that is idle is collected when a quarter more and so many objects are frozen.
# Small means that a full collection takes less than 50 ms (0.3 us for each object).
_MIN_GROWTH_WHEN_IDLE: Final = 20_000
_MAX_SMALL: Final = 130_000
# In a larger process that is idle: it has grown by so many. In a busy one: to the triple and so
# many.
_MIN_GROWTH_OF_A_LEAK: Final = 2_000_000


class GarbageCollection:
    """One for each process that runs for long. `start` changes the collector for good."""

    def __init__(self, max_small: int = _MAX_SMALL) -> None:
        """Up to `max_small` objects a process is small."""
        self._max_small = max_small
        # How many objects were frozen after the last full collection.
        self._frozen = 0
        # How many were frozen when they were last counted, and `_frozen_in_all` at that time.
        self._counted = 0
        self._frozen_in_all_then = 0

    def start(self) -> None:
        """Called when the objects that the process always needs have been made."""
        gc.set_threshold(*_THRESHOLDS)
        if _freeze_survivors not in gc.callbacks:
            gc.callbacks.append(_freeze_survivors)
        gc.freeze()
        self._reset()

    def stop(self) -> None:
        """Restores the collector as CPython has it, for tests."""
        if _freeze_survivors in gc.callbacks:
            gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(700, 10, 10)
        gc.unfreeze()

    async def run(self) -> None:
        """Makes full collections when they are due, until cancelled."""
        used_s = time.process_time()
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            before_s, used_s = used_s, time.process_time()
            self.check(is_idle=used_s - before_s < _IDLE_SHARE * _CHECK_INTERVAL_S)

    def check(self, *, is_idle: bool) -> bool:
        """Makes a full collection if it is due; returns whether it did.

        A process that has shrunk since the last count is taken for as large as it was, until so
        many objects were frozen that they are counted again."""
        at_most = self._counted + _frozen_in_all - self._frozen_in_all_then
        is_due = self._is_due(at_most, is_idle=is_idle) and self._is_due(
            self._count(), is_idle=is_idle
        )
        if is_due:
            self.collect_all()
        return is_due

    def _is_due(self, frozen: int, *, is_idle: bool) -> bool:
        last = self._frozen
        if not is_idle:
            return frozen > 3 * last + _MIN_GROWTH_OF_A_LEAK
        if frozen <= self._max_small:
            return frozen > last + last // 4 + _MIN_GROWTH_WHEN_IDLE
        return frozen > last + _MIN_GROWTH_OF_A_LEAK

    def _count(self) -> int:
        """Counts the frozen objects: 30 ms for a million."""
        self._counted, self._frozen_in_all_then = gc.get_freeze_count(), _frozen_in_all
        return self._counted

    def collect_all(self) -> None:
        """Collects cycles among all objects, also frozen ones."""
        begun_s = time.perf_counter()
        gc.unfreeze()
        found = gc.collect()  # The callback freezes what is left.
        took_ms = 1000 * (time.perf_counter() - begun_s)
        logger.info("a full collection found %d objects in %d ms", found, took_ms)
        self._reset()

    def _reset(self) -> None:
        # CPython makes the next collection when the number of new objects is a quarter of those
        # that survived the last one. After a full collection that would be late and long. After
        # this one, of nearly nothing, it is not.
        gc.collect()
        self._frozen = self._count()


def collect_recent() -> None:
    """Looks for cycles among the objects that were made recently, and freezes the others. Called
    every few milliseconds by loops that free many objects (see the module). Does nothing in a
    process without `GarbageCollection`, where it would look at all objects."""
    if _freeze_survivors in gc.callbacks:
        gc.collect()


# How many objects were frozen since the process began; some of them are freed by now.
_frozen_in_all = 0


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    global _frozen_in_all  # noqa: PLW0603 - the collector belongs to the process as well
    if phase == "stop" and info["generation"] == _OLDEST:
        _frozen_in_all += len(gc.get_objects(_OLDEST))
        gc.freeze()
