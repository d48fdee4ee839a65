"""File sources through Spark's lane while their processes are killed: nothing lost, nothing twice.

    python -m tests.scenarios.connect_kills [--kills 20] [--seed 1] [--lane own] [--only host,java]

Lines are appended to the files of three sources, which write in small transactions, so that each
kill finds some of them between two commits, and others within one. Every few seconds one is killed
by `kill -9`: the worker, the process that all tasks are forked from (zygote), a task's process
(host), the process that has Spark (driver), Java, a Python worker of Spark's (python). A worker
that was killed is started again. At the end a read_committed consumer must find exactly the lines
of each file, in their order. A sink reads what one source writes: its file must have each line at
least once. Needs Java and Linux.
"""

import argparse
import asyncio
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from odradek.testing import Cluster
from tests.scenarios.connect_bench import Bench, until
from tests.scenarios.connect_isolation import append
from tests.scenarios.lane_processes import COMMANDS, processes_of

# With a lane of its own each has a Java, so there are fewer.
SOURCES = {"shared": 3, "own": 1}
_WORKER = "tests.scenarios.connect_kills --as-worker"
VICTIMS = ("worker", *COMMANDS)
_EVERY_S = 0.002
_BETWEEN_KILLS_S = (1.5, 5.0)


class Failed(AssertionError):
    """What is not as it should be."""


async def work(bootstrap: str, directory: str, lane: str) -> None:
    """The worker that is killed."""
    async with Bench(bootstrap, offsets_topic="offsets") as bench:
        for number in range(SOURCES[lane]):
            await bench.start(
                f"file-{number}",
                connector_class="FileStreamSource",
                file=f"{directory}/in-{number}",
                topic=f"lines-{number}",
                # Small transactions; in a lane of its own a whole batch is one.
                batch_size="20" if lane == "shared" else "2000",
                odradek_lane=lane,
            )
        await bench.start(
            "sink",
            connector_class="FileStreamSink",
            file=f"{directory}/out",
            topics="lines-0",
            odradek_lane=lane,
            # Else the group waits 45 s for the member that was killed.
            consumer_override_session_timeout_ms="6000",
        )
        await asyncio.Event().wait()


class Worker:
    def __init__(self, bootstrap: str, directory: str, lane: str) -> None:
        self._command = [sys.executable, "-m", "tests.scenarios.connect_kills", "--as-worker"]
        self._command += [bootstrap, directory, lane]
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, cwd=Path(__file__).parents[2])

    def victims(self, kind: str) -> list[psutil.Process]:
        """Returns the processes of a kind that run now."""
        command = _WORKER if kind == "worker" else None
        return processes_of(self._process.pid, kind, command)

    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kills one of a kind; returns whether there was one."""
        victims = self.victims(kind)
        if not victims:
            return False
        victim = chance.choice(victims)
        os.kill(victim.pid, signal.SIGKILL)
        if victim.pid == self._process.pid:
            self._process.wait()
            self._process = self._started()
        return True

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


async def play(kinds: Sequence[str], seed: int, lane: str = "shared") -> int:
    """Returns how many lines each source has had."""
    chance = random.Random(seed)
    with Cluster() as broker, tempfile.TemporaryDirectory() as directory:
        sources = range(SOURCES[lane])
        for number in sources:
            broker.create_topic(f"lines-{number}")
            append(f"{directory}/in-{number}", "0\n")
        worker = Worker(broker.bootstrap, directory, lane)
        try:
            over = asyncio.Event()
            reader = Bench(broker.bootstrap)
            await reader.values("lines-0", 1)
            writing = asyncio.create_task(_write(directory, sources, over))
            for kind in kinds:
                await asyncio.sleep(chance.uniform(*_BETWEEN_KILLS_S))
                await until(functools.partial(worker.kill, kind, chance))
                print(f"killed: {kind}", flush=True)
            await asyncio.sleep(_BETWEEN_KILLS_S[0])
            over.set()
            lines = await writing
            await _check(reader, directory, sources, lines)
        finally:
            worker.end()
    return lines


async def _write(directory: str, sources: Iterable[int], over: asyncio.Event) -> int:
    """Appends lines to all files until it is over, and returns how many each has: one is there."""
    lines = 1
    while not over.is_set():
        text = "".join(f"{lines + more}\n" for more in range(5))
        for number in sources:
            append(f"{directory}/in-{number}", text)
        lines += 5
        await asyncio.sleep(_EVERY_S)
    return lines


async def _check(reader: Bench, directory: str, sources: Iterable[int], lines: int) -> None:
    wanted = [str(line) for line in range(lines)]
    for number in sources:
        found = await reader.values(f"lines-{number}", lines, settle_s=1.0)
        if found != wanted:
            lost, doubled = len({*wanted} - {*found}), len(found) - len({*found})
            raise Failed(f"source {number}: {lost} of {lines} lost, {doubled} came twice")
    out = Path(f"{directory}/out")
    await until(lambda: out.exists() and {*wanted} <= {*out.read_text().split()})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lane", choices=["shared", "own"], default="shared")
    parser.add_argument("--only", help="who is killed, by turns; by default all that the lane has")
    parser.add_argument("--as-worker", nargs=3, metavar=("BOOTSTRAP", "DIRECTORY", "LANE"))
    given = parser.parse_args()
    if given.as_worker:
        asyncio.run(work(*given.as_worker))
        return 0
    of_lane = VICTIMS if given.lane == "shared" else ("worker", "driver", "java")
    names = given.only.split(",") if given.only else [*of_lane]
    kinds = [names[number % len(names)] for number in range(given.kills)]
    random.Random(given.seed).shuffle(kinds)
    try:
        lines = asyncio.run(play(kinds, given.seed, given.lane))
    except Failed as failed:
        print(f"FAILED with --seed {given.seed}: {failed}")
        return 1
    print(f"{given.kills} kills: {SOURCES[given.lane]} sources of {lines:,} lines, each once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
