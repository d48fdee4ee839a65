"""`odradek cluster`: the cluster's id and its brokers' addresses, as kafka-cluster does."""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import OlderSpelling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek cluster cluster-id|list-endpoints [flags]"
    parser.add_argument(
        "action",
        choices=("cluster-id", "list-endpoints"),
        help="what to print",
    )
    parser.add_argument(
        "--include-fenced-brokers",
        action="store_true",
        help="with list-endpoints: also brokers that may not serve at the moment",
    )
    add_json_argument(parser)
    add_connection_arguments(parser)
    parser.add_argument(
        "--config", dest="command_config", action=OlderSpelling, instead="--command-config"
    )


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from odradek.cli.cluster_actions import print_cluster_id, print_endpoints

    if arguments.action == "cluster-id":
        return asyncio.run(print_cluster_id(arguments))
    return asyncio.run(print_endpoints(arguments))
