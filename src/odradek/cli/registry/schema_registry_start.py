"""`odradek schema-registry-start`: the schema registry, from a properties file."""

import argparse
from typing import Final

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
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting in place of that of the file; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.registry.registry_actions import run_from_file

    return run_from_file(arguments.config, arguments.override)
