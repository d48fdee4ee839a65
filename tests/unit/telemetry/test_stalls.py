import asyncio

import pytest

from odradek.telemetry.stalls import StallMonitor


class SteppedClock:
    """Each question finds the clock a step further."""

    def __init__(self, *steps_s: float) -> None:
        self._steps_s = list(steps_s)
        self._now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        if not self._steps_s:
            raise RuntimeError("the test is over")
        self._now_s += self._steps_s.pop(0)
        return self._now_s


def test_the_longest_stall_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    # before and after each of three sleeps of a millisecond
    clock = SteppedClock(0, 0.001, 0, 0.251, 0, 0.011)
    monitor = StallMonitor(clock, interval_s=0.001)
    with pytest.raises(RuntimeError, match="the test is over"):
        asyncio.run(monitor.run())
    assert monitor.longest_s == pytest.approx(0.25)
    assert monitor.late_us.count == 2
    assert [record.getMessage() for record in caplog.records] == [
        "The event loop was held up for 250 ms"
    ]
    assert monitor.reset() == pytest.approx(0.25)
    assert monitor.longest_s == 0
