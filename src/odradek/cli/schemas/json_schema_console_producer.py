"""`odradek json-schema-console-producer`: send lines of JSON as JSON with a JSON Schema."""

import argparse

from odradek.cli.schemas.consoles import add_producer_arguments, run_producer

_SCHEMA = '{"type":"object"}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_producer_arguments(parser, "json-schema-console-producer", _SCHEMA)


def run(arguments: argparse.Namespace) -> int:
    return run_producer(arguments, "JSON")
