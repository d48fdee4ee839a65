"""Exactly once through Spark, whoever dies: source, transform, sink, and what is read at the end.

    python -m tests.scenarios.spark_exactly_once [--runs 20] [--records 200000] [--seed 1]

On a Spark cluster with two workers, speculation on. `tests.spark.doomed_sink` says who dies when,
in each run: tasks when they are initialised, before their commit and after it; a task that is raced
by a second attempt; a driver between its tasks and its commit log; a driver in the midst of a
batch; a broker under an open transaction. A run has failed if one did not happen, or if nobody
tried again. Output must equal input, each record once, as a read_committed consumer sees it.
Needs the extra `spark`, Java and Linux.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from odradek.testing import Cluster
from simulation.sink_steps import Step
from tests.spark.class_archive import use_class_archive
from tests.spark.doomed_sink import BATCHES, BEATEN, TASKS, Fate
from tests.spark.marks import Marks
from tests.spark.standalone import ENVIRONMENT, standalone
from tests.spark.topics import fill, values_in

_ROOT = Path(__file__).parents[2]
_LIFE_TIMEOUT_S = 240.0


class Failed(AssertionError):
    """What a run got wrong."""


class Run:
    """One run: brokers and topics of its own, three lives of a driver."""

    def __init__(self, brokers: Cluster, master: str, directory: str, seed: int) -> None:
        self._brokers = brokers
        self._master = master
        self._directory = directory
        self._seed = seed
        self._fate = Fate.of(seed)
        self._chance = random.Random(seed)
        self._marks = Marks(f"{directory}/marks")

    def play(self, records: int) -> None:
        source, sink = (
            self._brokers.create_topic(partitions=2, replication_factor=3) for _ in range(2)
        )
        wanted = [b"%08d" % index for index in range(records)]
        fill(self._brokers, source, wanted)
        words = [self._master, self._brokers.bootstrap, source, sink, self._directory]
        words += [str(records // BATCHES), str(self._seed)]
        self._live([*words, "1"], "uncommitted", self._kill_driver)
        self._live([*words, "2"], "midway", self._kill_driver)
        self._marks.first("driver")
        self._live([*words, "3"], "endangered", self._kill_broker)
        _compare(Counter(values_in(self._brokers, sink, 2)), [b"done " + one for one in wanted])
        self._check_marks()

    def _live(
        self, words: list[str], mark: str, disturb: "Callable[[subprocess.Popen[bytes]], None]"
    ) -> None:
        """A driver from its start to its end, with what happens to it at `mark`."""
        log = Path(self._directory, "driver.log")
        with log.open("ab") as said:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.doomed_driver", *words],
                stdout=said,
                stderr=said,
                cwd=_ROOT,
                env={**os.environ, **ENVIRONMENT},
                # A group of its own: the driver dies together with its Java and its helpers.
                start_new_session=True,
            )
        try:
            end_s = time.monotonic() + _LIFE_TIMEOUT_S
            while not self._marks.has(mark):
                if driver.poll() is not None or time.monotonic() > end_s:
                    text = log.read_text(errors="replace")[-3000:]
                    raise Failed(f"{mark} never came; the driver said: {text}")
                time.sleep(0.02)
            disturb(driver)
        finally:
            _kill_group(driver)

    def _kill_driver(self, driver: "subprocess.Popen[bytes]") -> None:
        time.sleep(self._chance.random() / 2)
        if driver.poll() is not None:
            raise Failed("the driver ended before it was killed")

    def _kill_broker(self, driver: "subprocess.Popen[bytes]") -> None:
        self._brokers.kill(self._fate.broker)
        self._marks.first("broker")
        time.sleep(1 + self._chance.random())
        self._brokers.restart(self._fate.broker)
        if driver.wait(_LIFE_TIMEOUT_S) != 0:
            text = Path(self._directory, "driver.log").read_text(errors="replace")[-3000:]
            raise Failed(f"the driver ended with {driver.returncode}: {text}")

    def _check_marks(self) -> None:
        """That each fail point was hit, and what had to follow did."""
        names = self._marks.names()
        missed = [f"it never came to {name}" for name in names if name.startswith("never-")]
        for name in ("uncommitted", "midway", "driver", "endangered", "broker", "rival", BEATEN):
            if name not in names:
                missed.append(f"no mark {name}")
        # An attempt that died left no end behind: whoever did was another one.
        missed += [f"no task died {step.value}" for step in Step if step.value not in names]
        ended = [(0, task, 1) for task in range(TASKS)] + [(1, task, 1) for task in range(TASKS)]
        ended += [(2, task, 3) for task in range(TASKS)] + [(3, task, 3) for task in range(TASKS)]
        missed += [
            f"task {task} of batch {batch} never ended well in life {life}"
            for batch, task, life in ended
            if not self._ends(batch, task, life)
        ]
        # What was committed must have been seen, and not be written again: the task that died after
        # its commit, all of the batch that is not in the commit log, perhaps one of the next.
        skipped = [(0, task, 1) for task, at in self._fate.dies_at.items() if at is Step.COMMITTED]
        skipped += [(1, task, 2) for task in range(TASKS)]
        if self._fate.driver_dies_at is Step.COMMITTED:
            skipped.append((2, self._fate.driver_dies_in, 3))
        missed += [
            f"task {task} of batch {batch} did not skip in life {life}"
            for batch, task, life in skipped
            if self._ends(batch, task, life) != {"skipped"}
        ]
        if missed:
            raise Failed(f"{'; '.join(missed)}; marks: {' '.join(sorted(names))}")

    def _ends(self, batch: int, task: int, life: int) -> set[str]:
        """How attempts at a task ended that did end: `wrote`, `skipped`."""
        return {
            kind
            for kind, *place in (name.split("-") for name in self._marks.names())
            if kind in {"wrote", "skipped"} and place[:3] == [str(batch), str(task), str(life)]
        }


def _kill_group(driver: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def _compare(found: "Counter[bytes]", wanted: list[bytes]) -> None:
    lost = [value for value in wanted if value not in found]
    doubled = [value for value, count in found.items() if count > 1]
    extra = found.keys() - set(wanted)
    if lost or doubled or extra:
        raise Failed(f"{len(lost)} lost, {len(doubled)} doubled, {len(extra)} never sent")


def one_run(master: str, records: int, seed: int) -> None:
    # Records of 1970 are old: nothing may delete them.
    with (
        tempfile.TemporaryDirectory() as directory,
        Cluster(brokers=3, settings={"log.retention.ms": "-1"}) as brokers,
    ):
        Run(brokers, master, directory, seed).play(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    failed = 0
    use_class_archive()
    with tempfile.TemporaryDirectory() as where, standalone(Path(where)) as master:
        for seed in range(wanted.seed, wanted.seed + wanted.runs):
            began = time.monotonic()
            try:
                one_run(master, wanted.records, seed)
                said = "passed"
            except Failed as error:
                failed += 1
                said = f"FAILED: {error}"
            print(f"seed {seed} {time.monotonic() - began:.0f} s {said}", flush=True)
    print(f"{wanted.runs - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
