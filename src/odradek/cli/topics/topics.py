"""`odradek topics`: create, list, describe, grow and delete topics, as kafka-topics does."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import OlderSpelling, exactly_one_of, key_and_value, positive_number
from odradek.tools.failures import MissingFlag, UsageError
from odradek.wording import counted

_ACTIONS = ("create", "list", "describe", "alter", "delete")

_EXAMPLES = """\
examples:
  odradek topics --create --topic orders --partitions 3
  odradek topics --describe --topic 'orders.*'
  odradek topics --list --exclude-internal
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek topics --create|--list|--describe|--alter|--delete [flags]"
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument("--create", action="store_true", help="create a topic")
    actions.add_argument("--list", action="store_true", help="list the names of topics")
    actions.add_argument(
        "--describe", action="store_true", help="show partitions, leaders, replicas and settings"
    )
    actions.add_argument("--alter", action="store_true", help="raise the number of partitions")
    actions.add_argument("--delete", action="store_true", help="delete topics and their records")
    parser.add_argument(
        "--topic",
        metavar="NAME",
        help="the topic; except with --create also a regular expression for several",
    )
    parser.add_argument("--topic-id", metavar="ID", help="describe the topic with this id")
    parser.add_argument(
        "--partitions", metavar="N", type=positive_number, help="number of partitions"
    )
    parser.add_argument(
        "--replication-factor", metavar="N", type=positive_number, help="copies of each partition"
    )
    parser.add_argument(
        "--replica-assignment",
        metavar="IDS",
        type=replica_assignment,
        help="brokers of each partition by hand: 1:2,2:3 puts partition 0 on 1 and 2",
    )
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="with --create: a setting of the topic; may be repeated",
    )
    parser.add_argument(
        "--if-not-exists",
        action="store_true",
        help="with --create: an existing topic is not an error",
    )
    parser.add_argument("--if-exists", action="store_true", help="a missing topic is not an error")
    _add_filters(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("create", "alter", "delete"))
    add_connection_arguments(parser)
    parser.add_argument("--delete-config", help=argparse.SUPPRESS)
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--disable-rack-aware",
        dest="force",
        nargs=0,
        const=True,
        action=OlderSpelling,
        instead="--replica-assignment to place replicas by hand",
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group("with --list and --describe")
    filters.add_argument(
        "--exclude-internal", action="store_true", help="leave out the platform's own topics"
    )
    filters.add_argument(
        "--under-replicated-partitions",
        action="store_true",
        help="only partitions with a replica out of sync",
    )
    filters.add_argument(
        "--unavailable-partitions", action="store_true", help="only partitions without a leader"
    )
    filters.add_argument(
        "--under-min-isr-partitions",
        action="store_true",
        help="only partitions with fewer replicas in sync than min.insync.replicas",
    )
    filters.add_argument(
        "--at-min-isr-partitions",
        action="store_true",
        help="only partitions with exactly min.insync.replicas in sync",
    )
    filters.add_argument(
        "--topics-with-overrides",
        action="store_true",
        help="only topics with settings of their own, without partitions",
    )
    filters.add_argument(
        "--partition-size-limit-per-response",
        metavar="N",
        type=positive_number,
        help="ask for at most this many partitions at once",
    )


def replica_assignment(text: str) -> list[list[int]]:
    """Parses `1:2,2:3`: the brokers of each partition's replicas, the preferred leader first."""
    try:
        assignment = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not broker ids with : and , between, like 1:2,2:3"
        ) from None
    for partition, brokers in enumerate(assignment):
        if len(set(brokers)) != len(brokers):
            raise argparse.ArgumentTypeError(f"partition {partition} names a broker twice")
        if len(brokers) != len(assignment[0]):
            raise argparse.ArgumentTypeError(
                f"partition {partition} has {counted(len(brokers), 'replica')}, partition 0 has"
                f" {len(assignment[0])}"
            )
    return assignment


def chosen_action(arguments: argparse.Namespace) -> str:
    """Returns the action that the flags ask for, after checking its flags."""
    action = exactly_one_of(arguments, _ACTIONS)
    if action in {"create", "delete", "alter"} and not arguments.topic:
        raise MissingFlag(f"--{action} needs --topic NAME")
    if arguments.config and action != "create":
        raise UsageError(
            "--config goes with --create; change a topic's settings with:"
            " odradek configs --alter --topic NAME --add-config KEY=VALUE"
        )
    if arguments.delete_config:
        raise UsageError(
            "--delete-config has moved: odradek configs --alter --topic NAME --delete-config KEY"
        )
    if arguments.replica_assignment and (
        arguments.replication_factor or (action == "create" and arguments.partitions)
    ):
        raise UsageError(
            "--replica-assignment already says how many partitions and replicas: leave --partitions"
            " and --replication-factor out"
        )
    if action == "alter" and arguments.replication_factor:
        raise UsageError(
            "the replication factor is changed by moving replicas: odradek reassign-partitions"
            f" --generate --topic {arguments.topic} --replication-factor"
            f" {arguments.replication_factor} --broker-list IDS, then --execute"
        )
    if action == "alter" and not (arguments.partitions or arguments.replica_assignment):
        raise MissingFlag("--alter needs --partitions N")
    if arguments.replication_factor and action != "create":
        raise UsageError("--replication-factor goes with --create")
    return action


def run(arguments: argparse.Namespace) -> int:
    action = chosen_action(arguments)
    import asyncio

    from odradek.cli.topics.topic_actions import perform

    return asyncio.run(perform(action, arguments))
