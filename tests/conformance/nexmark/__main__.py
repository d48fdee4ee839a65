"""Compares the queries of Nexmark with published rows, row by row.

    python -m tests.conformance.nexmark DIRECTORY [--engine memory|process|spark] [QUERY ...]

DIRECTORY has the end-to-end tests of RisingWave (`e2e_test`): their events are the input, their
rows what is expected; q6 and q11 to q13 are compared with a computation over all events at once.
With `memory` the statements run in this process; else on a SQL server, with topics.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from odradek.sql.errors import SqlError
from tests.conformance.nexmark import published
from tests.conformance.nexmark.batch import BATCH, SIDE_KEYS, Event, side_value
from tests.conformance.nexmark.queries import QUERIES, Query, Row
from tests.conformance.nexmark.runs import InMemory, Runs, on_server

_SHOWN = 3
_BEGIN_MS = 1_436_918_400_000


def events_of(directory: Path) -> dict[str, list[Event]]:
    """Returns the events by topic, each with the time at which it comes."""
    events = {topic: published.events(directory, topic) for topic in published.TOPICS}
    for found in events.values():
        for number, event in enumerate(found):
            event["came_ms"] = _BEGIN_MS + number * 1_500
    events["side"] = [
        {"id": key, "text": side_value(key), "came_ms": _BEGIN_MS} for key in range(SIDE_KEYS)
    ]
    return events


def rows_as_words(query: Query, rows: Iterable[Row]) -> list[tuple[str, ...]]:
    return sorted(
        _words(one[column] for column in query.columns) for row in rows for one in query.spread(row)
    )


def sorted_words(rows: Iterable[Iterable[Any]]) -> list[tuple[str, ...]]:
    return sorted(map(_words, rows))


def _words(values: Iterable[Any]) -> tuple[str, ...]:
    return published.words(" ".join(map(published.as_text, values)))


def compare(name: str, runs: Runs, directory: Path, events: dict[str, list[Event]]) -> bool:
    """Runs a query and prints what became of it; returns whether the rows are those expected."""
    query = QUERIES[name]
    if name in BATCH:
        wanted = sorted_words(BATCH[name](events))
    else:
        wanted = published.expected(directory, name)
    try:
        rows = runs.rows(query, events, lambda found: rows_as_words(query, found) == wanted)
        found = rows_as_words(query, rows)
    except SqlError as error:
        print(f"{name}: refused: {error}", flush=True)
        return False
    if found == wanted:
        print(f"{name}: {len(found)} rows", flush=True)
        return True
    print(f"{name}: {len(found)} rows, and {len(wanted)} are expected", flush=True)
    for what, ours, theirs in (("missing", wanted, found), ("too many", found, wanted)):
        for row in [row for row in ours if row not in theirs][:_SHOWN]:
            print(f"  {what}: {' '.join(row)}", flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("queries", nargs="*", metavar="QUERY")
    parser.add_argument("--engine", choices=["memory", "process", "spark"], default="memory")
    given = parser.parse_intermixed_args()
    events = events_of(given.directory)
    names = given.queries or list(QUERIES)
    if given.engine == "memory":
        failed = [n for n in names if not compare(n, InMemory(), given.directory, events)]
    else:
        with tempfile.TemporaryDirectory() as logs, on_server(given.engine, Path(logs)) as runs:
            failed = [n for n in names if not compare(n, runs, given.directory, events)]
    print(f"{len(names) - len(failed)} of {len(names)} queries have the rows that are expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
