"""`odradek restore`: restores archived records into a topic."""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.cli.parser import key_and_value, positive_number
from odradek.cli.quantities import time_since_1970_ms
from odradek.cli.spark.options import add_spark_arguments, announce_spark
from odradek.tools.client_properties import client_properties

_EXAMPLES = """\
examples:
  odradek restore --from /data/archive --topic clicks
  odradek restore --from s3a://bucket/kafka --topic clicks --to-topic clicks-again
  odradek restore --from /data/archive --topic clicks --to-topic monday \\
    --since 2026-11-16 --until 2026-11-17

Partition, order, key, value, headers and timestamp are as they were; offsets are new. Each record
is written once: the same command again continues where the last one ended, however it ended, and
adds what was archived since. A missing topic is created with retention.ms=-1.
Needs the extra `spark` and Java 17.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--from", dest="directory", metavar="DIRECTORY", required=True, help="where the archive is"
    )
    parser.add_argument("--topic", metavar="NAME", required=True, help="the topic as archived")
    parser.add_argument(
        "--to-topic", metavar="NAME", help="the topic to write to (default: that of --topic)"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=time_ms,
        help="only records not older, as 2026-11-15, 2026-11-15T07:30 (UTC) or milliseconds",
    )
    parser.add_argument("--until", metavar="TIME", type=time_ms, help="only records that are older")
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="a setting of the topic, if it has to be created; may be repeated",
    )
    parser.add_argument(
        "--max-records",
        metavar="N",
        type=positive_number,
        default=500_000,
        help="the most records in one transaction, about (default: 500000)",
    )
    parser.add_argument(
        "--restore-id",
        metavar="NAME",
        help="write everything once more, under this name (default: made of the archive, the"
        " topics and the times, so that the same restore is done once)",
    )
    add_spark_arguments(parser)
    add_json_argument(parser)
    add_connection_arguments(parser, older_role="producer")


def time_ms(text: str) -> int:
    """Parses a time as milliseconds since 1970; a time without a zone is UTC."""
    if text.lstrip("-").isdigit() and len(text) > 8:
        return int(text)
    try:
        return time_since_1970_ms(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2026-11-15, 2026-11-15T07:30 or milliseconds"
        ) from None


def sink_options(arguments: argparse.Namespace) -> dict[str, str]:
    properties = client_properties(arguments, client_id="odradek-restore")
    return {f"kafka.{name}": value for name, value in properties.items()}


def run(arguments: argparse.Namespace) -> int:
    announce_spark()
    from odradek.cli.spark.archive_actions import restore_topic

    return restore_topic(arguments)
