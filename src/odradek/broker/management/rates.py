"""The rates of Kafka's meters (OneMinuteRate and its like), for readers of MBeans.

Prometheus computes rates itself. For the others the counters of the whole broker, not those of
single topics, are noted every few seconds; a rate is the difference to what was noted a minute ago,
or five, or fifteen, or to the oldest note of a broker that has run for less.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.broker.management.sources import Sources
from odradek.telemetry import catalogue
from odradek.telemetry.declarations import Collected, Kind, Metric
from odradek.world import Clock

logger = logging.getLogger("odradek.server")

_INTERVAL_S: Final = 15.0
_KEPT: Final = 61
_WINDOWS_S: Final = {"OneMinuteRate": 60.0, "FiveMinuteRate": 300.0, "FifteenMinuteRate": 900.0}

_NOTED: Final = frozenset(
    metric
    for module in (catalogue.network, catalogue.topics, catalogue.replication)
    for metric in vars(module).values()
    if isinstance(metric, Metric)
)

_Key = tuple[Metric, tuple[str, ...]]


class Rates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_s = clock.monotonic_s()
        self._notes: deque[tuple[float, dict[_Key, float]]] = deque(
            [(self._begun_s, {})], maxlen=_KEPT
        )

    async def run(self, collect: Callable[[], Awaitable[Collected]]) -> None:
        """Notes the counters every few seconds, until cancelled.

        The first call of `collect` imports its modules. That fails while file descriptors are
        short, which must not end the broker: the next note is taken when there are some again.
        """
        while True:
            await asyncio.sleep(_INTERVAL_S)
            try:
                self.note(await collect())
            except OSError as error:
                logger.warning("no rates were noted: %s", error.strerror or error)

    def note(self, collected: Collected) -> None:
        """Notes the counters among the samples."""
        noted: dict[_Key, float] = {
            (metric, labels): value
            for metric, rows in collected.samples.items()
            if metric.kind is Kind.COUNTER
            for labels, value in rows
            if isinstance(value, int | float) and _is_of_broker(metric, labels)
        }
        self._notes.append((self._clock.monotonic_s(), noted))

    def attributes(self, metric: Metric, labels: tuple[str, ...], value: float) -> dict[str, float]:
        """Returns the rates per second of a counter that has this value now."""
        now_s = self._clock.monotonic_s()
        rates = {"MeanRate": value / max(now_s - self._begun_s, 1e-3)}
        if not _is_of_broker(metric, labels):
            return rates
        for name, window_s in _WINDOWS_S.items():
            then_s, noted = next(
                (note for note in self._notes if now_s - note[0] <= window_s), self._notes[-1]
            )
            passed_s = max(now_s - then_s, 1e-3)
            rates[name] = (value - noted.get((metric, labels), 0.0)) / passed_s
        return rates


class BrokerCounters:
    """Collects the counters of which the rates are noted. Those that walk over all partitions are
    left out: their rates are not worth the cost."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def collect(self) -> Collected:
        # Imported at the first call: a broker that starts has other things to import.
        from odradek.broker.management.collectors import network, partitions, topics  # noqa: PLC0415
        from odradek.broker.management.scrape import Scraper  # noqa: PLC0415

        collectors = (network.collect, topics.collect, partitions.collect_isr_changes)
        return await Scraper(self._sources).collect(collectors)


def _is_of_broker(metric: Metric, labels: tuple[str, ...]) -> bool:
    """Returns whether a counter is noted: it is of the whole broker, not of a single topic."""
    is_of_topic = "topic" in metric.labels and any(labels)
    return metric in _NOTED and not is_of_topic
