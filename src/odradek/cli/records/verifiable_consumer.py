"""`odradek verifiable-consumer`: reads records and reports them as JSON.

Its output is that of kafka-verifiable-consumer. It does not join a group yet: it reads all
partitions and commits nothing.
"""

import argparse

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.parser import whole_number
from odradek.tools.client_properties import client_properties
from odradek.tools.hints import hint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="NAME", required=True, help="the topic to read")
    parser.add_argument(
        "--max-messages",
        metavar="N",
        type=whole_number,
        default=-1,
        help="how many to read; -1 until stopped (default: -1)",
    )
    parser.add_argument("--verbose", action="store_true", help="report each record as well")
    parser.add_argument(
        "--reset-policy",
        choices=("earliest", "latest", "none"),
        default="earliest",
        help="where to start (default: earliest)",
    )
    for later in (
        "group-id",
        "group-protocol",
        "group-remote-assignor",
        "group-instance-id",
        "session-timeout",
        "assignment-strategy",
    ):
        parser.add_argument(f"--{later}", help=argparse.SUPPRESS)
    parser.add_argument("--enable-autocommit", action="store_true", help=argparse.SUPPRESS)
    add_connection_arguments(parser, older_role="consumer")


def run(arguments: argparse.Namespace) -> int:
    if arguments.group_id is not None:
        hint("consumer groups are not part of this version yet; reading all partitions instead")
    properties = client_properties(arguments, client_id="verifiable-consumer")
    import asyncio

    from odradek.cli.records.verifiable_consumer_actions import consume

    return asyncio.run(consume(arguments, properties))
