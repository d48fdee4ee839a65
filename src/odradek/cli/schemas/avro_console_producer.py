"""`odradek avro-console-producer`: send lines of JSON as Avro."""

import argparse

from odradek.cli.schemas.consoles import add_producer_arguments, run_producer

_SCHEMA = '{"type":"record","name":"Order","fields":[{"name":"n","type":"long"}]}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_producer_arguments(parser, "avro-console-producer", _SCHEMA)


def run(arguments: argparse.Namespace) -> int:
    return run_producer(arguments, "AVRO")
