"""`odradek recipe`: a whole example, with its own brokers and data, and Spark where it computes."""

import argparse

from odradek.recipes import RECIPES, WITHOUT_SPARK
from odradek.tools.failures import UsageError

_EXAMPLES = (
    "recipes with Spark:\n"
    + "\n".join(f"  {name:<13} {summary}" for name, summary in RECIPES.items())
    + "\n\nrecipes that need nothing else:\n"
    + "\n".join(f"  {name:<13} {summary}" for name, summary in WITHOUT_SPARK.items())
    + """

examples:
  odradek recipe selfies
  odradek recipe clicks
  odradek recipe taxis --png taxis.png

Each runs for about a minute, on ports and in a directory of its own, and leaves nothing behind but
the chart that --png names. The code is meant to be read: src/odradek/recipes.
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek recipe NAME [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "recipe", metavar="NAME", choices=(*RECIPES, *WITHOUT_SPARK), help="which one"
    )
    parser.add_argument(
        "--png", metavar="FILE", help="also draw the result into a file (needs matplotlib)"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.recipe in WITHOUT_SPARK:
        if arguments.png:
            raise UsageError(f"{arguments.recipe} draws no picture; leave --png out")
        from odradek.cli.spark.recipe_without_spark import play_without_spark

        return play_without_spark(arguments.recipe)
    from odradek.cli.spark.recipe_actions import play

    return play(arguments)
