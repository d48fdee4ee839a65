"""Whole examples that run by themselves in a minute: `odradek recipe clicks`.

Each file here is one recipe and is meant to be read: `run(stage)` has a broker and a Spark, makes
its data, does its work with plain PySpark, and shows a picture. `stage` is the room it plays in,
`charts` the pictures. What it teaches is in docs/recipes/.
"""

from typing import Final

# By name: what it shows, in a line. The module has the same name, but for `lambda`, a keyword.
RECIPES: Final = {
    "sensors": "a sensor factory: an audit that loses nothing, health trends, alerts by urgency",
    "clicks": "clicks counted by page and minute, late ones included",
    "taxis": "surge prices by area and window, from rides asked for and drivers free",
    "lambda": "a batch view and a speed view, merged when asked",
    "kappa": "version 2 of a query beside version 1, then the cut-over",
}


def module_of(name: str) -> str:
    return f"odradek.recipes.{'lambda_views' if name == 'lambda' else name}"
