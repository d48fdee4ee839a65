"""`odradek groups`: list groups of every type, as kafka-groups does."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.groups.group_names import GROUP_TYPES, parse_types
from odradek.tools.failures import UsageError

_FILTERS = ("consumer", "share", "streams")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek groups --list [flags]"
    parser.add_argument("--list", action="store_true", help="list groups")
    parser.add_argument(
        "--group-type",
        metavar="TYPE",
        help="only groups of this type: classic, consumer, share, streams",
    )
    parser.add_argument(
        "--protocol", metavar="NAME", help="only groups of this protocol type, like consumer"
    )
    parser.add_argument(
        "--consumer",
        action="store_true",
        help="only groups of consumers: of the new protocol, the classic one, or without members",
    )
    parser.add_argument("--share", action="store_true", help="only share groups")
    parser.add_argument("--streams", action="store_true", help="only streams groups")
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.list:
        raise UsageError("--list is needed; details of a group: odradek consumer-groups --describe")
    filters = [f"--{name}" for name in _FILTERS if getattr(arguments, name)]
    if len(filters) > 1:
        raise UsageError(f"{' and '.join(filters)} cannot go together")
    if filters and (arguments.group_type or arguments.protocol):
        raise UsageError(f"{filters[0]} cannot be used with --group-type or --protocol")
    parse_types(arguments.group_type, GROUP_TYPES)
    import asyncio

    from odradek.cli.groups.group_actions import list_every_group

    return asyncio.run(list_every_group(arguments))
