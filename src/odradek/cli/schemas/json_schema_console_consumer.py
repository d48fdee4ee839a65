"""`odradek json-schema-console-consumer`: print JSON records that have a schema."""

import argparse

from odradek.cli.schemas.consoles import add_consumer_arguments, run_consumer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_consumer_arguments(parser, "json-schema-console-consumer")


def run(arguments: argparse.Namespace) -> int:
    return run_consumer(arguments, "JSON")
