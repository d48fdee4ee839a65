"""Time of day and elapsed time.

Deadlines and timers use `loop.call_later`; the clock is for timestamps that people and
records see (`now_ms`) and for durations measured across awaits (`monotonic_s`).
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970; may step in either direction."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
