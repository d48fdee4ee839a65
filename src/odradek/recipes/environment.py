"""The environment of a recipe: a broker, a Spark session, a directory, and functions that read,
write and show results. `odradek recipe` makes it and passes it to the recipe's function `run`."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from odradek.recipes.charts import Chart
from odradek.spark.pipelines.progress_lines import batch_done, line
from odradek.spark.spark_session import session, stop
from odradek.spark.updates import into_topic as update_writer
from odradek.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_SPARK_CONFIG: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # A recipe takes seconds, so Java's optimising compiler (C2) would cost more than it gains.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
# Records have the timestamps of a day long ago. Without log.retention.ms=-1 retention would delete
# them. Without the second setting the broker would reject them.
_BROKER_SETTINGS: Final = {
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": str(1 << 60),
}


@dataclass
class RecipeEnvironment:
    """The broker and the Spark session of a recipe, and short forms of what recipes do with them.
    `charts` are the charts that were shown, for the option --png."""

    spark: "SparkSession"
    brokers: Cluster
    directory: str
    print_line: Callable[[str], None]
    charts: list[Chart] = field(default_factory=list)

    @property
    def connection_options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.brokers.bootstrap}

    def create_topic(
        self, name: str, partitions: int = 2, config: Mapping[str, str] | None = None
    ) -> str:
        return self.brokers.create_topic(name, partitions=partitions, config=config)

    def write(self, frame: "DataFrame", topic: str) -> None:
        """Writes rows with `value`, and optionally key, partition and timestamp, to a topic."""
        frame.write.format("odradek").options(**self.connection_options, topic=topic).mode(
            "append"
        ).save()

    def read(self, topic: str, **options: str) -> "DataFrame":
        source = {"subscribe": topic, "kafka.isolation.level": "read_committed", **options}
        if "assign" in source:
            del source["subscribe"]
        return self.spark.read.format("odradek").options(**self.connection_options, **source).load()

    def stream(self, topic: str, **options: str) -> "DataFrame":
        source = {"subscribe": topic, "startingOffsets": "earliest", **options}
        return (
            self.spark.readStream.format("odradek")
            .options(**self.connection_options, **source)
            .load()
        )

    def start_writing(
        self, frame: "DataFrame", topic: str, name: str, mode: str = "append"
    ) -> "StreamingQuery":
        """Starts a query that writes the available records exactly once to a topic, and then
        ends."""
        writer = frame.writeStream
        if mode == "update":
            writer = writer.foreachBatch(update_writer(**self.connection_options, topic=topic))
        else:
            writer = writer.format("odradek").options(**self.connection_options, topic=topic)
        return (
            writer.option("checkpointLocation", f"{self.directory}/{name}")
            .outputMode(mode)
            .trigger(availableNow=True)
            .queryName(name.replace("-", "_"))
            .start()
        )

    def query_to_table(self, frame: "DataFrame", name: str) -> "DataFrame":
        """Runs a query over the available records and returns its result as a table in memory."""
        query = (
            frame.writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", f"{self.directory}/{name}")
            .outputMode("complete")
            .trigger(availableNow=True)
            .start()
        )
        self.finish(query)
        return self.spark.table(name)

    def finish(self, query: "StreamingQuery") -> None:
        """Waits until a query has ended, and prints a line for each of its micro-batches."""
        shown = -1
        is_over = False
        while not is_over:
            is_over = bool(query.awaitTermination(1))
            for progress in query.recentProgress:
                done = batch_done(progress)
                if done.records and done.batch_id > shown:
                    shown = done.batch_id
                    self.print_line(line(str(query.name), done))

    def show(self, chart: Chart) -> None:
        self.charts.append(chart)
        width = min(100, shutil.get_terminal_size((80, 24)).columns)
        self.print_line("")
        self.print_line(chart.text(width))
        self.print_line("")


def from_json(frame: "DataFrame", schema: str) -> "DataFrame":
    """Parses a topic's JSON values into columns, beside the record's key and timestamp."""
    fields = f.from_json(f.col("value").cast("string"), schema).alias("value")
    key = f.col("key").cast("string").alias("key")
    return frame.select(key, "timestamp", fields).select("key", "timestamp", "value.*")


def as_json(*columns: str) -> Any:
    """Returns a column `value` with these columns as JSON."""
    return f.to_json(f.struct(*columns)).alias("value")


@contextmanager
def recipe_environment(print_line: Callable[[str], None]) -> Iterator[RecipeEnvironment]:
    """Starts a broker and Spark, and yields their environment. Afterwards stops both and removes
    their files."""
    with TemporaryDirectory(prefix="odradek-recipe-") as directory:
        print_line("starting a broker and Spark ...")
        with Cluster(settings=_BROKER_SETTINGS) as brokers:
            spark = session(
                "odradek-recipe", config={**_SPARK_CONFIG, "spark.local.dir": directory}
            )
            spark.sparkContext.setLogLevel("OFF")
            print_line("Spark has started; the data is made and written ...")
            try:
                yield RecipeEnvironment(spark, brokers, directory, print_line)
            finally:
                stop(spark)
