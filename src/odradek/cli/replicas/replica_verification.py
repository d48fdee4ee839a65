"""`odradek replica-verification`: checks whether all replicas of a partition are equal.

Kafka's tool of this name runs for ever. This one compares the current content and ends, so that
scripts can use it.
"""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import OlderSpelling, positive_number, whole_number

_EXAMPLES = """\
examples:
  odradek replica-verification
  odradek replica-verification --topics-include 'orders|payments' --json

Reads each partition from every broker that holds it and compares batch by batch, up to the
offset that all of them know to be committed. Copies of a compacted topic are cleaned at times
of their own: there, records are compared that both copies still have. Ends with 1 if copies
differ or a broker could not be read.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek replica-verification [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--topics-include",
        metavar="PATTERN",
        default=".*",
        help="a regular expression for topics (default: all)",
    )
    parser.add_argument(
        "--time",
        metavar="MS",
        type=whole_number,
        default=-2,
        help="begin at the first record of this time; -2 is the first of all (default: -2)",
    )
    parser.add_argument(
        "--fetch-size",
        metavar="BYTES",
        type=positive_number,
        default=1024 * 1024,
        help="how much to read at once (default: 1048576)",
    )
    parser.add_argument(
        "--topic-white-list", dest="topics_include", action=OlderSpelling,
        instead="--topics-include",
    )  # fmt: skip
    parser.add_argument("--max-wait-ms", type=whole_number, help=argparse.SUPPRESS)
    parser.add_argument("--report-interval-ms", type=whole_number, help=argparse.SUPPRESS)
    add_json_argument(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from odradek.cli.replicas.verification_actions import verify

    return asyncio.run(verify(arguments))
