"""The demo's Spark query: clicks counted by page in windows of a second, while they are made.

    python scripts/live_counts.py BOOTSTRAP

Draws the counts after each micro-batch, in place on a terminal. Ends with 1 if the counts do not
add up to what was sent. Needs the extra `spark` and Java.
"""
# ruff: noqa: T201 - it is for people

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from odradek import spark as odradek_spark
from odradek.client.sync import Admin, Producer
from odradek.recipes.charts import Bars, Trends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "clicks"
PAGES = ("/", "/prices", "/docs", "/blog")
LIKED = (6, 4, 3, 2)
CLICKS_A_SECOND = 400
SECONDS = 8


class Clicks(threading.Thread):
    """Makes clicks until it is stopped; now this page is wanted, now that."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap
        self._stop_asked = threading.Event()
        self.sent = 0

    def run(self) -> None:
        chance = random.Random(7)  # noqa: S311 - a fair visitor
        with Producer(bootstrap_servers=self._servers, acks="all") as producer:
            begun = time.monotonic()
            while not self._stop_asked.wait(0.02):
                elapsed = time.monotonic() - begun
                wanted = list(LIKED)
                wanted[int(elapsed / 4) % len(PAGES)] += 4
                while self.sent < elapsed * CLICKS_A_SECOND:
                    (page,) = chance.choices(PAGES, wanted)
                    producer.send(TOPIC, json.dumps({"page": page}).encode())
                    self.sent += 1
            producer.flush()

    def stop(self) -> int:
        """How many it made, all of them acknowledged."""
        self._stop_asked.set()
        self.join()
        return self.sent


class Chart:
    """What is known so far, drawn over what was drawn before."""

    def __init__(self) -> None:
        self._by_second: dict[int, dict[str, int]] = defaultdict(dict)
        self._drawn = 0
        self.batches = 0

    @property
    def total(self) -> int:
        return sum(sum(counts.values()) for counts in self._by_second.values())

    def update(self, changed: "DataFrame", _: int) -> None:
        """In update mode a micro-batch has the windows that it changed."""
        for row in changed.collect():
            self._by_second[row["second"]][row["page"]] = row["clicks"]
        self.batches += 1
        if sys.stdout.isatty():
            self.draw()

    def draw(self) -> None:
        width = min(80, shutil.get_terminal_size((80, 24)).columns)
        # The newest second is not over yet.
        seconds = sorted(self._by_second)[:-1]
        trends = {page: [float(self._of(one, page)) for one in seconds] for page in PAGES}
        sums = [(page, [self._sum(page)]) for page in PAGES]
        text = Bars(f"{self.total:,} clicks so far, by page", sums).text(width)
        if seconds:
            text += "\n" + Trends("Clicks a second", trends).text(width)
        if self._drawn:
            print(f"\033[{self._drawn}F\033[J", end="")
        print(text, flush=True)
        self._drawn = text.count("\n") + 1 if sys.stdout.isatty() else 0

    def _of(self, second: int, page: str) -> int:
        return self._by_second[second].get(page, 0)

    def _sum(self, page: str) -> int:
        return sum(self._of(second, page) for second in self._by_second)


def counts(spark: "SparkSession", bootstrap: str) -> "DataFrame":
    clicks = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    page = f.get_json_object(f.col("value").cast("string"), "$.page").alias("page")
    return (
        clicks.select("timestamp", page)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "1 second"), "page")
        .agg(f.count("*").alias("clicks"))
        .select(f.unix_timestamp("window.start").alias("second"), "page", "clicks")
    )


def main(bootstrap: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=2)
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "spark.sql.shuffle.partitions": "1",
            "spark.local.dir": directory,
            "spark.sql.warehouse.dir": f"{directory}/warehouse",
            "spark.driver.memory": "1g",
        }
        spark = odradek_spark.session("odradek-demo", master="local[2]", config=settings)
        spark.sparkContext.setLogLevel("OFF")
        print("Spark has started; the first micro-batch is planned and compiled ...", flush=True)
        clicks, chart = Clicks(bootstrap), Chart()
        clicks.start()
        query = (
            counts(spark, bootstrap)
            .writeStream.outputMode("update")
            .option("checkpointLocation", f"{directory}/checkpoint")
            .foreachBatch(chart.update)
            .start()
        )
        while query.isActive and not chart.batches:
            time.sleep(0.05)
        time.sleep(SECONDS)
        sent = clicks.stop()
        query.processAllAvailable()
        query.stop()
        spark.stop()
    chart.draw()
    print(f"{sent:,} clicks sent, {chart.total:,} counted in {chart.batches} micro-batches")
    return 0 if chart.total == sent else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
