"""`python -m simulation`: plays a scenario from a seed, or from many.

With `--seed` the trace is printed; with `--seeds A-B` a line for each seed that fails, and a
summary. The exit code is 1 if any run failed. With `--plant NAME` a known bug is put into the code
first, and it is the other way round: the exit code is 0 if the seed, or one of the seeds, finds
the bug by a rule that it is known to break, which is said in one line, and 1 if none does. A
search ends with the first seed that does.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

from simulation.findings import FINDINGS, finds
from simulation.planted_bugs import PLANTS, planted
from simulation.run import run
from simulation.world import Simulation

# The module of each scenario, imported when it is run.
SCENARIOS = {
    "broker": "simulation.scenarios.broker",
    "clients": "simulation.scenarios.clients",
    "cluster": "simulation.scenarios.cluster",
    "failover": "simulation.scenarios.failover",
    "fencing": "simulation.scenarios.fencing",
    "groups": "simulation.scenarios.groups",
    "leases": "simulation.scenarios.leases",
    "retries": "simulation.scenarios.retries",
    "roles": "simulation.scenarios.roles",
    "topics": "simulation.scenarios.topics",
    "sink": "simulation.scenarios.sink",
    "storage": "simulation.scenarios.storage",
    "transactions": "simulation.scenarios.transactions",
}


def find(name: str) -> Callable[[Simulation], Coroutine[Any, Any, str]]:
    scenario: Callable[[Simulation], Coroutine[Any, Any, str]]
    scenario = getattr(import_module(SCENARIOS[name]), name)
    return scenario


def play(name: str, seed: int) -> tuple[int, bool, str]:
    """Runs one seed. Returns the seed, whether it passed, and a line about it."""
    try:
        return seed, True, run(find(name), seed).value
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return seed, False, _first_line(error)


def _first_line(error: Exception) -> str:
    return traceback.format_exception_only(error)[0].strip()[:300]


def play_one(name: str, seed: int, plant: str | None) -> int:
    """Prints the trace of one seed, then the verdict in one line."""
    played: list[Simulation] = []

    async def noted(simulation: Simulation) -> str:
        played.append(simulation)
        return await find(name)(simulation)

    error: Exception | None = None
    try:
        with planted(plant):
            value = run(noted, seed).value
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is the finding
        error = failure
    for simulation in played:
        sys.stdout.write(simulation.trace.text())
    if plant is not None:
        found = None if error is None else rule_shown(plant, error)
        print(_verdict(plant, seed, error, found), file=sys.stderr)
        return 0 if found else 1
    if error is not None:
        error.__notes__ = []  # It is the end of the trace.
        traceback.print_exception(error)
        return 1
    print(f"seed {seed} passed: {value}", file=sys.stderr)
    return 0


def _verdict(plant: str, seed: int, error: Exception | None, found: str | None) -> str:
    name = FINDINGS[plant].scenario
    if found is not None:
        return f"{plant}: found by seed {seed} of {name}: {found}"
    if error is None:
        return f"{plant}: not found by seed {seed} of {name}: the run passed"
    wanted = " or ".join(f"'{rule.strip()}'" for rule in FINDINGS[plant].says)
    return (
        f"{plant}: not found by seed {seed} of {name}: the run failed, but not by the rule"
        f" {wanted}: {_first_line(error)}"
    )


def rule_shown(plant: str, error: Exception) -> str | None:
    """The rule that the planted bug broke, and where; None if this error is no finding of it."""
    if not finds(plant, error):
        return None
    lines = [line.strip() for line in str(error).splitlines()]
    rules = FINDINGS[plant].says
    broken = [line for line in lines if any(rule in line for rule in rules)]
    # A client may have seen it first, by a rule of its own: the line after the headline says which.
    return (broken or lines[1:] or lines or [_first_line(error)])[0][:300]


def play_many(name: str, first: int, last: int, jobs: int) -> int:
    started = time.monotonic()
    count = last - first + 1
    failed: list[int] = []
    with ProcessPoolExecutor(jobs) as pool:
        for seed, passed, text in pool.map(
            partial(play, name), range(first, last + 1), chunksize=4
        ):
            if not passed:
                failed.append(seed)
                print(f"seed {seed}: {text}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{seed - first + 1} of {count}", end="\r", file=sys.stderr, flush=True)
    hint = f"; replay one with --seed {failed[0]}" if failed else ""
    elapsed_s = time.monotonic() - started
    print(f"{name}: {count - len(failed)} of {count} seeds passed in {elapsed_s:.1f} s{hint}")
    return 1 if failed else 0


def look_for(plant: str, seed: int) -> tuple[int, str | None]:
    """Runs one seed with a planted bug. Returns the seed and the rule that it broke, if any."""
    with planted(plant):  # Outside: a bug that cannot be planted is an error, and no search.
        try:
            run(find(FINDINGS[plant].scenario), seed)
        except Exception as error:  # noqa: BLE001 - most are no findings
            return seed, rule_shown(plant, error)
    return seed, None


def search(plant: str, first: int, last: int, jobs: int) -> int:
    """Looks for a seed that finds a planted bug, in the scenario that is made to."""
    name = FINDINGS[plant].scenario
    with ProcessPoolExecutor(jobs) as pool:
        for seed, text in pool.map(partial(look_for, plant), range(first, last + 1)):
            if text is not None:
                pool.shutdown(cancel_futures=True)
                number = seed - first + 1
                print(f"{plant}: found by seed {seed} of {name}, number {number}: {text}")
                return 0
    print(f"{plant}: not found by {name} with seeds {first} to {last}")
    return 1


def seeds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=sorted(SCENARIOS), help="default: broker")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--seed", type=int, help="play this seed and print its trace")
    choice.add_argument("--seeds", type=seeds, metavar="A-B", help="play all of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="a bug to be found")
    options = parser.parse_args()
    made_for = FINDINGS[options.plant].scenario if options.plant else None
    name = options.scenario or made_for or "broker"
    if made_for not in (None, name):
        parser.error(f"{options.plant} shows in {made_for}, not in {name}")
    if options.seed is not None:
        return play_one(name, options.seed, options.plant)
    first, last = options.seeds
    if options.plant is not None:
        return search(options.plant, first, last, options.jobs)
    return play_many(name, first, last, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
