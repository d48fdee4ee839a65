"""`odradek cluster`: the cluster's id and brokers, like kafka-cluster; and decommissioning a
broker."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import OlderSpelling, positive_number, whole_number
from odradek.tools.failures import MissingFlag

_ACTIONS = ("cluster-id", "list-endpoints", "decommission", "unregister")

_EXAMPLES = """\
examples:
  odradek cluster list-endpoints
  odradek cluster decommission --id 3      # moves all that broker 3 holds; then stop it

`decommission` waits until all replicas have moved, and can be interrupted: the moves go
on, and running it again waits again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"odradek cluster {'|'.join(_ACTIONS)} [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=_ACTIONS, help="what to print or do")
    parser.add_argument(
        "--include-fenced-brokers",
        action="store_true",
        help="with list-endpoints: also brokers that are fenced",
    )
    parser.add_argument(
        "--id", "--broker", metavar="ID", type=whole_number,
        help="with decommission and unregister: which broker",
    )  # fmt: skip
    parser.add_argument(
        "--lower-replication-factor",
        action="store_true",
        help="with decommission: fewer replicas if too few brokers are left",
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=positive_number,
        default=3600,
        help="with decommission: wait at most this many seconds (default: 3600)",
    )
    add_json_argument(parser)
    add_watch_argument(parser, changing=("decommission", "unregister"))
    add_connection_arguments(parser)
    parser.add_argument(
        "--config", dest="command_config", action=OlderSpelling, instead="--command-config"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.action in {"decommission", "unregister"} and arguments.id is None:
        raise MissingFlag(f"{arguments.action} needs --id ID")
    import asyncio

    if arguments.action == "decommission":
        from odradek.cli.cluster.decommission import decommission

        return asyncio.run(decommission(arguments))
    from odradek.cli.cluster.cluster_actions import print_cluster_id, print_endpoints, unregister

    action = {
        "cluster-id": print_cluster_id,
        "list-endpoints": print_endpoints,
        "unregister": unregister,
    }[arguments.action]
    return asyncio.run(action(arguments))
