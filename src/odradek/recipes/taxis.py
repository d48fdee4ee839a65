"""Taxi prices by area and window: counts ride requests and free drivers over sliding windows, and
compares them."""

from pyspark.sql import functions as f

from odradek.recipes.charts import Bars, Grid
from odradek.recipes.environment import RecipeEnvironment, as_json

_EVENTS = 24_000
_MINUTES = 30
_AREAS = ("airport", "centre", "harbour", "station", "suburb")
_MAX = 3.0


def run(environment: RecipeEnvironment) -> None:
    topics = [environment.create_topic("rides-wanted"), environment.create_topic("drivers-free")]
    # Demand at the airport rises in the middle of the half hour, as if a plane had landed.
    _drive(environment, topics[0], seed=3, rush="airport")
    _drive(environment, topics[1], seed=5, rush=None)
    environment.print_line(
        f"{_EVENTS:,} events of {_MINUTES} minutes are in rides-wanted and drivers-free"
    )

    both = environment.spark.readStream.format("odradek").options(
        **environment.connection_options,
        subscribe=",".join(topics),
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(_EVENTS // 2),
    )
    events = both.load()
    wanted = f.col("topic") == topics[0]
    # One query reads both topics: the topic's name tells requests from drivers.
    by_area = events.select(
        f.col("key").cast("string").alias("area"),
        "timestamp",
        f.when(wanted, 1).otherwise(0).alias("wanted"),
        f.when(wanted, 0).otherwise(1).alias("free"),
    )
    prices = (
        by_area.withWatermark("timestamp", "2 minutes")
        .groupBy(f.window("timestamp", "10 minutes", "5 minutes").alias("window"), "area")
        .agg(f.sum("wanted").alias("wanted"), f.sum("free").alias("free"))
        .withColumn(
            "surge",
            f.least(f.lit(_MAX), f.greatest(f.lit(1.0), f.col("wanted") / (f.col("free") + 1))),
        )
    )
    rows = environment.query_to_table(prices, "surge_prices").collect()

    surge = {(row["area"], row["window"]["start"]): float(row["surge"]) for row in rows}
    windows = sorted({start for _, start in surge})
    environment.show(
        Grid(
            "Price factor by area and window (10 minutes, every 5)",
            [f"{start:%H:%M}" for start in windows],
            [(area, [surge.get((area, window), 1.0) for window in windows]) for area in _AREAS],
        )
    )
    asked = {area: sum(row["wanted"] for row in rows if row["area"] == area) for area in _AREAS}
    free = {area: sum(row["free"] for row in rows if row["area"] == area) for area in _AREAS}
    environment.show(
        Bars(
            "Rides wanted and drivers free, all windows",
            [(area, [asked[area], free[area]]) for area in _AREAS],
            ["wanted", "free"],
        )
    )
    hottest = max(surge, key=lambda place: surge[place])
    assert hottest[0] == "airport", "the plane has landed at the airport"
    environment.print_line(
        f"dearest: {hottest[0]} at {hottest[1]:%H:%M}, {surge[hottest]:.1f} times the fare"
    )


def _drive(environment: RecipeEnvironment, topic: str, *, seed: int, rush: str | None) -> None:
    areas = f.array(*[f.lit(area) for area in _AREAS])
    count = _EVENTS // 2
    events = environment.spark.range(0, count, 1, 2).select(
        (f.col("id") * _MINUTES / count).alias("minute"),
        f.element_at(areas, (f.floor(f.rand(seed) * len(_AREAS)) + 1).cast("int")).alias("area"),
        f.rand(seed + 1).alias("chance"),
    )
    if rush is not None:
        is_rush = (f.abs(f.col("minute") - _MINUTES / 2) < 4) & (f.col("chance") < 0.4)
        events = events.withColumn("area", f.when(is_rush, f.lit(rush)).otherwise(f.col("area")))
    at = f.timestamp_seconds(1_700_000_100 + f.col("minute") * 60)
    environment.write(
        events.select(f.col("area").alias("key"), as_json("area"), at.alias("timestamp")), topic
    )
