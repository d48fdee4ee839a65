"""`odradek avro-console-consumer`: print the Avro records of a topic as JSON."""

import argparse

from odradek.cli.schemas.consoles import add_consumer_arguments, run_consumer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_consumer_arguments(parser, "avro-console-consumer")


def run(arguments: argparse.Namespace) -> int:
    return run_consumer(arguments, "AVRO")
