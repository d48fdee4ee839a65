"""The action of `odradek recipe`: starts a broker and Spark, runs the recipe, saves the chart."""

import argparse
import sys
from importlib import import_module

from odradek.recipes import module_of
from odradek.recipes.charts import save_png
from odradek.spark.preflight import check_output_file
from odradek.spark.prerequisites import require_matplotlib, require_spark
from odradek.world import SystemClock


def play(arguments: argparse.Namespace) -> int:
    require_spark()
    if arguments.png:
        require_matplotlib()
        check_output_file("--png", arguments.png)
    from odradek.recipes.environment import recipe_environment

    recipe = import_module(module_of(arguments.recipe))
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    try:
        with recipe_environment(lambda line: print(line, flush=True)) as environment:
            recipe.run(environment)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise
    if arguments.png:
        save_png(arguments.png, environment.charts)
        print(f"the picture is in {arguments.png}")
    print(f"{arguments.recipe}: done in {clock.monotonic_s() - begun_s:.0f} s")
    return 0
