"""`odradek client-metrics`: which metrics clients push to the brokers, as kafka-client-metrics."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import exactly_one_of
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = ("alter", "delete", "describe", "list")
_EXAMPLES = """\
examples:
  odradek client-metrics --alter --name producers --interval 30000 \\
      --metrics org.apache.kafka.producer. --match client_software_name=apache-kafka-java
  odradek client-metrics --alter --generate-name --metrics '*'
  odradek client-metrics --describe
  odradek client-metrics --delete --name producers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek client-metrics --alter|--delete|--describe|--list [flags]"
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument("--alter", action="store_true", help="make or change a subscription")
    actions.add_argument("--delete", action="store_true", help="delete a subscription")
    actions.add_argument("--describe", action="store_true", help="show one or all subscriptions")
    actions.add_argument("--list", action="store_true", help="list the names of subscriptions")
    parser.add_argument("--name", metavar="NAME", help="the subscription")
    parser.add_argument(
        "--generate-name", action="store_true", help="with --alter: make up a name for it"
    )
    parser.add_argument(
        "--metrics",
        metavar="PREFIX,...",
        help="prefixes of the metrics to push, * for all; empty: none",
    )
    parser.add_argument(
        "--interval", metavar="MS", help="how often clients push, 100 to 3600000; empty: 300000"
    )
    parser.add_argument(
        "--match",
        metavar="KEY=REGEX,...",
        help="the clients that are meant, by client_id, client_instance_id, client_software_name,"
        " client_software_version, client_source_address or client_source_port; empty: all",
    )
    add_json_argument(parser)
    add_watch_argument(parser, changing=("alter", "delete"))
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    action = exactly_one_of(arguments, _ACTIONS)
    changes = {
        "metrics": arguments.metrics,
        "interval.ms": arguments.interval,
        "match": arguments.match,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if action != "alter" and (given or arguments.generate_name):
        raise UsageError("--metrics, --interval, --match and --generate-name belong to --alter")
    if arguments.generate_name and arguments.name:
        raise UsageError("give --name or --generate-name, not both")
    if action == "alter":
        if not arguments.name and not arguments.generate_name:
            raise MissingFlag("--alter needs --name NAME or --generate-name")
        if not given:
            raise MissingFlag("--alter needs --metrics, --interval or --match")
    if action == "delete" and not arguments.name:
        raise MissingFlag("--delete needs --name NAME")
    if action == "list" and arguments.name:
        raise UsageError("--list takes no --name; use --describe --name NAME")
    import asyncio

    from odradek.cli.topics import client_metrics_actions as actions

    if action == "alter":
        return asyncio.run(actions.alter(arguments, given))
    if action == "delete":
        return asyncio.run(actions.delete(arguments))
    show = actions.describe if action == "describe" else actions.list_names
    return asyncio.run(show(arguments))
