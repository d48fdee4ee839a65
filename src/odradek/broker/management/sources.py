"""What the collectors read: the parts of one broker, and what is measured only for the port."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.components import Components
from odradek.broker.management.leadership_observer import LeadershipObserver
from odradek.broker.network.request_meter import RequestMeter
from odradek.broker.network.server import Server
from odradek.broker.network.traffic import Traffic
from odradek.metadata import ClusterImage
from odradek.telemetry.declarations import Collected, Distribution
from odradek.telemetry.recent import RecentValues
from odradek.telemetry.stalls import StallMonitor
from odradek.world import Clock
from odradek.world.process_usage import thread_cpu_s

if TYPE_CHECKING:
    from odradek.broker.management.lag import LagMonitor

# How long a figure of the idle time counts at least before it begins anew.
_IDLE_WINDOW_S = 5.0


class LoopIdle:
    """The fraction of the time in which the event loop's thread used no processor: what it does not
    use, it waits for sockets."""

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = thread_cpu_s) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        self._since_s, self._since_cpu_s = clock.monotonic_s(), cpu_s()
        self._last = 1.0

    def fraction(self) -> float:
        """Returns 0 to 1, of the time since the last call that is some seconds ago."""
        now_s, cpu_s = self._clock.monotonic_s(), self._cpu_s()
        passed_s = now_s - self._since_s
        if passed_s >= _IDLE_WINDOW_S:
            used = (cpu_s - self._since_cpu_s) / passed_s
            self._last = min(max(1.0 - used, 0.0), 1.0)
            self._since_s, self._since_cpu_s = now_s, cpu_s
        return self._last


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """Made when the broker is ready. `is_ready` is what `/readyz` answers, and `state` what Kafka
    calls the broker's state."""

    components: Components
    server: Server
    meter: RequestMeter
    traffic: Traffic
    stalls: StallMonitor
    leadership: LeadershipObserver
    idle: LoopIdle
    lag: "LagMonitor"
    is_ready: Callable[[], bool]
    max_partitions: int

    @property
    def clock(self) -> Clock:
        return self.components.services.world.clock

    @property
    def image(self) -> ClusterImage:
        return self.components.services.images.cache.image


Collector = Callable[[Sources, Collected], Generator[None, None, None]]
"""Adds samples, and yields where other tasks may run in between."""


def distribution(values: RecentValues, now_s: float, unit: float) -> Distribution:
    """Returns recent values as a sample; each is multiplied by `unit`."""
    *quantiles, lowest, highest = (found * unit for found in values.quantiles(now_s))
    return Distribution(
        values.count, values.total * unit, tuple(quantiles), max=highest, min=lowest
    )
