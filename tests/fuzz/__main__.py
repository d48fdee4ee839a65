"""The command: `python -m tests.fuzz --bootstrap HOST:PORT --pid PID --inputs 200000`."""

import argparse
import asyncio
import sys

from tests.fuzz.report import Limits
from tests.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--pid", type=int, help="the broker's process, to watch its memory")
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--silent", type=int, default=200, help="connections that say nothing")
    parser.add_argument(
        "--slow", type=int, default=50, help="connections that send a byte at times"
    )
    parser.add_argument("--slowest", type=int, default=5, help="how many slow inputs to show")
    arguments = parser.parse_args()
    host, _, port = arguments.bootstrap.rpartition(":")
    report = asyncio.run(
        fuzz(
            host,
            int(port),
            inputs=arguments.inputs,
            pid=arguments.pid,
            seed=arguments.seed,
            first=arguments.first,
            connections=arguments.connections,
            silent=arguments.silent,
            slow=arguments.slow,
            shows_progress=True,
        )
    )
    print("\n".join(report.lines()))
    for elapsed_s, entry in report.slowest[: arguments.slowest]:
        print(f"slow: {elapsed_s * 1000:.0f} ms, {entry}")
    for violation in report.violations:
        print(violation)
    faults = report.faults(Limits())
    for fault in faults:
        print("FAULT:", fault)
    if not faults:
        print("Every promise was kept.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
