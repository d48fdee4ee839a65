"""`odradek protobuf-console-producer`: send lines of JSON as Protobuf."""

import argparse

from odradek.cli.schemas.consoles import add_producer_arguments, run_producer

_SCHEMA = 'syntax = "proto3"; message Order { int64 n = 1; }'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_producer_arguments(parser, "protobuf-console-producer", _SCHEMA)


def run(arguments: argparse.Namespace) -> int:
    return run_producer(arguments, "PROTOBUF")
