"""Spark with its own Kafka connector and nothing of ours: does what tests ask of it.

    python -m tests.spark.connector_driver JARS BOOTSTRAP DIRECTORY

A program of its own, because a Spark takes its jars when it starts. Each line of standard input is
a method of `Driver` and its arguments, as JSON; each line of standard output is its answer. Only
the connector talks to the broker here: tests look at the broker by other means.
"""

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter


class Driver:
    def __init__(self, spark: SparkSession, bootstrap: str, directory: str) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._directory = directory

    def read(self, **options: str) -> list[dict[str, Any]]:
        frame = self._spark.read.format("kafka").options(**self._servers, **options).load()
        return [_plain(row) for row in frame.collect()]

    def write(self, topic: str, rows: int) -> None:
        """All columns that the connector knows; the topic is a column here, not an option."""
        header = f.struct(f.lit("h").alias("key"), f.encode(f.lit("x"), "utf-8").alias("value"))
        frame = self._spark.range(0, rows, 1, 2).select(
            f.concat(f.lit("key "), f.col("id")).alias("key"),
            f.when(f.col("id") != 7, f.concat(f.lit("value "), f.col("id"))).alias("value"),
            f.lit(topic).alias("topic"),
            (f.col("id") % 2).cast("int").alias("partition"),
            f.array(header).alias("headers"),
        )
        frame.write.format("kafka").options(**self._servers).save()

    def stream_to_files(self, topic: str, max_a_batch: int) -> dict[str, Any]:
        """One life of a query: what is in the topic by now, into files, and all that is in them."""
        files = f"{self._directory}/{topic}-files"
        stream = self._stream(topic, max_a_batch, includeHeaders="true")
        writer = stream.writeStream.format("parquet").option("path", files)
        batches = self._until_caught_up(writer, f"{topic}-files-checkpoint")
        rows = self._spark.read.parquet(files).collect()
        return {"batches": batches, "rows": [_plain(row) for row in rows]}

    def stream_to_topic(self, source: str, sink: str, max_a_batch: int) -> list[int]:
        """One life of a query that copies in capitals, compressed."""
        stream = self._stream(source, max_a_batch)
        louder = stream.select("key", f.upper(f.col("value").cast("string")).alias("value"))
        writer = louder.writeStream.format("kafka").options(**self._servers, topic=sink)
        writer = writer.option("kafka.compression.type", "zstd")
        return self._until_caught_up(writer, f"{sink}-checkpoint")

    def _stream(self, topic: str, max_a_batch: int, **options: str) -> DataFrame:
        return (
            self._spark.readStream.format("kafka")
            .options(**self._servers, **options, subscribe=topic, startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", str(max_a_batch))
            .load()
        )

    def _until_caught_up(self, writer: DataStreamWriter, checkpoint: str) -> list[int]:
        """How many rows each batch of the query had."""
        writer = writer.option("checkpointLocation", f"{self._directory}/{checkpoint}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


def _plain(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = row.asDict(recursive=True)
    for name in ("key", "value"):
        found[name] = None if found[name] is None else bytes(found[name]).decode()
    found["timestamp"] = round(found["timestamp"].timestamp() * 1000)
    if found.get("headers"):
        found["headers"] = [[one["key"], bytes(one["value"]).decode()] for one in found["headers"]]
    return found


def main() -> None:
    jars, bootstrap, directory = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", directory)
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    driver = Driver(spark, bootstrap, directory)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        print(json.dumps(getattr(driver, method)(**arguments)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
