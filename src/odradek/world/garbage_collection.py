"""Python's cycle collector, arranged so that its pauses do not grow with what a process holds.

Left alone, CPython (3.11) looks at every container object that lives whenever the number of
older ones has grown by a quarter. A broker with 10,000 partitions has a million objects, and stands
still for 300 ms. So objects that have survived are set aside, where the collector does not look
any more (`gc.freeze`): after each collection of the oldest generation, which by then holds only
what was made since the last one, 20,000 objects or so. They are freed as ever when nothing
refers to them; only cycles among them would stay.

Those are looked for by a full collection. In a process with few objects that takes some 40 ms at
most, and is done when the process has been idle and has set aside enough since the last time that
it may be worth it. In a larger one it would be a pause that its clients notice, also those who end
the idleness at that moment, and objects are set aside whenever a topic is made. So there it
happens only when so many more were set aside that the process must be suspected of a leak: when
it is idle, two million; when it never is, also twice as many as there were.
"""

import asyncio
import gc
import logging
import time
from typing import Final

logger = logging.getLogger("odradek.server")

# Objects that are made before the young ones are looked at; how many such collections before the
# middle generation, and how many of those before the oldest. CPython's own are 700, 10, 10.
_THRESHOLDS: Final = (2000, 5, 1)
_OLDEST: Final = 2
_CHECK_EVERY_S: Final = 10.0
# Of one processor, over the interval between two checks.
_IDLE_SHARE: Final = 0.01
# When idle: what was set aside has grown by a quarter and so many, and is not more in all than can
# be looked at within 50 ms (0.3 us for each).
_GROWTH_WHEN_IDLE: Final = 20_000
_FEW: Final = 130_000
# In a larger process that is idle: it has grown by so many. Else: to the triple and so many.
_GROWTH_OF_A_LEAK: Final = 2_000_000


class GarbageCollection:
    """One for each process that lives long; `start` changes the collector for good."""

    def __init__(self, few: int = _FEW) -> None:
        """`few` objects are collected whenever the process is idle."""
        self._few = few
        # How many objects were set aside when the last full collection was over.
        self._set_aside = 0

    def start(self) -> None:
        """To be called once what the process always needs has been made."""
        gc.set_threshold(*_THRESHOLDS)
        if _set_survivors_aside not in gc.callbacks:
            gc.callbacks.append(_set_survivors_aside)
        gc.freeze()
        self._begin_again()

    def stop(self) -> None:
        """Leaves the collector as CPython has it: for tests."""
        if _set_survivors_aside in gc.callbacks:
            gc.callbacks.remove(_set_survivors_aside)
        gc.set_threshold(700, 10, 10)
        gc.unfreeze()

    async def run(self) -> None:
        """Looks for old cycles now and then, until cancelled."""
        used_s = time.process_time()
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            before_s, used_s = used_s, time.process_time()
            self.check(is_idle=used_s - before_s < _IDLE_SHARE * _CHECK_EVERY_S)

    def check(self, *, is_idle: bool) -> bool:
        """Collects everything if it is time to; returns whether it did."""
        now, last = gc.get_freeze_count(), self._set_aside
        if not is_idle:
            is_due = now > 3 * last + _GROWTH_OF_A_LEAK
        elif now <= self._few:
            is_due = now > last + last // 4 + _GROWTH_WHEN_IDLE
        else:
            is_due = now > last + _GROWTH_OF_A_LEAK
        if is_due:
            self.collect_all()
        return is_due

    def collect_all(self) -> None:
        """Collects cycles among all objects that live, however old."""
        begun_s = time.perf_counter()
        gc.unfreeze()
        found = gc.collect()  # Then the callback sets aside what is left.
        took_ms = 1000 * (time.perf_counter() - begun_s)
        logger.info("a full collection found %d objects in %d ms", found, took_ms)
        self._begin_again()

    def _begin_again(self) -> None:
        # CPython compares what is new with what survived the last collection. Without another one,
        # of nearly nothing, that would be everything, and the next collection late and long.
        gc.collect()
        self._set_aside = gc.get_freeze_count()


def _set_survivors_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
