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
    """Says at once that the work has begun: Spark takes seconds to start, and before that flags,
    files, topics and brokers are checked. It says so also where standard error is not a terminal:
    whoever reads a log file or the output of CI wonders likewise."""
    print("checking, then starting Spark ...", file=sys.stderr, flush=True)
