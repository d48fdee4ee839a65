"""How long the event loop was held up.

Everything a broker does shares one loop, so a call that does not return holds up all
connections. The monitor sleeps a little over and over, and a sleep that ends late is a stall.
"""

import asyncio
import logging
from typing import Final

from odradek.telemetry.logs import SERVER
from odradek.telemetry.metrics import Registry
from odradek.world import Clock

_LOG: Final = logging.getLogger(SERVER)


class StallMonitor:
    """`longest_s` is the longest stall since the last `forget`."""

    def __init__(
        self, clock: Clock, registry: Registry, *, interval_s: float = 0.05, warn_s: float = 0.1
    ) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._warn_s = warn_s
        self.longest_s = 0.0
        self._stalls = registry.histogram(
            "odradek_loop_stall_seconds", "How late the event loop came back from a sleep.", 1e-6
        )
        registry.gauge(
            "odradek_loop_longest_stall_seconds",
            "The longest stall of the event loop.",
            lambda: self.longest_s,
        )

    async def run(self) -> None:
        while True:
            before_s = self._clock.monotonic_s()
            await asyncio.sleep(self._interval_s)
            self.record(self._clock.monotonic_s() - before_s - self._interval_s)

    def record(self, late_s: float) -> None:
        if late_s <= 0:
            return
        self._stalls.observe(int(late_s * 1e6))
        self.longest_s = max(self.longest_s, late_s)
        if late_s >= self._warn_s:
            _LOG.warning("The event loop was held up for %.0f ms", late_s * 1000)

    def forget(self) -> float:
        """The longest stall so far; counting begins anew."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s
