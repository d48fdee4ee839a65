"""Exactly once through Spark, whoever dies: source, transform, sink, and what is read at the end.

    python -m tests.scenarios.spark_exactly_once [--runs 20] [--records 200000]

In each run every one of these happens at least once: a task dies when it is initialised, before its
commit and after it; a slow task meets a second attempt beside it; the driver dies after all tasks
and before its commit log, and once at any time; a broker dies. Output must equal input, each record
once, as a read_committed consumer sees it. Needs the extra `spark` and Java.
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
from pathlib import Path

from odradek.testing import Cluster
from tests.spark.failing_sink import Marks
from tests.spark.topics import fill, values_in

_MOST_STARTS = 10
_BATCHES = 4
WANTED = {"initialised", "written", "committed", "straggled", "uncommitted", "driver", "broker"}


def _cluster() -> Cluster:
    # Records of 1970 are old: nothing may delete them.
    return Cluster(brokers=3, settings={"log.retention.ms": "-1"})


class Failed(AssertionError):
    """What a run got wrong."""


def one_run(records: int, seed: int) -> dict[str, int]:
    """One run; how often the driver was started, or `Failed`."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory, _cluster() as brokers:
        source = brokers.create_topic(partitions=2, replication_factor=3)
        sink = brokers.create_topic(partitions=2, replication_factor=3)
        wanted = [b"%08d" % index for index in range(records)]
        fill(brokers, source, wanted)
        marks = Marks(f"{directory}/hit")
        starts = _until_done(brokers, [source, sink, directory], records, marks, chance)
        found = Counter(values_in(brokers, sink, 2))
        _compare(found, [b"done " + value for value in wanted])
        if missed := WANTED - marks.kinds():
            raise Failed(f"never happened: {', '.join(sorted(missed))}")
        return {"seed": seed, "starts": starts}


def _until_done(
    brokers: Cluster, names: list[str], records: int, marks: Marks, chance: random.Random
) -> int:
    for start in range(1, _MOST_STARTS + 1):
        command = [sys.executable, "-m", "tests.spark.doomed_driver", brokers.bootstrap, *names]
        with Path(names[-1], "driver.log").open("ab") as log:
            driver = subprocess.Popen(
                [*command, str(records // _BATCHES)],
                stdout=log,
                stderr=log,
                # A group of its own: the driver dies together with its Java and its workers.
                start_new_session=True,
            )
        try:
            _disturb(driver, brokers, marks, chance)
            if driver.wait(timeout=240) == 0:
                return start
        finally:
            _kill_group(driver)
    log_text = Path(names[-1], "driver.log").read_text(errors="replace")
    raise Failed(f"not done after {_MOST_STARTS} starts: {log_text[-2000:]}")


def _disturb(
    driver: "subprocess.Popen[bytes]", brokers: Cluster, marks: Marks, chance: random.Random
) -> None:
    """Once tasks commit, ends a broker in one start and the driver in another."""
    while driver.poll() is None and "committed" not in marks.kinds():
        time.sleep(0.05)
    if driver.poll() is not None:
        return
    if marks.first("broker"):
        time.sleep(chance.random())
        brokers.kill(2)
        time.sleep(1 + chance.random())
        brokers.restart(2)
    elif "uncommitted" in marks.kinds() and marks.first("driver"):
        time.sleep(8 * chance.random())
        _kill_group(driver)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    failed = 0
    for seed in range(wanted.seed, wanted.seed + wanted.runs):
        began = time.monotonic()
        try:
            said: object = one_run(wanted.records, seed)
        except Failed as error:
            failed += 1
            said = f"seed {seed} FAILED: {error}"
        print(said, f"{time.monotonic() - began:.0f} s", flush=True)
    print(f"{wanted.runs - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
