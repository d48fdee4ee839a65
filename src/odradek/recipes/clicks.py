"""Clicks counted by page and minute, in event time: late clicks still find their minute."""

from pyspark.sql import functions as f

from odradek.recipes.charts import Bars, Trends
from odradek.recipes.environment import RecipeEnvironment, as_json, from_json

_CLICKS = 30_000
_MINUTES = 12
_PAGES = ("/", "/prices", "/docs", "/blog", "/login")


def run(environment: RecipeEnvironment) -> None:
    topic = environment.create_topic("clicks", partitions=3)
    _click(environment, topic)
    environment.print_line(
        f"{_CLICKS:,} clicks of {_MINUTES} minutes are in topic clicks, one in ten is late"
    )

    clicks = from_json(
        environment.stream(topic, maxOffsetsPerTrigger=str(_CLICKS // 3)), "page string, user long"
    )
    counted = (
        clicks.withWatermark("timestamp", "5 minutes")
        .groupBy(f.window("timestamp", "1 minute").alias("minute"), "page")
        .count()
    )
    rows = environment.query_to_table(counted, "clicks_by_minute").collect()

    by_page: dict[str, int] = {}
    by_minute: dict[str, dict[object, int]] = {page: {} for page in _PAGES}
    for row in rows:
        by_page[row["page"]] = by_page.get(row["page"], 0) + row["count"]
        by_minute[row["page"]][row["minute"]["start"]] = row["count"]
    assert sum(by_page.values()) == _CLICKS, "every click is in exactly one minute"
    ordered = sorted(by_page.items(), key=lambda count: -count[1])
    environment.show(Bars("Clicks by page", [(page, [count]) for page, count in ordered]))
    minutes = sorted({minute for counts in by_minute.values() for minute in counts}, key=str)
    environment.show(
        Trends(
            "Clicks a minute",
            {
                page: [float(by_minute[page].get(minute, 0)) for minute in minutes]
                for page, _ in ordered
            },
        )
    )


def _click(environment: RecipeEnvironment, topic: str) -> None:
    """Makes clicks on five pages. The first is the most popular; /prices grows over time."""
    pages = f.array(*[f.lit(page) for page in _PAGES])
    clicks = environment.spark.range(0, _CLICKS, 1, 2).select(
        (f.col("id") % 997).alias("user"),
        (f.col("id") * _MINUTES / _CLICKS).alias("minute"),
        f.rand(7).alias("chance"),
        f.rand(11).alias("late"),
    )
    place = f.when(f.col("chance") * 24 < f.col("minute"), f.lit(1)).otherwise(
        f.floor(f.pow(f.col("chance"), 2) * len(_PAGES))
    )
    at = 1_700_000_000 + f.col("minute") * 60 - f.when(f.col("late") < 0.1, 90).otherwise(0)
    environment.write(
        clicks.select(
            f.element_at(pages, (place + 1).cast("int")).alias("page"),
            "user",
            f.timestamp_seconds(at).alias("timestamp"),
        ).select(f.col("user").cast("string").alias("key"), as_json("page", "user"), "timestamp"),
        topic,
    )
