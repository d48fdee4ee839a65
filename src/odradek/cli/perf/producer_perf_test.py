"""`odradek producer-perf-test`: how fast records can be sent, as kafka-producer-perf-test does."""

import argparse
import sys

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import exactly_one_of, positive_number, whole_number
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.hints import hint

_EXAMPLES = """\
example:
  odradek producer-perf-test --topic load --num-records 1000000 --record-size 100 \\
      --throughput -1 --command-property acks=1 linger.ms=5
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--topic", metavar="NAME", required=True, help="where the records go")
    parser.add_argument(
        "--num-records", metavar="N", type=positive_number, required=True, help="how many to send"
    )
    parser.add_argument(
        "--throughput",
        metavar="N",
        type=float,
        required=True,
        help="at most this many records a second; -1 for no limit",
    )
    payload = parser.add_argument_group("what to send, one of")
    payload.add_argument(
        "--record-size", metavar="BYTES", type=positive_number, help="random letters of this size"
    )
    payload.add_argument(
        "--payload-file", metavar="FILE", help="texts from a file, one picked at random each time"
    )
    payload.add_argument(
        "--payload-monotonic", action="store_true", help="the numbers 0, 1, 2, ... as text"
    )
    payload.add_argument(
        "--payload-delimiter",
        metavar="TEXT",
        default="\\n",
        help="what stands between the texts of --payload-file (default: \\n)",
    )
    parser.add_argument(
        "--warmup-records",
        metavar="N",
        type=whole_number,
        default=0,
        help="the first N records stay out of a second, steady-state report",
    )
    parser.add_argument(
        "--reporting-interval",
        metavar="MS",
        type=positive_number,
        default=5000,
        help="how often to report (default: 5000)",
    )
    parser.add_argument("--print-metrics", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--transactional-id", help=argparse.SUPPRESS)
    parser.add_argument("--transaction-duration-ms", help=argparse.SUPPRESS)
    add_engine_argument(parser)
    add_json_argument(parser)
    add_connection_arguments(parser, many_properties=True, older_role="producer")


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "librdkafka", "odradek"),
        default="auto",
        help="the client that does the work: librdkafka (confluent-kafka, the fast one) or"
        " odradek's own (default: librdkafka if it is installed)",
    )


def chosen_engine(choice: str) -> str:
    """Returns `librdkafka` or `odradek`, and prints on stderr which, because the figures depend on
    it."""
    engine = choice
    if choice != "odradek":
        from importlib.util import find_spec

        installed = find_spec("confluent_kafka") is not None
        if choice == "librdkafka" and not installed:
            raise CommandFailed("librdkafka is not installed; pip install confluent-kafka")
        engine = "librdkafka" if installed else "odradek"
    print(f"client: {engine}", file=sys.stderr)
    return engine


def payloads(arguments: argparse.Namespace) -> list[bytes]:
    """Returns the payloads to choose from; empty if each record's value is its number."""
    exactly_one_of(arguments, ("record_size", "payload_file", "payload_monotonic"))
    if arguments.payload_monotonic:
        return []
    from odradek.world import OsDisk, Randomness

    if arguments.record_size is not None:
        randomness = Randomness()
        return [bytes(65 + randomness.integer_below(26) for _ in range(arguments.record_size))]
    delimiter = arguments.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t").encode()
    values = [text for text in OsDisk().read(arguments.payload_file).split(delimiter) if text]
    if not values:
        raise CommandFailed(f"{arguments.payload_file} holds no texts to send")
    print(f"Reading payloads from: {arguments.payload_file}")
    print(f"Number of records read: {len(values)}")
    return values


def run(arguments: argparse.Namespace) -> int:
    if arguments.transactional_id or arguments.transaction_duration_ms:
        raise UsageError("transactions are not part of this version yet")
    if not 0 <= arguments.warmup_records < arguments.num_records:
        raise UsageError("--warmup-records must be less than --num-records")
    texts = payloads(arguments)
    if arguments.print_metrics:
        hint("--print-metrics prints nothing in this version")
    properties = client_properties(arguments, client_id="perf-producer-client")
    if chosen_engine(arguments.engine) == "librdkafka":
        from odradek.perf import librdkafka_engine

        return librdkafka_engine.produce_load(arguments, texts, properties)
    from odradek.perf import own_client as perf_actions

    return perf_actions.produce_load(arguments, texts, properties)
