"""Faults of hosts against a cluster of real processes, under load from every kind of client.

    python -m tests.scenarios.hosts --minutes 10 [--store embedded|zookeeper]
                                    [--faults cut,delay,stop] [--seed N]

Needs root, `ip netns` and /dev/net/tun. See docs/chaos.md.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.chaos_cluster import CannotRun
from tests.scenarios.hosts.faults import SECONDS
from tests.scenarios.hosts.run import HostsRun, possible


def hosts(directory: Path, *, minutes: float, store: str, faults: Sequence[str], seed: int) -> int:
    """Runs the faults in a random order, over and over; the exit code."""
    with HostsRun(directory, store=store, seed=seed) as run:
        names = possible(run, faults)
        if not names:
            raise CannotRun("none of the faults that were asked for can be made here")
        began_s = time.monotonic()
        waiting: list[str] = []
        while time.monotonic() - began_s < minutes * 60:
            if not waiting:
                waiting = run.chance.sample(names, len(names))
            line = run.suffer(waiting.pop())
            print(f"{time.monotonic() - began_s:6.0f} s  {line}", flush=True)
        found = run.judge()
        print(run.table())
        print(run.summary())
        for anomaly in found[:20]:
            print(f"WRONG: {anomaly}")
    if found:
        print(f"{len(found)} anomalies; logs are in {directory}")
        return 1
    print("no anomaly")
    shutil.rmtree(directory)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.hosts",
        description=__doc__.split("\n")[0],
        epilog="Needs root, `ip netns` and /dev/net/tun. Exit code: 0 no anomaly, 1 an anomaly,"
        " 2 it cannot run here. docs/chaos.md explains the faults.",
    )
    parser.add_argument("--minutes", type=float, default=5, help="how long (%(default)s)")
    parser.add_argument(
        "--store",
        choices=("embedded", "zookeeper"),
        default="embedded",
        help="where the brokers keep their metadata (%(default)s)",
    )
    parser.add_argument(
        "--faults", default=",".join(SECONDS), help="separated by commas (all: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(1_000_000),
        help="repeats the order of the faults (by chance)",
    )
    options = parser.parse_args()
    faults = options.faults.split(",")
    unknown = set(faults) - set(SECONDS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(SECONDS)}")
    print(f"seed {options.seed}, store {options.store}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="odradek-hosts-"))
    try:
        return hosts(
            directory,
            minutes=options.minutes,
            store=options.store,
            faults=faults,
            seed=options.seed,
        )
    except CannotRun as reason:
        print(f"cannot run here: {reason}")
        shutil.rmtree(directory)
        return 2


if __name__ == "__main__":
    sys.exit(main())
