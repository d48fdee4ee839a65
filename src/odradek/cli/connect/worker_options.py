"""The flags of the commands that start a worker."""

import argparse

from odradek.cli.running.options import add_daemon_argument
from odradek.cli.services.starting import add_process_arguments


def add_worker_arguments(parser: argparse.ArgumentParser, file: str) -> None:
    """`file` is what Kafka calls the worker's properties file."""
    parser.add_argument(
        "config", metavar="WORKER", help=f"the worker's properties file, as config/{file}"
    )
    add_process_arguments(parser)
    add_daemon_argument(parser)
