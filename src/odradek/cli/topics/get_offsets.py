"""`odradek get-offsets`: first, last or by-time offsets, as kafka-get-offsets does."""

import argparse
import re
from collections.abc import Callable

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.tools.failures import UsageError
from odradek.tools.topic_names import topic_pattern

# Timestamps with a special meaning in ListOffsets.
SPECIAL_TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_EXAMPLES = """\
prints topic:partition:offset, one line a partition

examples:
  odradek get-offsets --topic orders --time earliest
  odradek get-offsets --topic orders --replicas      # each copy: its end, and how far behind it is
"""
_PATTERN = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Filter = Callable[[str, int], bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--topic", metavar="NAME", help="the topic, or a regular expression (default: all)"
    )
    parser.add_argument(
        "--partitions", metavar="N,...", help="only these partitions (default: all)"
    )
    parser.add_argument(
        "--topic-partitions",
        metavar="PATTERN,...",
        help="instead of both: topic:2 one partition, topic:0-3 from 0 up to 2, topic:5- from 5"
        " on, topic:-3 below 3, topic alone all of it; topic is a regular expression",
    )
    parser.add_argument(
        "--time",
        metavar="WHEN",
        type=time_asked,
        default=SPECIAL_TIMES["latest"],
        help="latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered"
        " (-5), earliest-pending-upload (-6), or milliseconds since 1970 for the first record"
        " of that time or later (default: latest)",
    )
    parser.add_argument(
        "--exclude-internal-topics",
        action="store_true",
        help="leave out the platform's own topics",
    )
    parser.add_argument(
        "--replicas",
        action="store_true",
        help="the end of every replica's log, in sync or not: which copy has most data",
    )
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser)


def time_asked(text: str) -> int:
    if text in SPECIAL_TIMES:
        return SPECIAL_TIMES[text]
    try:
        moment = int(text)
    except ValueError:
        moment = min(SPECIAL_TIMES.values()) - 1
    if moment < min(SPECIAL_TIMES.values()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time in milliseconds nor one of {', '.join(SPECIAL_TIMES)}"
        )
    return moment


def chosen_filter(arguments: argparse.Namespace) -> Filter:
    """Returns a function that tells whether the offset of a partition is asked for."""
    if arguments.topic_partitions is not None:
        if arguments.topic is not None or arguments.partitions is not None:
            raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
        rules = [_rule(text) for text in arguments.topic_partitions.split(",")]
        return lambda topic, partition: any(rule(topic, partition) for rule in rules)
    topics = topic_pattern(arguments.topic or ".*")
    partitions = _partition_set(arguments.partitions)
    return lambda topic, partition: (
        topics.fullmatch(topic) is not None and (not partitions or partition in partitions)
    )


def _rule(text: str) -> Filter:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"--topic-partitions {text!r} is not like topic:2 or topic:0-3")
    topics = topic_pattern(match[1] or ".*", "--topic-partitions")
    if match[2]:
        low, high = int(match[2]), int(match[2]) + 1
    else:
        low, high = int(match[3] or 0), int(match[4] or 2**31)
    return lambda topic, partition: topics.fullmatch(topic) is not None and low <= partition < high


def _partition_set(text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in (text or "").split(",") if part)
    except ValueError:
        raise UsageError(f"--partitions takes numbers with commas between, not {text!r}") from None


def run(arguments: argparse.Namespace) -> int:
    is_selected = chosen_filter(arguments)
    import asyncio

    if arguments.replicas:
        if arguments.time != SPECIAL_TIMES["latest"]:
            raise UsageError("--replicas shows the ends of logs; leave --time out")
        from odradek.cli.topics.replica_offsets import print_replica_offsets

        return asyncio.run(print_replica_offsets(arguments, is_selected))
    from odradek.cli.topics.partition_actions import print_offsets

    return asyncio.run(print_offsets(arguments, is_selected))
