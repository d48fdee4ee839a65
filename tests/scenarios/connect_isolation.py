"""Connectors in one lane, some of which hang, fail and flood: how the others fare.

    python -m tests.scenarios.connect_isolation [--connectors 30] [--seconds 20] [--engine spark]

First all connectors are file sources that work: lines are appended to their files, and a
read_committed consumer looks at its clock when they arrive. Then five of them make place for one
that hangs in C with the interpreter's lock, one that hangs in a socket, one that hangs in sleep,
one that fails, and one that floods; the others' latency is measured again. It fails if the others'
median or p95 more than doubles (and differs by more than `_NOISE_MS`), if a task that hangs or
fails is not shown so within 5 seconds, or if a connector costs more than 20 MB. Needs Java and
Linux.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import quantiles
from typing import NamedTuple

import psutil

from odradek.client import Consumer
from odradek.connect.engine.engine import TaskId
from odradek.testing import Cluster
from tests.scenarios import odd_connectors
from tests.scenarios.connect_bench import FAILED, RUNNING, Bench

HANGING = ("HangsInC", "HangsInSocket", "HangsInSleep")
ODD = (*HANGING, "Fails", "Floods")
STATUS_S = 5.0
WORKER_MB = 900.0
CONNECTOR_MB = 20.0
_EVERY_S = 0.02
_WARM_UP_S = 3.0
# Two runs of the same thing differ by so much.
_NOISE_MS = 50.0


class Failed(AssertionError):
    """What is not as it should be."""


class Latency(NamedTuple):
    p50: float
    p95: float
    p99: float
    lines: int

    @classmethod
    def of(cls, measured_ms: Sequence[float]) -> "Latency":
        cuts = quantiles(measured_ms, n=100)
        return cls(cuts[49], cuts[94], cuts[98], len(measured_ms))

    def __str__(self) -> str:
        return f"p50 {self.p50:.0f}, p95 {self.p95:.0f}, p99 {self.p99:.0f} ms ({self.lines} lines)"


class Result(NamedTuple):
    calm: Latency
    beside_odd: Latency
    status_s: dict[str, float]
    worker_mb: float
    connector_mb: float
    flooded: int


class Files:
    """File sources, each with a file and a topic of its own."""

    def __init__(self, bench: Bench, directory: str) -> None:
        self._bench = bench
        self._directory = directory
        self.tasks: list[TaskId] = []

    async def start(self, count: int) -> None:
        for number in range(len(self.tasks), len(self.tasks) + count):
            append(self._path(number), "0\n")
            self.tasks.append(
                await self._bench.start(
                    f"file-{number}",
                    connector_class="FileStreamSource",
                    file=self._path(number),
                    topic=f"lines-{number}",
                )
            )
        for task in self.tasks:
            await self._bench.reached(task, RUNNING)

    async def latency(self, files: int, seconds: float) -> Latency:
        """Appends lines to the first `files` files by turns, and measures how long they take."""
        found: list[float] = []
        options = {
            **self._bench.clients,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        began_s = time.time()
        async with Consumer(options) as consumer:
            consumer.assign([(f"lines-{number}", 0) for number in range(files)])
            writing = asyncio.create_task(self._write(files, seconds))
            while not writing.done() or time.time() < writing.result() + 2.0:
                for records in (await consumer.poll(timeout_ms=100)).values():
                    now_s = time.time()
                    sent = [float(record.value or b"0") for record in records]
                    found += [(now_s - at_s) * 1000 for at_s in sent if at_s > began_s]
            return Latency.of(found)

    async def _write(self, files: int, seconds: float) -> float:
        """Lines of the first seconds are written, and not counted. Returns when it ended."""
        began_s = time.time()
        chance = random.Random(1)
        while (now_s := time.time()) < began_s + _WARM_UP_S + seconds:
            text = f"{now_s}\n" if now_s > began_s + _WARM_UP_S else "0\n"
            append(self._path(chance.randrange(files)), text)
            await asyncio.sleep(_EVERY_S)
        return time.time()

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, f"in-{number}")


def append(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def started() -> set[int]:
    """Returns the ids of all processes that this one has started, and those that they have."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def memory_mb(others: set[int]) -> float:
    """Returns the memory of this process and all that it has started but `others`. Shared pages
    are counted once."""
    total = 0
    for pid in {os.getpid(), *started()} - others:
        try:
            total += psutil.Process(pid).memory_full_info().pss
        except psutil.Error:
            continue
    return total / (1 << 20)


async def measured(
    engine: str, connectors: int, seconds: float, odd: Sequence[str] = ODD
) -> Result:
    with (
        Cluster(settings={"log.retention.bytes": "20000000"}) as broker,
        tempfile.TemporaryDirectory() as directory,
    ):
        odd_connectors.install()
        brokers = started()
        async with Bench(broker.bootstrap, engine) as bench:
            files = Files(bench, directory)
            await files.start(1)
            await asyncio.sleep(_WARM_UP_S)
            alone_mb = memory_mb(brokers)
            await files.start(connectors - 1)
            others = connectors - len(odd)
            calm = await files.latency(others, seconds)
            each_mb = (memory_mb(brokers) - alone_mb) / (connectors - 1)
            print(f"all work: {calm}; a connector has {each_mb:.1f} MB", flush=True)
            for task in files.tasks[others:]:
                await bench.stop(task)
            status_s = await _started_odd(bench, odd, directory)
            beside = await files.latency(others, seconds)
            flooded = bench.engine.figures()[TaskId("Floods", 0)][0].written
            for task in files.tasks[:others]:
                assert bench.state(task) == RUNNING, (task, bench.events[task])
        return Result(calm, beside, status_s, alone_mb, each_mb, flooded)


async def _started_odd(bench: Bench, odd: Sequence[str], directory: str) -> dict[str, float]:
    """Starts those that misbehave, lets them, and returns after how many seconds it was seen."""
    go = os.path.join(directory, "go")
    tasks = {
        name: await bench.start(name, connector_class=f"tests.{name}", topic=f"of-{name}", go=go)
        for name in odd
    }
    for task in tasks.values():
        await bench.reached(task, RUNNING)
    began_s = time.monotonic()
    append(go, "")
    seen = {}
    for name, task in tasks.items():
        if name != "Floods":
            await bench.reached(task, FAILED)
            event = next(event for event in bench.events[task] if event.state == FAILED)
            seen[name] = event.at_s - began_s
            last = event.trace.strip().splitlines()[-3:]
            print(f"{name}: {event.reason}\n    " + "\n    ".join(last), flush=True)
    return seen


def check(
    result: Result,
    *,
    noise_ms: float = _NOISE_MS,
    status_s: float = STATUS_S,
    worker_mb: float = WORKER_MB,
) -> None:
    for name in ("p50", "p95"):
        before, after = getattr(result.calm, name), getattr(result.beside_odd, name)
        if after > 2 * before and after - before > noise_ms:
            raise Failed(f"{name} of the others rose from {before:.0f} to {after:.0f} ms")
    for name, seconds in result.status_s.items():
        if seconds > status_s:
            raise Failed(f"{name} was shown as failed only after {seconds:.1f} s")
    if result.connector_mb > CONNECTOR_MB:
        raise Failed(f"a connector costs {result.connector_mb:.1f} MB")
    if result.worker_mb > worker_mb:
        raise Failed(f"a worker with one connector has {result.worker_mb:.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--connectors", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--engine", choices=["spark", "process"], default="spark")
    given = parser.parse_args()
    result = asyncio.run(measured(given.engine, given.connectors, given.seconds))
    print(f"with one connector    {result.worker_mb:.0f} MB")
    print(f"each more             {result.connector_mb:.1f} MB")
    print(f"all work              {result.calm}")
    print(f"beside the odd ones   {result.beside_odd}; one flooded {result.flooded:,} records")
    for name, seconds in result.status_s.items():
        print(f"{name:<21} shown after {seconds:.1f} s")
    try:
        check(result)
    except Failed as failed:
        print(f"FAILED: {failed}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
