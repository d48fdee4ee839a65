"""`odradek reassign-partitions`: move partitions to other brokers, as kafka-reassign-partitions."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import exactly_one_of, positive_number, whole_number
from odradek.cli.quantities import size_bytes
from odradek.tools.failures import MissingFlag, UsageError

ACTIONS = ("generate", "execute", "verify", "cancel", "list")

_EXAMPLES = """\
examples:
  odradek reassign-partitions --generate --topic orders --broker-list 1,2,3,4
  odradek reassign-partitions --generate --topic orders --broker-list 1,2,3 --replication-factor 3
  odradek reassign-partitions --execute --reassignment-json-file plan.json --throttle 10000000
  odradek reassign-partitions --verify --reassignment-json-file plan.json

A plan is {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}. The one
that --generate proposes is even and moves as little as that takes. --verify lifts the throttle
when everything has arrived. To empty a broker: odradek cluster decommission.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "odradek reassign-partitions --generate|--execute|--verify|--cancel|--list [flags]"
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument(
        "--generate", action="store_true", help="propose a plan, and change nothing"
    )
    actions.add_argument("--execute", action="store_true", help="start the moves of a plan")
    actions.add_argument(
        "--verify",
        action="store_true",
        help="show the progress of a plan; remove the throttle at its end",
    )
    actions.add_argument("--cancel", action="store_true", help="stop the moves of a plan")
    actions.add_argument("--list", action="store_true", help="list the moves in progress")
    parser.add_argument(
        "--reassignment-json-file",
        metavar="FILE",
        help="the plan, with --execute, --verify and --cancel",
    )
    _add_generate_arguments(parser)
    parser.add_argument(
        "--throttle",
        metavar="BYTES",
        type=throttle_bytes,
        default=-1,
        help="with --execute: at most this many bytes a second between brokers, as in 10MB",
    )
    parser.add_argument(
        "--additional",
        action="store_true",
        help="with --execute: also while other moves are in progress; changes their throttle too",
    )
    parser.add_argument(
        "--preserve-throttles",
        action="store_true",
        help="with --verify and --cancel: leave throttles as they are",
    )
    parser.add_argument("--timeout", type=whole_number, help=argparse.SUPPRESS)
    parser.add_argument(
        "--replica-alter-log-dirs-throttle", type=whole_number, help=argparse.SUPPRESS
    )
    add_json_argument(parser)
    add_watch_argument(parser, changing=("generate", "execute", "cancel"))
    add_connection_arguments(parser, broker_list=False)


def _add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topics-to-move-json-file",
        metavar="FILE",
        help='with --generate: the topics, as {"topics":[{"topic":"t"}],"version":1}',
    )
    parser.add_argument(
        "--topic",
        metavar="NAME",
        action="append",
        default=[],
        help="with --generate: a topic, in place of a file; may be repeated",
    )
    parser.add_argument(
        "--broker-list",
        metavar="IDS",
        type=broker_ids,
        help="with --generate: the brokers to use, as 1,2,3",
    )
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=positive_number,
        help="with --generate: the new replication factor",
    )
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="with --generate: ignore racks"
    )


def throttle_bytes(text: str) -> int:
    """Reads a rate; -1 is Kafka's way to say that there is no limit."""
    return -1 if text == "-1" else size_bytes(text)


def broker_ids(text: str) -> list[int]:
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not broker ids with commas between, like 1,2,3"
        ) from None
    if len(set(brokers)) != len(brokers):
        raise argparse.ArgumentTypeError(f"{text} names a broker twice")
    return brokers


def chosen_action(arguments: argparse.Namespace) -> str:
    """Returns the action that the flags ask for, after checking its flags."""
    action = exactly_one_of(arguments, ACTIONS)
    if action in {"execute", "verify", "cancel"} and not arguments.reassignment_json_file:
        raise MissingFlag(
            f"--{action} needs --reassignment-json-file FILE, with a plan like the one that"
            " --generate proposes"
        )
    if action == "generate":
        if not arguments.topics_to_move_json_file and not arguments.topic:
            raise MissingFlag("--generate needs --topics-to-move-json-file FILE or --topic NAME")
        if not arguments.broker_list:
            raise MissingFlag("--generate needs --broker-list IDS")
    if 0 <= arguments.throttle < 1000:
        raise UsageError("--throttle below 1000 bytes a second would never get done")
    return action


def run(arguments: argparse.Namespace) -> int:
    action = chosen_action(arguments)
    import asyncio

    from odradek.cli.replicas.reassign_actions import perform

    return asyncio.run(perform(action, arguments))
