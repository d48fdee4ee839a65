"""Runs every generation of clients and writes the page: `python -m tests.conformance.generations
[FILE]`, to standard output without a file."""

import sys
import tempfile
from pathlib import Path

from benchmarks.broker_process import odradek_broker
from tests.conformance.generations.matrix import BROKER, GENERATIONS, page, row, tell


def main(arguments: list[str]) -> None:
    rows = []
    with (
        tempfile.TemporaryDirectory() as directory,
        odradek_broker(Path(directory), BROKER) as broker,
    ):
        for generation in GENERATIONS:
            rows.append(row(generation, tell(generation, broker.bootstrap)))
            print(rows[-1], file=sys.stderr)
    if arguments:
        Path(arguments[0]).write_text(page(rows))
    else:
        print(page(rows), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
