"""`python -m simulation.measuring`: how well the simulation searches.

    bugs        the seeds that each planted bug needs, in searches from several starts
    coverage    branch coverage of the most important packages, by scenarios alone

Both show what the scenarios lack: a bug that needs many seeds, a branch that no run takes.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Final

from odradek.world.installing import install_line
from simulation.__main__ import SCENARIOS, find, look_for, seeds
from simulation.findings import FINDINGS
from simulation.run import run

# The first seed of the first search, and the distance to that of the next one.
_FIRST: Final = 1_000
_APART: Final = 10_000
_ROOMS: Final = (
    "replication",
    "storage/recovery",
    "storage/segment_recovery",
    "transactions",
    "groups",
)


def needed(plant: str, first: int, most: int) -> int:
    """How many seeds were played until the bug was found; `most` + 1 if it was not."""
    for number in range(1, most + 1):
        if look_for(plant, first + number - 1)[1] is not None:
            return number
    return most + 1


def measure_bugs(plants: Iterable[str], searches: int, most: int, jobs: int) -> int:
    """Prints one line for each bug. Returns how many were not found in time."""
    late = 0
    starts = [_FIRST + search * _APART for search in range(searches)]
    with ProcessPoolExecutor(jobs) as pool:
        for plant in plants:
            counts = list(pool.map(partial(needed, plant, most=most), starts))
            middle = median(counts)
            late += middle > most
            told = ", ".join(str(count) if count <= most else f">{most}" for count in counts)
            middle_told = f"{middle:.0f}" if middle <= most else f">{most}"
            print(
                f"| `{plant}` | `{FINDINGS[plant].scenario}` | {middle_told} | {told} |", flush=True
            )
    return late


def measure_coverage(names: Iterable[str], first: int, last: int) -> int:
    """Needs coverage.py. Imports come first, so that only what scenarios do is counted."""
    try:
        import coverage  # noqa: PLC0415 - a tool for developers
    except ImportError:
        print(f"coverage.py is missing: {install_line('dev')}", file=sys.stderr)
        return 1
    measured = coverage.Coverage(branch=True, source=["odradek"], data_file=None)
    measured.start()
    for name in names:
        for seed in range(first, last + 1):
            try:
                run(find(name), seed)
            except Exception as error:  # noqa: BLE001 - what a run reached counts all the same
                print(f"{name} {seed}: {type(error).__name__}", file=sys.stderr)
    measured.stop()
    for room in _ROOMS:
        print(f"{room}: {_branches(measured, room):.1f} % of branches")
    return 0


def _branches(measured: object, room: str) -> float:
    """The share of branches taken in the files of a room."""
    taken = possible = 0
    for path in measured.get_data().measured_files():  # type: ignore[attr-defined]
        if f"/odradek/{room}/" in path or path.endswith(f"/odradek/{room}.py"):
            numbers = measured._analyze(path).numbers  # type: ignore[attr-defined]
            taken += numbers.n_executed_branches
            possible += numbers.n_branches
    return 100 * taken / possible if possible else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.measuring", description=__doc__)
    parser.add_argument("what", choices=("bugs", "coverage"))
    parser.add_argument("--only", nargs="*", help="these bugs, or these scenarios")
    parser.add_argument("--searches", type=int, default=5, help="from how many starts")
    parser.add_argument("--most", type=int, default=200, help="seeds before a search gives up")
    parser.add_argument("--seeds", type=seeds, metavar="A-B", default=(1, 20), help="for coverage")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    if options.what == "bugs":
        plants = options.only or sorted(FINDINGS)
        return 1 if measure_bugs(plants, options.searches, options.most, options.jobs) else 0
    return measure_coverage(options.only or sorted(SCENARIOS), *options.seeds)


if __name__ == "__main__":
    sys.exit(main())
