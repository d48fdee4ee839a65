"""The action of `odradek recipe`: starts a broker and Spark, runs the recipe, saves the chart."""

import argparse
from importlib import import_module

from odradek.recipes import module_of
from odradek.recipes.charts import save_png
from odradek.spark.prerequisites import require_spark
from odradek.tools.failures import CommandFailed
from odradek.world import SystemClock


def play(arguments: argparse.Namespace) -> int:
    require_spark()
    from odradek.recipes.environment import recipe_environment

    recipe = import_module(module_of(arguments.recipe))
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    with recipe_environment(lambda line: print(line, flush=True)) as environment:
        recipe.run(environment)
    if arguments.png:
        if not save_png(arguments.png, environment.charts):
            raise CommandFailed("--png needs matplotlib: pip install matplotlib")
        print(f"the picture is in {arguments.png}")
    print(f"{arguments.recipe}: done in {clock.monotonic_s() - begun_s:.0f} s")
    return 0
