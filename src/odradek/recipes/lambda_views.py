"""Lambda: a batch view over all older records and a speed view over newer ones, merged by queries.

The boundary between them is given by offsets, not times, so each record is in exactly one view.
"""

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.recipes.charts import Bars
from odradek.recipes.environment import RecipeEnvironment, as_json, from_json

_HISTORY = 40_000
_SINCE = 8_000
_PRODUCTS = ("lamp", "chair", "desk", "shelf", "rug", "clock")
_SCHEMA = "product string, amount long"


def run(environment: RecipeEnvironment) -> None:
    topic = environment.create_topic("sales", partitions=2)
    _sell(environment, topic, 0, _HISTORY)
    environment.print_line(f"{_HISTORY:,} sales are in topic sales")

    # The nightly job: it processes everything up to the current end offsets and stores them.
    border = _ends(environment, topic)
    batch_view = _totals(from_json(environment.read(topic, endingOffsets=border), _SCHEMA))
    batch_path = f"{environment.directory}/batch-view"
    batch_view.write.parquet(batch_path)
    environment.print_line(f"the batch view is made, up to offsets {border}")

    _sell(environment, topic, _HISTORY, _HISTORY + _SINCE)
    environment.print_line(f"{_SINCE:,} more sales come in")
    since = from_json(environment.stream(topic, startingOffsets=border), _SCHEMA)
    speed_view = environment.query_to_table(_totals(since), "speed_view")

    # The serving layer: a query is answered from both views.
    batch = {
        row["product"]: row["amount"]
        for row in environment.spark.read.parquet(batch_path).collect()
    }
    speed = {row["product"]: row["amount"] for row in speed_view.collect()}
    merged = {product: batch.get(product, 0) + speed.get(product, 0) for product in _PRODUCTS}
    truth = {row["product"]: row["amount"] for row in _totals(_all(environment, topic)).collect()}
    assert merged == truth, "the two views together are the whole"
    ordered = sorted(_PRODUCTS, key=lambda product: -merged[product])
    environment.show(
        Bars(
            "Sold, by product",
            [(product, [batch.get(product, 0), speed.get(product, 0)]) for product in ordered],
            ["batch view", "speed view"],
        )
    )
    environment.print_line("both views together equal a count over the whole topic")


def _totals(sales: DataFrame) -> DataFrame:
    return sales.groupBy("product").agg(f.sum("amount").alias("amount"))


def _all(environment: RecipeEnvironment, topic: str) -> DataFrame:
    return from_json(environment.read(topic), _SCHEMA)


def _ends(environment: RecipeEnvironment, topic: str) -> str:
    """Returns the end offset of each partition in the JSON form of Spark's options."""
    rows = environment.read(topic).groupBy("partition").agg(f.max("offset").alias("last")).collect()
    return json.dumps({topic: {str(row["partition"]): row["last"] + 1 for row in rows}})


def _sell(environment: RecipeEnvironment, topic: str, first: int, end: int) -> None:
    products = f.array(*[f.lit(product) for product in _PRODUCTS])
    place = (f.floor(f.pow(f.rand(first + 1), 2) * len(_PRODUCTS)) + 1).cast("int")
    sales = environment.spark.range(first, end, 1, 2).select(
        f.element_at(products, place).alias("product"), (f.col("id") % 5 + 1).alias("amount")
    )
    environment.write(
        sales.select(f.col("product").alias("key"), as_json("product", "amount")), topic
    )
