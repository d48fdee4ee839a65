"""One scrape: every collector in turn, in slices of time, so that the event loop never stalls."""

import asyncio

from odradek.broker.management.collectors import COLLECTORS
from odradek.broker.management.sources import Collector, Sources
from odradek.telemetry.catalogue import process
from odradek.telemetry.declarations import Collected
from odradek.telemetry.exposition import render
from odradek.world.timeslice import Timeslice


class Scraper:
    """One scrape runs at a time: a broker with thousands of partitions has megabytes of text."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._lock = asyncio.Lock()
        self._last_s = 0.0

    async def collect(self, collectors: tuple[Collector, ...] = COLLECTORS) -> Collected:
        """Returns the samples of these collectors, by default of all."""
        collected = Collected()
        timeslice = Timeslice.of_running_loop()
        for collector in collectors:
            await timeslice.run(collector(self._sources, collected))
        return collected

    async def text(self, format_: str) -> bytes:
        """Returns all samples in one of the formats of `telemetry.exposition`."""
        async with self._lock:
            begun_s = self._sources.clock.monotonic_s()
            collected = await self.collect()
            collected.add(process.SCRAPE_TIME, self._last_s)
            text = await Timeslice.of_running_loop().run(render(collected.samples, format_))
            self._last_s = self._sources.clock.monotonic_s() - begun_s
            return text
