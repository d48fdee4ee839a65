"""Runs every generation of clients and writes the page of what each does.

    python -m tests.conformance.generations [--apache] [FILE]

Without a file the page goes to standard output. With `--apache` the broker is Apache Kafka: what
clients do there is what they should do here.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import odradek_broker
from tests.conformance.generations.matrix import BROKER, GENERATIONS, page, row, tell


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.generations",
        description="Runs every generation of clients against a broker of its own and writes the"
        " page of what each does. Takes some minutes; needs Java, Maven, a C compiler and kcat, and"
        " downloads the clients.",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="the page; standard output if not given"
    )
    parser.add_argument(
        "--apache", action="store_true", help="against Apache Kafka, which is downloaded"
    )
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        apache = ApacheKafka.install() if arguments.apache else None
        with apache.broker(directory) if apache else odradek_broker(directory, BROKER) as broker:
            for generation in GENERATIONS:
                rows.append(row(generation, tell(generation, broker.bootstrap)))
                print(rows[-1], file=sys.stderr)
    if arguments.file is not None:
        arguments.file.write_text(page(rows))
    else:
        print(page(rows), end="")


if __name__ == "__main__":
    main()
