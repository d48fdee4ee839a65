"""Whole examples that run by themselves in a minute: `odradek recipe clicks`.

Each file here is one recipe and is meant to be read. There are two kinds:

- With Spark: `run(environment)` receives a broker and a Spark session, makes its data, does its
  work with plain PySpark, and shows a chart. The module `environment` sets up what it needs.
- Without Spark: `async def run(print_line)` starts its own brokers and uses the asyncio client.

The module `charts` draws. docs/recipes/ explains what each recipe shows.
"""

from typing import Final

# What each recipe shows, by its name. Its module has the same name, except for `lambda`, which is a
# keyword.
RECIPES: Final = {
    "sensors": "a sensor factory: an audit without loss, health trends, critical alerts",
    "clicks": "clicks counted by page and minute, late ones included",
    "taxis": "surge prices by area and window, from ride requests and free drivers",
    "lambda": "a batch view and a speed view, merged by queries",
    "kappa": "version 2 of a query beside version 1, then the cut-over",
}


# The same, for recipes that need neither Spark nor Java.
WITHOUT_SPARK: Final = {
    "selfies": "selfies in, merchandise out: a store burns down, a broker dies, nothing is lost",
    "audit": "interceptors count what was produced and consumed, and an auditor compares",
    "repartition": "a topic is published again with another key and more partitions, in use",
    "notifications": "events that another service formats, for e-mail or SMS, each told once",
}


def module_of(name: str) -> str:
    return f"odradek.recipes.{'lambda_views' if name == 'lambda' else name}"
