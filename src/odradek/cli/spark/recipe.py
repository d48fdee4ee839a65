"""`odradek recipe`: a whole example, with its own broker, Spark and data."""

import argparse

from odradek.recipes import RECIPES

_EXAMPLES = (
    "recipes:\n"
    + "\n".join(f"  {name:<9} {summary}" for name, summary in RECIPES.items())
    + """

examples:
  odradek recipe clicks
  odradek recipe taxis --png taxis.png

Each runs for about a minute, on ports and in a directory of its own, and leaves nothing behind but
the chart that --png names. The code is meant to be read: src/odradek/recipes.
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek recipe NAME [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("recipe", metavar="NAME", choices=tuple(RECIPES), help="which one")
    parser.add_argument(
        "--png", metavar="FILE", help="also draw the result into a file (needs matplotlib)"
    )


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.spark.recipe_actions import play

    return play(arguments)
