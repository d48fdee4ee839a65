"""The flags of the commands that start a worker."""

import argparse

from odradek.cli.running.options import add_daemon_argument


def add_worker_arguments(parser: argparse.ArgumentParser, file: str) -> None:
    """`file` is what Kafka calls the worker's properties file."""
    parser.add_argument(
        "config", metavar="WORKER", help=f"the worker's properties file, as config/{file}"
    )
    parser.add_argument(
        "--override", metavar="KEY=VALUE", action="append", default=[],
        help="sets one setting of the worker, over the file; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--log-level", metavar="LEVEL", default="INFO",
        choices=("ERROR", "WARN", "INFO", "DEBUG"),
        help="how much is written to stderr: ERROR, WARN, INFO or DEBUG (default: INFO)",
    )  # fmt: skip
    add_daemon_argument(parser)
