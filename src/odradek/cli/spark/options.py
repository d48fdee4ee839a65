"""What all tools that start Spark share: its flags, and the first line that they show."""

import argparse
import sys

from odradek.cli.parser import key_and_value


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master", metavar="URL", help="the cluster to run on (default: local[*], this machine)"
    )
    group.add_argument(
        "--spark-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="one setting of Spark, spark.hadoop.* for filesystems; may be repeated",
    )


def announce_spark() -> None:
    """Says at once on a terminal that the work has begun: Spark takes seconds to start, and before
    that flags, files, topics and brokers are checked. Elsewhere a command that fails leaves one
    line, the reason."""
    if sys.stderr.isatty():
        print("checking, then starting Spark ...", file=sys.stderr, flush=True)
