"""Faults of hosts against a cluster of real processes, under load from every kind of client.

    python -m tests.scenarios.hosts --minutes 10 [--store embedded|zookeeper]
                                    [--faults cut,delay,stop] [--seed N]

Needs root, `ip netns` and /dev/net/tun. See docs/chaos.md.
"""

import argparse
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.chaos_run import report
from tests.scenarios.hosts.faults import KINDS
from tests.scenarios.hosts.run import HostsRun, possible
from tests.scenarios.namespaces import CannotRun

_EPILOG = """
faults (each happens to a broker that is drawn by chance, and lasts as long as it says):
{faults}

examples:
  python -m tests.scenarios.hosts
      five minutes of every fault, brokers with the embedded store
  python -m tests.scenarios.hosts --minutes 30 --store zookeeper
      half an hour with a ZooKeeper ensemble of three
  python -m tests.scenarios.hosts --minutes 2 --faults cut-pair,stop --seed 172417
      two faults in turn; the seed repeats their order and whom they happen to, not the
      moment at which a client sends

It needs root, `ip netns` (iproute2) and /dev/net/tun; a fault that this machine or this store
does not allow is named and left out. Runs may be at work side by side. SIGINT and SIGTERM end a
run early; everything it started ends with it.

exit code: 0 no anomaly, 1 an anomaly (data and logs are kept, and it says where), 2 it cannot
run here, 130 or 143 it was ended early. docs/chaos.md says what is judged.
"""


def hosts(directory: Path, *, minutes: float, store: str, faults: Sequence[str], seed: int) -> int:
    """Runs the faults in a random order, over and over; the exit code."""
    with HostsRun(directory, store=store, seed=seed) as run:
        names = possible(run, faults)
        if not names:
            raise CannotRun("none of the faults that were asked for can be made here")
        began_s = time.monotonic()
        waiting: list[str] = []
        while time.monotonic() - began_s < minutes * 60 and not run.troubles:
            if not waiting:
                waiting = run.chance.sample(names, len(names))
            line = run.suffer(waiting.pop())
            print(f"{time.monotonic() - began_s:6.0f} s  {line}", flush=True)
        found = run.judge()
        print(run.table())
        return report(directory, run, found, "no anomaly")


def _arguments() -> argparse.Namespace:
    faults = [f"  {name:10} {kind.seconds:3.0f} s  {kind.text}" for name, kind in KINDS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.hosts",
        description=__doc__.split("\n")[0],
        epilog=_EPILOG.format(faults="\n".join(faults)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=5,
        metavar="N",
        help="no fault begins after so many minutes (%(default)s); the last one is played to its"
        " end, and the judgement takes a minute more",
    )
    parser.add_argument(
        "--store",
        choices=("embedded", "zookeeper"),
        default="embedded",
        help="where the brokers keep their metadata (%(default)s)",
    )
    parser.add_argument(
        "--faults", default=",".join(KINDS), metavar="A,B", help="which, separated by commas (all)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(1_000_000),
        metavar="N",
        help="repeats the order of the faults and their victims (drawn by chance, and printed)",
    )
    options = parser.parse_args()
    options.faults = options.faults.split(",")
    unknown = set(options.faults) - set(KINDS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if options.minutes <= 0:
        parser.error("--minutes must be more than 0")
    return options


def _end(number: int, _: object) -> None:
    """Ends the run as an exception, so that everything that it started is ended too."""
    sys.exit(128 + number)


def main() -> int:
    options = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    print(f"seed {options.seed}, store {options.store}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="odradek-hosts-"))
    # Our own clients complain of every fault; that would bury the lines about the faults.
    logging.basicConfig(
        filename=directory / "clients.log", format="[%(asctime)s] %(levelname)s %(message)s"
    )
    try:
        code = hosts(
            directory,
            minutes=options.minutes,
            store=options.store,
            faults=options.faults,
            seed=options.seed,
        )
    except CannotRun as reason:
        print(f"cannot run here: {reason}")
        code = 2
    if code != 1:
        shutil.rmtree(directory)
    return code


if __name__ == "__main__":
    sys.exit(main())
