"""`odradek broker-api-versions`: the API versions that each broker supports, like
kafka-broker-api-versions."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from odradek.cli.cluster.cluster_actions import print_api_versions

    return asyncio.run(print_api_versions(arguments))
