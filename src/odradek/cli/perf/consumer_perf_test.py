"""`odradek consumer-perf-test`: how fast records can be read, like kafka-consumer-perf-test.

It reads all partitions without a group, so that only reading is measured and no rebalance.
"""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_new_consumer,
)
from odradek.cli.parser import OlderSpelling, positive_number
from odradek.cli.perf.producer_perf_test import add_engine_argument, chosen_engine
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.hints import hint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="NAME", help="the topic to read")
    parser.add_argument(
        "--include", metavar="PATTERN", help="instead of --topic: a regular expression for several"
    )
    parser.add_argument("--num-records", metavar="N", type=positive_number, help="how many to read")
    parser.add_argument(
        "--from-latest", action="store_true", help="start at the end, not at the first record"
    )
    parser.add_argument(
        "--fetch-size",
        metavar="BYTES",
        type=positive_number,
        default=1024 * 1024,
        help="the most to fetch of one partition at once (default: 1048576)",
    )
    parser.add_argument(
        "--socket-buffer-size",
        metavar="BYTES",
        type=positive_number,
        default=2 * 1024 * 1024,
        help="size of the socket's receive buffer (default: 2097152)",
    )
    parser.add_argument(
        "--timeout",
        metavar="MS",
        type=positive_number,
        default=10_000,
        help="stop when none came for this long (default: 10000)",
    )
    parser.add_argument(
        "--reporting-interval",
        metavar="MS",
        type=positive_number,
        default=5000,
        help="how often to report with --show-detailed-stats (default: 5000)",
    )
    parser.add_argument("--show-detailed-stats", action="store_true", help="report while reading")
    parser.add_argument("--hide-header", action="store_true", help="leave out the column names")
    parser.add_argument(
        "--date-format",
        metavar="PATTERN",
        default="yyyy-MM-dd HH:mm:ss:SSS",
        help="how times are shown, as in Java (default: yyyy-MM-dd HH:mm:ss:SSS)",
    )
    parser.add_argument("--print-metrics", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--group", metavar="ID", help=argparse.SUPPRESS)
    parser.add_argument(
        "--messages",
        dest="num_records",
        type=positive_number,
        action=OlderSpelling,
        instead="--num-records",
    )
    parser.add_argument("--threads", help=argparse.SUPPRESS)
    parser.add_argument("--num-fetch-threads", help=argparse.SUPPRESS)
    add_engine_argument(parser)
    add_json_argument(parser)
    add_new_consumer(parser)
    add_connection_arguments(parser, older_role="consumer")


def run(arguments: argparse.Namespace) -> int:
    if (arguments.topic is None) == (arguments.include is None):
        raise UsageError("give --topic NAME, or --include PATTERN for several")
    if arguments.num_records is None:
        raise MissingFlag("--num-records is needed")
    if arguments.group is not None:
        hint("--group changes nothing: all partitions are read, and no position is kept")
    if arguments.threads is not None or arguments.num_fetch_threads is not None:
        hint("--threads and --num-fetch-threads change nothing: one consumer reads all partitions")
    if arguments.print_metrics:
        hint("--print-metrics prints nothing in this version")
    properties = client_properties(arguments, client_id="perf-consumer-client")
    properties.setdefault("max.partition.fetch.bytes", str(arguments.fetch_size))
    properties.setdefault("check.crcs", "false")
    if chosen_engine(arguments.engine) == "librdkafka":
        from odradek.perf import librdkafka_engine

        return librdkafka_engine.consume_load(arguments, properties)
    from odradek.perf import own_client as perf_actions

    return perf_actions.consume_load(arguments, properties)
