"""`odradek e2e-latency`: time from sending a record to reading it, as kafka-e2e-latency does."""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import positive_number, whole_number
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.hints import hint

_EXAMPLES = """\
example:
  odradek e2e-latency --topic latency --num-records 10000 --producer-acks 1 --record-size 100
"""
# Older versions of the tool took these as positional arguments.
_POSITIONS = ("bootstrap_server", "topic", "num_records", "producer_acks", "record_size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--topic", metavar="NAME", help="created if missing, with one partition")
    parser.add_argument(
        "--num-records", metavar="N", type=positive_number, help="how many to send, one by one"
    )
    parser.add_argument(
        "--producer-acks", choices=("1", "all"), help="who must have a record: 1 or all"
    )
    parser.add_argument(
        "--record-size", metavar="BYTES", type=positive_number, help="size of a record's value"
    )
    parser.add_argument(
        "--record-key-size", metavar="BYTES", type=whole_number, default=0, help="size of its key"
    )
    parser.add_argument(
        "--num-headers", metavar="N", type=whole_number, default=0, help="headers on each record"
    )
    parser.add_argument(
        "--record-header-key-size",
        metavar="BYTES",
        type=whole_number,
        default=0,
        help="size of a header's name",
    )
    parser.add_argument(
        "--record-header-size",
        metavar="BYTES",
        type=whole_number,
        default=0,
        help="size of a header's value; -1 for null",
    )
    parser.add_argument("positions", nargs="*", help=argparse.SUPPRESS)
    add_json_argument(parser)
    add_connection_arguments(parser)


def take_positions(arguments: argparse.Namespace) -> None:
    """Reads the older form without flags: brokers topic records acks size [properties file]."""
    words = arguments.positions
    if words:
        if len(words) not in {5, 6}:
            raise UsageError(
                "without flags it takes: BROKERS TOPIC RECORDS ACKS SIZE [PROPERTIES-FILE]"
            )
        hint("flags say more: --topic, --num-records, --producer-acks, --record-size")
        for name, text in zip(_POSITIONS, words, strict=False):
            number = name in {"num_records", "record_size"}
            setattr(arguments, name, _number(text) if number else text)
        if len(words) == 6:
            arguments.command_config = words[5]
    for name in _POSITIONS[1:]:
        if getattr(arguments, name) is None:
            raise MissingFlag(f"--{name.replace('_', '-')} is needed")
    if arguments.producer_acks not in {"1", "all"}:
        raise UsageError("latency needs acknowledged records: --producer-acks 1 or all")


def _number(text: str) -> int:
    try:
        return positive_number(text)
    except argparse.ArgumentTypeError as problem:
        raise UsageError(str(problem)) from None


def run(arguments: argparse.Namespace) -> int:
    take_positions(arguments)
    properties = client_properties(arguments)
    from odradek.perf.own_client import measure_latency

    return measure_latency(arguments, properties)
