"""One run: the topics, the canary, the crowd, the watch on memory, and the inputs between."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from time import perf_counter

import psutil

from tests.fuzz import canary
from tests.fuzz.crowd import Crowd
from tests.fuzz.driver import Driver
from tests.fuzz.inputs import InputSource
from tests.fuzz.report import Report
from tests.fuzz.wire import Wire, look_around, remove_others

# Compaction and recompression make a broker open batches that it would not open otherwise.
TOPICS = {
    "fuzz-0": {},
    "fuzz-1": {"cleanup.policy": "compact"},
    "fuzz-2": {"compression.type": "lz4"},
    "fuzz-3": {"message.timestamp.type": "LogAppendTime"},
}
_LUMP = 10_000
_BETWEEN_LOOKS_S = 0.1


class MemoryWatch:
    """The broker's resident memory, looked at ten times a second."""

    def __init__(self, pid: int | None) -> None:
        self._process = psutil.Process(pid) if pid is not None else None
        self.before_bytes = self.peak_bytes = self.look()

    def look(self) -> int:
        if self._process is None:
            return 0
        try:
            return int(self._process.memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    @property
    def is_alive(self) -> bool:
        if self._process is None:
            return True
        return bool(self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE)

    async def run(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, self.look())
            await asyncio.sleep(_BETWEEN_LOOKS_S)


async def fuzz(
    host: str,
    port: int,
    *,
    inputs: int,
    pid: int | None = None,
    seed: int = 0,
    first: int = 0,
    connections: int = 16,
    silent: int = 200,
    slow: int = 50,
    shows_progress: bool = False,
) -> Report:
    crowd = Crowd(host, port, silent, slow)
    made_by_chance = 0
    async with singing(host, port, pid) as song:
        # The canary has sung: what the broker loads at its first requests is loaded.
        watch = MemoryWatch(pid)
        driver = Driver(host, port)
        background = [asyncio.create_task(crowd.run()), asyncio.create_task(watch.run())]
        begun = perf_counter()
        for start in range(0, inputs, _LUMP):
            lump = min(_LUMP, inputs - start)
            removed, source = await _tidy(host, port, seed)
            made_by_chance += removed
            await driver.run(source, range(first + start, first + start + lump), connections)
            if not watch.is_alive:
                break
            if shows_progress:
                print(f"{start + lump} inputs", dict(driver.outcomes), file=sys.stderr, flush=True)
        elapsed_s = perf_counter() - begun
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
    return Report(
        inputs=sum(driver.outcomes.values()),
        elapsed_s=elapsed_s,
        sent_bytes=driver.sent_bytes,
        outcomes=dict(driver.outcomes),
        by_kind=dict(driver.by_kind),
        violations=driver.violations,
        slowest=driver.slowest,
        violation_count=driver.violation_count,
        crowd_closed=crowd.closed,
        crowd_size=silent + slow,
        topics_made_by_chance=made_by_chance,
        is_alive=watch.is_alive,
        memory_before_bytes=watch.before_bytes,
        memory_peak_bytes=watch.peak_bytes,
        memory_after_bytes=watch.look(),
        canary=song,
        canary_failures=song.pop("failures", []),
    )


async def _tidy(host: str, port: int, seed: int) -> tuple[int, InputSource]:
    """Puts the topics back as they should be, for the inputs to come."""
    wire = await Wire.open(host, port)
    try:
        removed = await remove_others(wire, {*TOPICS, canary.TOPIC})
        return removed, InputSource(seed, await look_around(wire, TOPICS))
    finally:
        wire.close()


@contextlib.asynccontextmanager
async def singing(host: str, port: int, pid: int | None) -> AsyncIterator[dict]:  # type: ignore[type-arg]
    """The canary in its own process; what it gives is filled in when it has ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.fuzz.canary",
        host,
        str(port),
        *([] if pid is None else [str(pid)]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    song: dict[str, object] = {}
    try:
        await asyncio.sleep(1)
        yield song
    finally:
        output, _ = await process.communicate(b"")
        song |= json.loads(output or "{}")
