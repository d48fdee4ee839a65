"""The distribution of recent values: quantiles of the last minutes, and count and sum since the
start.

Kafka's histograms favour the last five minutes, so that a quantile tells how the broker is now.
This one keeps the values of two windows of a minute each, the one that is filled and the one
before, and computes quantiles over both.
"""

from typing import Final

from odradek.telemetry.metrics import Histogram

# The quantiles that Kafka's MBeans have, as the JMX exporter writes them.
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
_FRACTIONS: Final = tuple(map(float, QUANTILES))
WINDOW_S: Final = 60.0


class RecentValues:
    """`observe` costs about half a microsecond. Values are integers, for instance microseconds."""

    __slots__ = ("_before", "_since_s", "_window", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._window = Histogram()
        self._before: Histogram | None = None
        self._since_s = float("-inf")

    def observe(self, value: int, now_s: float) -> None:
        """Notes a value. `now_s` is a monotonic time."""
        if now_s - self._since_s >= WINDOW_S:
            self._turn(now_s)
        self.count += 1
        self.total += value
        self._window.observe(value)

    def _turn(self, now_s: float) -> None:
        is_recent = now_s - self._since_s < 2 * WINDOW_S
        self._before = self._window if is_recent else None
        self._window = Histogram()
        self._since_s = now_s

    def quantiles(self, now_s: float) -> tuple[int, ...]:
        """Returns the values of `QUANTILES`, the lowest and the highest value: each is the bound
        of a bucket, at most 25 % too high."""
        if now_s - self._since_s >= WINDOW_S:
            self._turn(now_s)
        return self._window.quantiles((*_FRACTIONS, 0.0, 1.0), self._before)
