"""Measures stalls of the event loop.

Everything that a broker does shares one event loop, so a call that takes long stalls all
connections. The monitor sleeps for a short time, again and again; a sleep that ends late is a
stall.
"""

import asyncio
import logging
from typing import Final

from odradek.telemetry.logs import SERVER
from odradek.telemetry.metrics import Histogram
from odradek.world import Clock

_LOG: Final = logging.getLogger(SERVER)


class StallMonitor:
    """`longest_s` is the longest stall since the last `reset`. A broker with a management port runs
    one; its histogram is served as `odradek_loop_stall_seconds`."""

    def __init__(self, clock: Clock, *, interval_s: float = 0.05, warn_s: float = 0.1) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._warn_s = warn_s
        self.longest_s = 0.0
        # How late the event loop came back from each sleep, in microseconds.
        self.late_us = Histogram()

    async def run(self) -> None:
        while True:
            before_s = self._clock.monotonic_s()
            await asyncio.sleep(self._interval_s)
            self.record(self._clock.monotonic_s() - before_s - self._interval_s)

    def record(self, late_s: float) -> None:
        if late_s <= 0:
            return
        self.late_us.observe(int(late_s * 1e6))
        self.longest_s = max(self.longest_s, late_s)
        if late_s >= self._warn_s:
            _LOG.warning("The event loop was held up for %.0f ms", late_s * 1000)

    def reset(self) -> float:
        """Returns the longest stall so far, and begins anew."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s
