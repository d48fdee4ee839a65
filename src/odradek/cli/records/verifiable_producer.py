"""`odradek verifiable-producer`: sends numbered records and reports each as JSON.

Its output is that of kafka-verifiable-producer, for programs that check which records were
acknowledged.
"""

import argparse

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.parser import positive_number, whole_number
from odradek.tools.client_properties import client_properties


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="NAME", required=True, help="where the records go")
    parser.add_argument(
        "--max-messages",
        metavar="N",
        type=whole_number,
        default=-1,
        help="how many to send; -1 until stopped (default: -1)",
    )
    parser.add_argument(
        "--throughput",
        metavar="N",
        type=whole_number,
        default=-1,
        help="at most this many records a second; -1 for no limit (default: -1)",
    )
    parser.add_argument(
        "--acks",
        metavar="ACKS",
        choices=("-1", "0", "1", "all"),
        default="-1",
        help="who must have a record: -1 (all), 1 or 0 (default: -1)",
    )
    parser.add_argument(
        "--message-create-time",
        metavar="MS",
        type=whole_number,
        default=-1,
        help="timestamp of the first record; later ones advance with the clock (default: now)",
    )
    parser.add_argument(
        "--value-prefix", metavar="N", type=whole_number, help="values are N.0, N.1, ..."
    )
    parser.add_argument(
        "--repeating-keys",
        metavar="N",
        type=positive_number,
        help="keys count 0, 1, ... N-1 and begin again (default: no keys)",
    )
    add_connection_arguments(parser, older_role="producer")


def run(arguments: argparse.Namespace) -> int:
    properties = client_properties(arguments, client_id="verifiable-producer")
    properties["acks"] = arguments.acks
    import asyncio

    from odradek.cli.records.verifiable_producer_actions import produce

    return asyncio.run(produce(arguments, properties))
