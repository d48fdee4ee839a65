"""`odradek schema-registry-start`: the schema registry, from a properties file."""

import argparse
from typing import Final

from odradek.cli.services.starting import add_process_arguments

_EXAMPLES: Final = """\
examples:
  odradek schema-registry-start config/schema-registry.properties
  odradek schema-registry-start config/schema-registry.properties --override host.name=registry-1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek schema-registry-start CONFIG [--override KEY=VALUE ...]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "config", metavar="CONFIG", help="a properties file with the names of Confluent's settings"
    )
    add_process_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.registry.registry_actions import run_from_file

    return run_from_file(arguments)
