"""`odradek consumer-groups`: list, describe, reset and delete groups, as kafka-consumer-groups."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_new_consumer,
    add_watch_argument,
)
from odradek.cli.groups.group_names import GROUP_STATES, parse_states, parse_types
from odradek.cli.parser import (
    exactly_one_of,
    flag_of,
    positive_number,
    used_flags,
    whole_number,
)
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
_VIEWS = ("members", "offsets", "state")
# The targets of a reset; exactly one of these flags is given.
RESETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
    "from_file",
)

_EXAMPLES = """\
examples:
  odradek consumer-groups --list --state
  odradek consumer-groups --describe --group billing            # positions and lag
  odradek consumer-groups --describe --all-groups --members --verbose
  odradek consumer-groups --describe --all-groups --topic orders   # who reads it
  odradek consumer-groups --reset-offsets --group billing --topic orders:0,1 \\
      --to-datetime 2026-03-01T00:00:00Z --dry-run              # then with --execute
  odradek consumer-groups --reset-offsets --group billing --all-topics --to-current \\
      --export > positions.csv                                  # a backup for --from-file

A group can be reset while none of its consumers runs.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "odradek consumer-groups --list|--describe|--delete|--reset-offsets|--delete-offsets"
        " [flags]"
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument("--list", action="store_true", help="list consumer groups")
    actions.add_argument(
        "--describe", action="store_true", help="show positions and lag, or members, or state"
    )
    actions.add_argument(
        "--delete", action="store_true", help="delete groups without members, and their offsets"
    )
    actions.add_argument(
        "--reset-offsets", action="store_true", help="move the positions of a group"
    )
    actions.add_argument(
        "--delete-offsets", action="store_true", help="delete a group's offsets in topics"
    )
    actions.add_argument(
        "--validate-regex",
        metavar="PATTERN",
        help="check whether the new consumer protocol accepts this pattern; asks no broker",
    )
    parser.add_argument(
        "--group",
        metavar="ID",
        action="append",
        default=[],
        help="the group; may be repeated, except with --delete-offsets",
    )
    parser.add_argument("--all-groups", action="store_true", help="all consumer groups")
    parser.add_argument(
        "--topic",
        metavar="NAME[:N,...]",
        action="append",
        default=[],
        help="a topic, or only some of its partitions: orders:0,1; may be repeated; with"
        " --describe, --reset-offsets and --delete-offsets",
    )
    parser.add_argument(
        "--timeout",
        metavar="MS",
        type=positive_number,
        help="how long to wait for coordinators (default: 30000)",
    )
    _add_view_arguments(parser)
    _add_reset_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("delete", "reset_offsets", "delete_offsets"))
    add_new_consumer(parser)
    add_connection_arguments(parser)


def _add_view_arguments(parser: argparse.ArgumentParser) -> None:
    views = parser.add_argument_group("with --list and --describe")
    views.add_argument(
        "--state",
        metavar="STATE,...",
        nargs="?",
        const="",
        help="with --list: show states, or only groups in these states"
        f" ({', '.join(GROUP_STATES)}); with --describe: show the state",
    )
    views.add_argument(
        "--type",
        metavar="TYPE,...",
        nargs="?",
        const="",
        help="with --list: show types, or only groups of these types (classic, consumer)",
    )
    views.add_argument("--members", action="store_true", help="with --describe: show the members")
    views.add_argument(
        "--offsets",
        action="store_true",
        help="with --describe: show positions and lag (the default)",
    )
    views.add_argument(
        "--verbose", action="store_true", help="with --describe: epochs and assignments too"
    )


def _add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    resets = parser.add_argument_group("with --reset-offsets")
    resets.add_argument(
        "--all-topics", action="store_true", help="all topics that the group has positions in"
    )
    resets.add_argument(
        "--dry-run", action="store_true", help="only show the new positions: the default"
    )
    resets.add_argument("--execute", action="store_true", help="change the offsets")
    resets.add_argument(
        "--export", action="store_true", help="print the new positions as CSV, for --from-file"
    )
    resets.add_argument("--to-earliest", action="store_true", help="to the first record")
    resets.add_argument("--to-latest", action="store_true", help="to the end")
    resets.add_argument(
        "--to-current",
        action="store_true",
        help="keep positions; partitions without one start at the end",
    )
    resets.add_argument("--to-offset", metavar="OFFSET", type=offset, help="to this offset")
    resets.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="to the first record of this time or later: 2026-03-01T12:00:00.000, in UTC unless"
        " it ends in a zone like +02:00",
    )
    resets.add_argument(
        "--by-duration",
        metavar="DURATION",
        help="to the first record of this long ago or later: P1DT2H30M is 26 and a half hours",
    )
    resets.add_argument(
        "--shift-by",
        metavar="N",
        type=whole_number,
        help="by this many records; a negative number goes back",
    )
    resets.add_argument(
        "--from-file",
        metavar="FILE",
        help="to the offsets in a CSV file: topic,partition,offset or group,topic,partition,offset",
    )


def offset(text: str) -> int:
    """Reads an offset; for its ends there are flags of their own."""
    if text in {"earliest", "latest"}:
        raise argparse.ArgumentTypeError(f"a number; write --to-{text}")
    return whole_number(text)


def chosen_action(arguments: argparse.Namespace) -> str:
    """Returns the action that the flags ask for, after checking its flags."""
    action = exactly_one_of(arguments, _ACTIONS)
    if arguments.group and arguments.all_groups:
        raise UsageError("--group and --all-groups cannot go together")
    if action == "list":
        if arguments.group:
            raise UsageError("--list lists all groups; look at one with --describe --group ID")
        parse_states(arguments.state)
        parse_types(arguments.type)
    elif not (arguments.group or (arguments.all_groups and action != "delete_offsets")):
        also = "" if action == "delete_offsets" else " or --all-groups"
        raise MissingFlag(f"{flag_of(action)} needs --group ID{also}")
    _check_topic(action, arguments)
    _check_views(action, arguments)
    if action == "delete_offsets" and not (arguments.topic and len(arguments.group) == 1):
        raise MissingFlag("--delete-offsets needs one --group ID and --topic NAME")
    _check_reset(action, arguments)
    return action


def _check_topic(action: str, arguments: argparse.Namespace) -> None:
    if not arguments.topic:
        return
    if action == "list":
        raise UsageError(
            "--list lists all groups; --describe --all-groups --topic NAME shows those that read it"
        )
    if action == "delete":
        raise UsageError("--delete removes whole groups; --delete-offsets forgets one topic")
    if action == "describe" and used_flags(arguments, ("members", "state")):
        raise UsageError("--topic selects positions; leave --members and --state out")


def _check_views(action: str, arguments: argparse.Namespace) -> None:
    if action == "describe":
        if len(used_flags(arguments, _VIEWS)) > 1:
            raise UsageError("--describe shows one of --members, --offsets, --state")
        if arguments.state:
            raise UsageError("--state takes no value with --describe")
    elif misplaced := used_flags(arguments, ("members", "offsets", "verbose")):
        raise UsageError(f"{flag_of(misplaced[0])} goes with --describe")
    if arguments.state is not None and action not in {"list", "describe"}:
        raise UsageError("--state goes with --list and --describe")
    if arguments.type is not None and action != "list":
        raise UsageError("--type goes with --list")


def _check_reset(action: str, arguments: argparse.Namespace) -> None:
    targets = used_flags(arguments, RESETS)
    if action != "reset_offsets":
        others = ("all_topics", "dry_run", "execute", "export")
        if misplaced := targets + used_flags(arguments, others):
            raise UsageError(f"{flag_of(misplaced[0])} goes with --reset-offsets")
        return
    exactly_one_of(arguments, RESETS, "--reset-offsets needs")
    if arguments.dry_run and arguments.execute:
        raise UsageError("--dry-run and --execute cannot go together")
    if arguments.topic and arguments.all_topics:
        raise UsageError("--topic and --all-topics cannot go together")
    if targets[0] != "from_file" and not (arguments.topic or arguments.all_topics):
        raise MissingFlag("--reset-offsets needs --topic NAME or --all-topics")
    if targets[0] == "from_file" and (arguments.topic or arguments.all_topics):
        raise UsageError("--from-file names the topics itself; leave --topic and --all-topics out")


def validate(pattern: str) -> int:
    from odradek.groups.consumer.topic_patterns import InvalidPattern, TopicPattern

    try:
        TopicPattern(pattern)
    except InvalidPattern as problem:
        print(f"The regular expression `{pattern}` is invalid: {problem}.")
        return 1
    print(f"The regular expression `{pattern}` is valid.")
    return 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.validate_regex is not None:
        return validate(arguments.validate_regex)
    action = chosen_action(arguments)
    import asyncio

    if action == "reset_offsets":
        from odradek.cli.groups.reset_actions import reset

        return asyncio.run(reset(arguments))
    from odradek.cli.groups.group_actions import perform

    return asyncio.run(perform(action, arguments))
