"""`odradek archive`: archives topics as Parquet files, each record exactly once."""

import argparse
import re

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import positive_number
from odradek.cli.quantities import size_bytes
from odradek.cli.spark.options import add_spark_arguments, announce_spark
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import UsageError

_EXAMPLES = """\
examples:
  odradek archive --topic clicks --to /data/archive
  odradek archive --include 'orders-.*' --to s3a://bucket/kafka --follow
  odradek archive --list --to /data/archive

The same command again continues where the last one ended. Records are filed by the
date and hour of their timestamp, in UTC:
  topic=clicks/date=2026-11-15/hour=07/records-clicks-3-FIRST_OFFSET-LAST_OFFSET-N.parquet
Needs the extra `spark` and Java 17. A path may be on any filesystem that your Spark knows.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--to", metavar="DIRECTORY", required=True, help="where the archive is, or will be"
    )
    subject = parser.add_argument_group("what to do")
    subject.add_argument("--topic", metavar="NAME", help="topics to archive, with commas between")
    subject.add_argument(
        "--include", metavar="PATTERN", help="instead of --topic: a regular expression for several"
    )
    subject.add_argument(
        "--follow", action="store_true", help="go on archiving new records until interrupted"
    )
    subject.add_argument(
        "--interval-ms",
        metavar="MS",
        type=positive_number,
        default=60_000,
        help="with --follow: how long to wait between two runs (default: 60000)",
    )
    subject.add_argument("--list", action="store_true", help="show what is archived, and end")
    subject.add_argument(
        "--check",
        action="store_true",
        help="read the whole archive, check that each record is there exactly once, and end",
    )
    subject.add_argument("--merge", action="store_true", help="only merge small files, and end")
    _add_ways(parser)
    add_spark_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("topic", "include", "merge"))
    add_connection_arguments(parser, older_role="consumer")


def _add_ways(parser: argparse.ArgumentParser) -> None:
    ways = parser.add_argument_group("how")
    ways.add_argument(
        "--isolation-level",
        metavar="LEVEL",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="read_uncommitted also archives records of open transactions"
        " (default: read_committed)",
    )
    ways.add_argument(
        "--allow-data-loss",
        action="store_true",
        help="go on if records were deleted before they were archived, and record the gap",
    )
    ways.add_argument(
        "--max-records",
        metavar="N",
        type=positive_number,
        default=2_000_000,
        help="maximum number of records in one step, which a killed run has to repeat"
        " (default: 2000000)",
    )
    ways.add_argument(
        "--file-size",
        metavar="SIZE",
        type=size_bytes,
        default=128 << 20,
        help="small files are merged up to this size, as in 64MB (default: 128MiB)",
    )
    ways.add_argument("--no-merge", action="store_true", help="leave small files as they are")
    ways.add_argument(
        "--compression-type",
        metavar="CODEC",
        choices=("zstd", "snappy", "gzip", "lz4_raw", "uncompressed"),
        default="zstd",
        help="of Parquet files: zstd, snappy, gzip, lz4_raw or uncompressed (default: zstd)",
    )


def check(arguments: argparse.Namespace) -> None:
    actions = [name for name in ("list", "check", "merge") if getattr(arguments, name)]
    if len(actions) > 1:
        raise UsageError(f"give --{actions[0]} or --{actions[1]}, not both")
    topics = [name for name in ("topic", "include") if getattr(arguments, name)]
    if actions and topics:
        raise UsageError(f"--{actions[0]} is about the whole archive: leave out --{topics[0]}")
    if actions and arguments.follow:
        raise UsageError(f"--{actions[0]} ends, so --follow cannot be used with it")
    if re.search(r"[][*+?()|^$\\{}]", arguments.topic or ""):
        raise UsageError(
            f"--topic takes names of topics; for a pattern: --include {arguments.topic!r}"
        )
    if not actions and len(topics) != 1:
        raise UsageError("give --topic NAME, or --include PATTERN for several")


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the flags as options of the data source."""
    properties = client_properties(arguments, client_id="odradek-archive")
    options = {f"kafka.{name}": value for name, value in properties.items()}
    options["kafka.isolation.level"] = arguments.isolation_level
    if arguments.topic:
        options["subscribe"] = arguments.topic
    else:
        options["subscribePattern"] = arguments.include
    return options


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    announce_spark()
    from odradek.cli.spark.archive_actions import work_on_archive

    return work_on_archive(arguments)
