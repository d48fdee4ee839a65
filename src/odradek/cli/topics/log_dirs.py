"""`odradek log-dirs`: disk used by partitions on each broker, as kafka-log-dirs does."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.tools.failures import UsageError
from odradek.tools.hints import hint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--describe", action="store_true", help="show the directories; the only action"
    )
    parser.add_argument(
        "--topic-list", metavar="NAME,...", default="", help="only these topics (default: all)"
    )
    parser.add_argument(
        "--broker-list", metavar="ID,...", default="", help="only these brokers (default: all)"
    )
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser, broker_list=False)


def broker_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"--broker-list takes ids with commas between, not {text!r}") from None


def run(arguments: argparse.Namespace) -> int:
    brokers = broker_ids(arguments.broker_list)
    topics = [name.strip() for name in arguments.topic_list.split(",") if name.strip()]
    if not arguments.describe:
        hint("--describe is understood when left out")
    import asyncio

    from odradek.cli.topics.partition_actions import print_log_directories

    return asyncio.run(print_log_directories(arguments, brokers, topics))
