"""Flags of all tools that start Spark: its master and its settings."""

import argparse

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
