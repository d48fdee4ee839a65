"""`python -m simulation.sweep --until 5000`: fresh seeds, over several sittings.

A sweep of all scenarios takes hours. So each finished slice of seeds is written into a ledger (a
file of JSON lines), with the digest of the code that played it. A later call goes on where the
ledger ends, counts only the slices that the same code played, and never plays a seed again.
`--show` prints the table without playing.

The digest covers the modules of `odradek` and `simulation` that the scenarios load, without
comments and docstrings: a change of a room that no scenario loads, or of a sentence, leaves it as
it is. A module that is imported only in a rare branch is not covered.

The exit code is 1 if a seed failed on this code.
"""

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, cycle
from pathlib import Path
from typing import Final

from simulation.__main__ import SCENARIOS, play

# Long enough that the ledger stays small, short enough that an interrupted sweep loses little.
SLICE_SEEDS: Final = 25
# A seed leaves memory behind: tasks that never end refer to what its processes had when the power
# failed. A new process for every few slices bounds that.
_SLICES_A_PROCESS: Final = 13
_NEW_PROCESSES: Final = multiprocessing.get_context("spawn")
_PACKAGES: Final = ("odradek", "simulation")
_LEDGER: Final = Path(__file__).with_name("sweeps.jsonl")


@dataclass(frozen=True, slots=True)
class Slice:
    """Seeds of one scenario that were played in a row, and those that failed."""

    digest: str
    scenario: str
    first: int
    last: int
    failed: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def is_continued_by(self, other: "Slice") -> bool:
        same = (self.digest, self.scenario) == (other.digest, other.scenario)
        return same and other.first == self.last + 1


class Ledger:
    """The slices that were played, in a file that is written again after each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.slices: list[Slice] = []
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            self.slices = [_slice_of(json.loads(line)) for line in lines if line]

    def add(self, played: Slice) -> None:
        """Adds a slice. It becomes one with a slice that it continues, so the file stays short."""
        for number, old in enumerate(self.slices):
            if old.is_continued_by(played):
                failed = old.failed + played.failed
                self.slices[number] = replace(old, last=played.last, failed=failed)
                break
        else:
            self.slices.append(played)
        new = self._path.with_name(self._path.name + ".new")
        lines = [json.dumps(asdict(one)) + "\n" for one in self.slices]
        new.write_text("".join(lines), encoding="utf-8")
        new.replace(self._path)

    def next_seed(self, scenario: str, first: int) -> int:
        """The first seed, from `first` on, after all that were ever played of the scenario."""
        return max([first, *(old.last + 1 for old in self.slices if old.scenario == scenario)])

    def played(self, digest: str, scenario: str) -> list[Slice]:
        """The slices of a scenario that this code played."""
        return [one for one in self.slices if one.digest == digest and one.scenario == scenario]

    def count(self, digest: str, scenario: str) -> int:
        return sum(one.count for one in self.played(digest, scenario))


def _slice_of(fields: dict[str, object]) -> Slice:
    failed = fields.pop("failed")
    assert isinstance(failed, list)
    return Slice(**fields, failed=tuple(failed))  # type: ignore[arg-type]


def digest_of(sources: Iterable[str]) -> str:
    """A digest of modules, given as texts, which comments and docstrings do not change."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(ast.dump(_without_docstrings(ast.parse(source))).encode())
    return digest.hexdigest()[:12]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def code_digest() -> str:
    """The digest of the code that scenarios load. Plays one seed of each to load it."""
    for name in SCENARIOS:
        play(name, 1)
    loaded = sorted(name for name in sys.modules if name.split(".")[0] in _PACKAGES)
    loaded = [name for name in loaded if name != "simulation.sweep"]  # It plays no part in a run.
    files = [getattr(sys.modules[name], "__file__", None) for name in loaded]
    return digest_of(Path(file).read_text(encoding="utf-8") for file in files if file)


def play_slice(digest: str, scenario: str, first: int, count: int) -> tuple[Slice, list[str]]:
    """Plays seeds in this process. Returns the slice, and a line for each seed that failed."""
    results = [play(scenario, seed) for seed in range(first, first + count)]
    failed = [(seed, text) for seed, passed, text in results if not passed]
    played = Slice(digest, scenario, first, first + count - 1, tuple(seed for seed, _ in failed))
    return played, [f"{scenario} {seed}: {text}" for seed, text in failed]


def _wanted(
    ledger: Ledger, digest: str, scenario: str, until: int, first: int
) -> Iterator[tuple[str, int, int]]:
    """The slices of a scenario that are still to be played: scenario, first seed, how many."""
    missing = until - ledger.count(digest, scenario)
    seed = ledger.next_seed(scenario, first)
    while missing > 0:
        count = min(SLICE_SEEDS, missing)
        yield scenario, seed, count
        seed += count
        missing -= count


def by_turns(ledger: Ledger, digest: str, until: int, first: int) -> Iterator[tuple[str, int, int]]:
    """All slices that are to be played; scenarios take turns, so that an early end is fair."""
    waiting = [_wanted(ledger, digest, name, until, first) for name in SCENARIOS]
    ended: set[int] = set()
    for number in cycle(range(len(waiting))):
        if len(ended) == len(waiting):
            return
        following = next(waiting[number], None)
        if following is None:
            ended.add(number)
        else:
            yield following


def sweep(ledger: Ledger, until: int, first: int, jobs: int) -> None:
    """Plays until the ledger has `until` seeds of each scenario on this code."""
    digest = code_digest()
    slices = by_turns(ledger, digest, until, first)
    running: set[Future[tuple[Slice, list[str]]]] = set()
    with ProcessPoolExecutor(jobs, _NEW_PROCESSES, max_tasks_per_child=_SLICES_A_PROCESS) as pool:
        for wanted in chain(slices, [None] * jobs):
            if wanted is not None:
                running.add(pool.submit(play_slice, digest, *wanted))
            if not running or (wanted is not None and len(running) < jobs):
                continue
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                played, lines = future.result()
                ledger.add(played)
                for line in lines:
                    print(line, flush=True)
                _show_progress(ledger, digest, until)


def _show_progress(ledger: Ledger, digest: str, until: int) -> None:
    if sys.stderr.isatty():
        counts = sum(min(until, ledger.count(digest, name)) for name in SCENARIOS)
        print(f"\r{counts} of {until * len(SCENARIOS)}", end="\r", file=sys.stderr, flush=True)


def show(ledger: Ledger) -> int:
    """Prints how many seeds of each scenario this code played. Returns how many failed."""
    digest = code_digest()
    print(f"code {digest}")
    total = 0
    for name in SCENARIOS:
        slices = ledger.played(digest, name)
        failed = list(chain.from_iterable(one.failed for one in slices))
        total += len(failed)
        told = f", failed: {', '.join(map(str, failed))}" if failed else ""
        print(f"{name}: {sum(one.count for one in slices)} seeds{told}")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.sweep", description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--until", type=int, metavar="N", help="seeds of each scenario in the end")
    choice.add_argument("--show", action="store_true", help="only print what was played")
    parser.add_argument("--first", type=int, default=0, help="the first seed of a new ledger")
    parser.add_argument("--ledger", type=Path, default=_LEDGER, help="the file of what was played")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    ledger = Ledger(options.ledger)
    if not options.show:
        try:
            sweep(ledger, options.until, options.first, options.jobs)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on from the ledger", file=sys.stderr)
    return 1 if show(ledger) else 0


if __name__ == "__main__":
    sys.exit(main())
