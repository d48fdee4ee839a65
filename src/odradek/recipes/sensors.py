"""A factory's sensors, and three readers with three needs.

The audit copies every reading exactly once, although its query is killed in the middle. Health
trends need readings by sensor. Alerts need only the latest state of a sensor, and critical ones
first: they have a partition of their own, and both partitions are compacted.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.recipes.charts import Bars, Trends
from odradek.recipes.environment import RecipeEnvironment, as_json, from_json

_READINGS = 24_000
_SENSORS = 6
_MINUTES = 24
_SCHEMA = "sensor string, temperature double"
_CRITICAL, _OTHERS = 0, 1
_URGENCY = {"critical": 0, "warning": 1, "well": 2}


def run(environment: RecipeEnvironment) -> None:
    readings = environment.create_topic("readings", partitions=2)
    _measure(environment, readings)
    environment.print_line(f"{_READINGS:,} readings of {_SENSORS} sensors are in topic readings")
    _audit(environment, readings)
    _trends(environment, readings)
    _alerts(environment, readings)


def _audit(environment: RecipeEnvironment, readings: str) -> None:
    audit = environment.create_topic("audit", partitions=2)
    copied = environment.stream(readings, maxOffsetsPerTrigger=str(_READINGS // 6)).select(
        "key", "value"
    )
    query = environment.start_writing(copied, audit, "audit")
    while query.isActive and not any(progress["numInputRows"] for progress in query.recentProgress):
        query.awaitTermination(1)
    query.stop()
    torn = environment.read(audit).count()
    environment.print_line(
        f"audit: torn off after {torn:,} readings; started again from its checkpoint"
    )
    environment.finish(environment.start_writing(copied, audit, "audit"))
    key = f.concat("key", f.lit(b"\x00"), "value")
    there = environment.read(audit).select(key.alias("row"))
    whole = environment.read(readings).select(key.alias("row"))
    lost, doubled = whole.exceptAll(there).count(), there.exceptAll(whole).count()
    assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled"
    environment.print_line(f"audit: {there.count():,} readings, none lost, none twice")


def _trends(environment: RecipeEnvironment, readings: str) -> None:
    by_minute = (
        from_json(environment.stream(readings), _SCHEMA)
        .withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "1 minute").alias("minute"), "sensor")
        .agg(f.avg("temperature").alias("temperature"))
    )
    rows = environment.query_to_table(by_minute, "trends").orderBy("minute.start").collect()
    lines: dict[str, list[float]] = {f"sensor-{number}": [] for number in range(_SENSORS)}
    for row in rows:
        lines[row["sensor"]].append(row["temperature"])
    environment.show(Trends("Temperature by sensor, a minute a step", lines))


def _alerts(environment: RecipeEnvironment, readings: str) -> None:
    compacted = {"cleanup.policy": "compact"}
    alerts = environment.create_topic("alerts", partitions=2, config=compacted)
    latest = (
        from_json(environment.stream(readings, maxOffsetsPerTrigger=str(_READINGS // 4)), _SCHEMA)
        .groupBy("sensor")
        .agg(f.max_by("temperature", "timestamp").alias("temperature"))
        .withColumn(
            "state",
            f.expr(
                "case when temperature > 90 then 'critical' when temperature > 70 then 'warning'"
                " else 'well' end"
            ),
        )
    )
    environment.finish(environment.start_writing(_placed(latest), alerts, "alerts", mode="update"))

    # A reader that only needs critical states reads only the critical partition.
    states: list[tuple[str, str, float]] = []
    for partition in (_CRITICAL, _OTHERS):
        rows = environment.read(alerts, assign=f'{{"{alerts}": [{partition}]}}')
        newest = rows.groupBy("key").agg(
            f.max("timestamp").alias("timestamp"),
            # Wrapped in a struct, because max_by would ignore the null of a tombstone.
            f.max_by(f.struct("value"), "offset").alias("newest"),
        )
        alive = newest.where("newest.value is not null").select(
            "key", "timestamp", f.col("newest.value").alias("value")
        )
        for row in from_json(alive, "state string, temperature double").collect():
            states.append((row["key"], row["state"], row["temperature"]))
        if partition == _CRITICAL:
            environment.print_line(
                f"alerts: critical first: {', '.join(sorted(row[0] for row in states))}"
            )
    assert len(states) == _SENSORS, "one state for each sensor, wherever it was before"
    states.sort(key=lambda row: (_URGENCY[row[1]], -row[2]))
    environment.show(
        Bars(
            "Latest state of each sensor",
            [(f"{sensor} {state}", [round(degrees, 1)]) for sensor, state, degrees in states],
        )
    )


def _placed(latest: DataFrame) -> DataFrame:
    """Writes each state into its partition, and a tombstone into the other partition, where an
    older state of the sensor may be."""
    partition = f.when(f.col("state") == "critical", _CRITICAL).otherwise(_OTHERS)
    value = as_json("state", "temperature")
    both = f.array(
        f.struct(partition.alias("partition"), value.alias("value")),
        f.struct((1 - partition).alias("partition"), f.lit(None).cast("string").alias("value")),
    )
    return latest.select(f.col("sensor").alias("key"), f.explode(both).alias("one")).select(
        "key", "one.partition", "one.value"
    )


def _measure(environment: RecipeEnvironment, topic: str) -> None:
    """Makes readings. All vary a little; sensor 4 heats up steadily, sensor 2 was hot and has
    cooled down."""
    rows = environment.spark.range(0, _READINGS, 1, 2).select(
        (f.col("id") % _SENSORS).alias("number"),
        (f.col("id") * _MINUTES / _READINGS).alias("minute"),
        f.rand(13).alias("noise"),
    )
    course = (
        f.when(f.col("number") == 4, 50 + f.col("minute") * 2)
        .when(f.col("number") == 2, 100 - f.col("minute") * 2)
        .when(f.col("number") == 5, f.lit(76.0))
        .otherwise(45 + f.sin(f.col("minute") / 3 + f.col("number")) * 8)
    )
    sensor = f.concat(f.lit("sensor-"), f.col("number").cast("string"))
    temperature = f.round(course + f.col("noise") * 3, 2)
    environment.write(
        rows.select(
            sensor.alias("sensor"),
            temperature.alias("temperature"),
            f.timestamp_seconds(1_700_000_040 + f.col("minute") * 60).alias("timestamp"),
        ).select(f.col("sensor").alias("key"), as_json("sensor", "temperature"), "timestamp"),
        topic,
    )
