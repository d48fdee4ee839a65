"""Kappa: one stream and no batch layer.

A new version of the query reads the topic again from its beginning into a topic of its own, beside
the old one; when it has caught up, readers are sent to it.

Which version serves is itself a record, in a compacted topic: cutting over, and back, is one write.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.recipes.charts import Bars
from odradek.recipes.environment import RecipeEnvironment, as_json, from_json

_VISITS = 24_000
_SCHEMA = "country string, agent string"
_COUNTRIES = ("cz", "de", "fr", "pl", "at")


def run(environment: RecipeEnvironment) -> None:
    visits = environment.create_topic("visits", partitions=2)
    serving = environment.create_topic(
        "serving", partitions=1, config={"cleanup.policy": "compact"}
    )
    for version in ("v1", "v2"):
        environment.create_topic(
            f"visitors-{version}", partitions=1, config={"cleanup.policy": "compact"}
        )
    _visit(environment, visits, 0, _VISITS // 2)

    _count(environment, visits, "v1")
    _serve(environment, serving, "v1")
    before = _answer(environment, serving)
    environment.print_line(f"version 1 serves: {sum(before.values()):,} visitors, bots among them")

    # Version 1 keeps running while version 2 reads everything again.
    _visit(environment, visits, _VISITS // 2, _VISITS)
    _count(environment, visits, "v1")
    _count(environment, visits, "v2")
    environment.print_line(
        "version 2 has read the topic from its beginning; version 1 still serves"
    )
    old = _answer(environment, serving)

    _serve(environment, serving, "v2")
    new = _answer(environment, serving)
    environment.print_line("cut over: one record in topic serving")
    people = _VISITS - _VISITS // 4
    assert sum(old.values()) == _VISITS, "version 1 counts everybody"
    assert sum(new.values()) == people, "version 2 leaves out bots"
    environment.show(
        Bars(
            "Visitors by country: people (version 2), and bots that version 1 counted too",
            [(land, [new[land], old[land] - new[land]]) for land in _COUNTRIES],
            ["people", "bots"],
        )
    )
    environment.print_line(
        "to go back, write v1 to topic serving; to be done, stop version 1, delete its topic"
    )


def _count(environment: RecipeEnvironment, visits: str, version: str) -> None:
    """Runs one version of the query, with its own topic and its own checkpoint."""
    rows: DataFrame = from_json(environment.stream(visits), _SCHEMA)
    if version == "v2":
        rows = rows.where("agent <> 'bot'")
    counts = rows.groupBy("country").count()
    out = counts.select(f.col("country").alias("key"), as_json("country", "count"))
    name = f"visitors-{version}"
    environment.finish(environment.start_writing(out, name, name, mode="update"))


def _serve(environment: RecipeEnvironment, serving: str, version: str) -> None:
    row = environment.spark.createDataFrame([("current", version)], "key string, value string")
    environment.write(row, serving)


def _answer(environment: RecipeEnvironment, serving: str) -> dict[str, int]:
    """Returns what a reader sees: the counts of the version that serves, the newest for each
    key."""
    (current,) = _newest(environment.read(serving)).collect()
    view = from_json(
        _newest(environment.read(f"visitors-{current['text']}")), "country string, count long"
    )
    return {row["country"]: row["count"] for row in view.collect()}


def _newest(frame: DataFrame) -> DataFrame:
    newest = frame.groupBy("key").agg(
        f.max_by("value", "offset").alias("value"), f.max("timestamp").alias("timestamp")
    )
    return newest.withColumn("text", f.col("value").cast("string"))


def _visit(environment: RecipeEnvironment, topic: str, first: int, end: int) -> None:
    """Makes visits; every fourth visitor is a bot."""
    countries = f.array(*[f.lit(land) for land in _COUNTRIES])
    place = (f.floor(f.pow(f.rand(first + 1), 1.5) * len(_COUNTRIES)) + 1).cast("int")
    agent = f.when(f.col("id") % 4 == 0, "bot").otherwise("browser")
    rows = environment.spark.range(first, end, 1, 2).select(
        f.element_at(countries, place).alias("country"), agent.alias("agent")
    )
    environment.write(
        rows.select(f.col("country").alias("key"), as_json("country", "agent")), topic
    )
