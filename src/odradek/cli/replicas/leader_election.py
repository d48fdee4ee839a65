"""`odradek leader-election`: elect the preferred leader, or any live replica, like
kafka-leader-election."""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import OlderSpelling, exactly_one_of, used_flags, whole_number
from odradek.tools.failures import UsageError

# Which partitions: exactly one of these flags is given.
_PARTITIONS = ("all_topic_partitions", "topic", "path_to_json_file")
_EXAMPLES = """\
examples:
  odradek leader-election --election-type preferred --all-topic-partitions
  odradek leader-election --election-type unclean --topic orders --partition 0

`preferred` makes the first replica of a partition its leader again, as after a restart.
`unclean` makes any live replica the leader of a partition that has none: records may be lost.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek leader-election --election-type TYPE --all-topic-partitions|... [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--election-type",
        choices=("preferred", "unclean"),
        type=str.lower,
        required=True,
        help="which replica becomes the leader",
    )
    parser.add_argument(
        "--all-topic-partitions", action="store_true", help="every partition that needs it"
    )
    parser.add_argument("--topic", metavar="NAME", help="one topic; with --partition")
    parser.add_argument(
        "--partition", metavar="N", type=whole_number, help="the partition of --topic"
    )
    parser.add_argument(
        "--path-to-json-file",
        metavar="FILE",
        help='partitions, as {"partitions":[{"topic":"t","partition":0}]}',
    )
    # The older kafka-preferred-replica-election did this if no file was given.
    parser.add_argument("--all-by-default", action="store_true", help=argparse.SUPPRESS)
    add_json_argument(parser)
    add_connection_arguments(parser)
    parser.add_argument(
        "--admin.config", dest="command_config", action=OlderSpelling, instead="--command-config"
    )


def check(arguments: argparse.Namespace) -> None:
    if arguments.all_by_default and not used_flags(arguments, _PARTITIONS):
        arguments.all_topic_partitions = True
    exactly_one_of(arguments, _PARTITIONS)
    if (arguments.topic is None) != (arguments.partition is None):
        raise UsageError("--topic and --partition go together")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    from odradek.cli.replicas.election_actions import elect

    return asyncio.run(elect(arguments))
