"""What each engine of connectors costs: start, throughput, latency, memory.

    python -m benchmarks.connect_engines [--lines 200000] [--connectors 30] [--only shared,process]

    first record    from the start of a worker's engine to the first line of a file in its topic
    source, sink    lines of 100 bytes a second, from one file into a topic and out of it again,
                    from the start of the connector in an engine that runs to the last line
    latency         from the line in a file to a read_committed consumer, 50 lines a second
    memory          the worker and all its processes, shared pages counted once

The broker and whoever measures are on the same machine. Needs Java and Linux.
"""

import argparse
import asyncio
import os
import tempfile
import time
from typing import NamedTuple

from odradek.testing import Cluster
from tests.scenarios.connect_bench import RUNNING, Bench, until
from tests.scenarios.connect_isolation import Files, Latency, append, memory_mb, started

_KINDS = {"process": ("process", "shared"), "shared": ("spark", "shared"), "own": ("spark", "own")}
_LATENCY_S = 15.0


class Figures(NamedTuple):
    first_record_s: float
    source_per_s: float
    sink_per_s: float
    memory_mb: float
    latency: Latency | None
    latency_of_many: Latency | None
    more_mb: float | None


async def measured(kind: str, lines: int, connectors: int) -> Figures:
    engine, lane = _KINDS[kind]
    with Cluster() as broker, tempfile.TemporaryDirectory() as directory:
        for topic in ("first", "many"):
            broker.create_topic(topic)
        others = started()
        async with Bench(broker.bootstrap, engine) as bench:
            first_s = await _first_record_s(bench, directory, lane)
            base_mb = memory_mb(others)
            source, sink = await _throughput(bench, directory, lane, lines)
            if lane == "own":
                return Figures(first_s, source, sink, base_mb, None, None, None)
            files = Files(bench, directory)
            await files.start(1)
            one = await files.latency(1, _LATENCY_S)
            before_mb = memory_mb(others)
            await files.start(connectors - 1)
            many = await files.latency(connectors, _LATENCY_S)
            more_mb = (memory_mb(others) - before_mb) / (connectors - 1)
            return Figures(first_s, source, sink, base_mb, one, many, more_mb)


async def _first_record_s(bench: Bench, directory: str, lane: str) -> float:
    path = os.path.join(directory, "first")
    append(path, "line\n")
    began_s = time.monotonic()
    task = await bench.start(
        "first", connector_class="FileStreamSource", file=path, topic="first", odradek_lane=lane
    )
    await bench.values("first", 1)
    took_s = time.monotonic() - began_s
    await bench.reached(task, RUNNING)
    return took_s


async def _throughput(bench: Bench, directory: str, lane: str, lines: int) -> tuple[float, float]:
    """Returns the lines a second of a source and of a sink."""
    path, out = os.path.join(directory, "many"), os.path.join(directory, "out")
    append(path, "".join(f"{number:099d}\n" for number in range(lines)))
    size = 100 * lines
    began_s = time.monotonic()
    task = await bench.start(
        "many", connector_class="FileStreamSource", file=path, topic="many", odradek_lane=lane
    )
    partition = {"filename": path}
    await until(lambda: bench.offsets.of("many", partition) == {"position": size}, 600)
    source = lines / (time.monotonic() - began_s)
    await bench.stop(task)
    began_s = time.monotonic()
    task = await bench.start(
        "out", connector_class="FileStreamSink", file=out, topics="many", odradek_lane=lane
    )
    await until(lambda: os.path.exists(out) and os.path.getsize(out) >= size, 600)
    sink = lines / (time.monotonic() - began_s)
    await bench.stop(task)
    return source, sink


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--connectors", type=int, default=30)
    parser.add_argument("--only", default=",".join(_KINDS))
    given = parser.parse_args()
    for kind in given.only.split(","):
        figures = asyncio.run(measured(kind, given.lines, given.connectors))
        print(kind)
        print(f"  first record          {figures.first_record_s:.1f} s")
        print(
            f"  source / sink         {figures.source_per_s:,.0f} / {figures.sink_per_s:,.0f} a s"
        )
        print(f"  memory                {figures.memory_mb:.0f} MB")
        if figures.more_mb is not None:
            print(f"  each connector more   {figures.more_mb:.1f} MB")
            print(f"  latency, 1 connector  {figures.latency}")
            print(
                f"  latency, {given.connectors:<3}          {figures.latency_of_many}", flush=True
            )


if __name__ == "__main__":
    main()
