"""Topics read and written by Spark: this data source beside Spark's own Kafka connector.

Same broker, same topic, same Spark, one after the other: 100-byte records in `local[2]`.

    python -m benchmarks.spark_connector [--records 4000000] [--only odradek|kafka] [--json FILE]

The connector's jars come from Maven Central into Maven's own cache; without Maven only our side
is measured. Reading counts with the `noop` sink, which takes every row and drops it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.apache_kafka import require_program
from benchmarks.broker_process import ToolMissing
from odradek import spark as odradek_spark
from odradek.testing import Cluster

JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_VALUE_BYTES = 100
_TRIGGERS = 8


def connector_jars() -> list[str]:
    """Paths of the connector's jars, fetched if they are not there, or `ToolMissing`."""
    found = []
    for artifact in JARS:
        group, name, version = artifact.split(":")
        jar = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version
        jar /= f"{name}-{version}.jar"
        if not jar.exists():
            _fetch(artifact)
        found.append(str(jar))
    return found


def _fetch(artifact: str) -> None:
    maven = require_program("mvn", "maven", "maven")
    # Alone: what the connector needs besides is part of Spark.
    command = [maven, "-q", "-B", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise ToolMissing(f"mvn could not fetch {artifact}: {lines[0] if lines else 'no reason'}")


def connector_jars_if_possible() -> list[str]:
    """The same; none, with a line that says why, where they cannot be had."""
    try:
        return connector_jars()
    except ToolMissing as missing:
        print(f"without Spark's own connector: {missing}", file=sys.stderr)
        return []


class Bench:
    """One Spark and one topic full of records; `format` is what is compared."""

    def __init__(self, spark: SparkSession, brokers: Cluster, records: int, where: str) -> None:
        self._spark = spark
        self._brokers = brokers
        self._records = records
        self._where = where
        self.topic = brokers.create_topic(partitions=2)

    def fill(self) -> None:
        """Random bytes, spread evenly: what is written is what all readings read."""
        value = f.substring(f.sha2(f.col("id").cast("string"), 512), 1, _VALUE_BYTES)
        frame = self._spark.range(0, self._records, 1, 2).select(value.alias("value"))
        self._write(frame, "odradek", self.topic)

    def _write(self, frame: DataFrame, kind: str, topic: str) -> None:
        writer = frame.write.format(kind).option("topic", topic)
        writer.option("kafka.bootstrap.servers", self._brokers.bootstrap).mode("append").save()

    def read_batch(self, kind: str) -> float:
        frame = self._spark.read.format(kind).options(**self._source()).load()
        return self._rate(lambda: frame.write.format("noop").mode("overwrite").save())

    def read_stream(self, kind: str) -> float:
        """All of the topic in a few large triggers, into nothing."""
        name = f"{self._where}/read-{kind}-{time.monotonic_ns()}"
        stream = (
            self._spark.readStream.format(kind)
            .options(**self._source(), startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", str(self._records // _TRIGGERS))
            .load()
        )
        writer = stream.writeStream.format("noop").option("checkpointLocation", name)

        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum(one["numInputRows"] for one in query.recentProgress) == self._records
        return _steady_rate(query.recentProgress)

    def write_batch(self, kind: str) -> float:
        topic = self._brokers.create_topic(partitions=2)
        frame = self._cached()
        return self._rate(lambda: self._write(frame, kind, topic))

    def write_stream(self, kind: str) -> float:
        """Generated rows in a few large triggers; ours is exactly once, theirs at least once."""
        topic = self._brokers.create_topic(partitions=2)
        name = f"{self._where}/write-{kind}-{time.monotonic_ns()}"
        stream = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", str(self._records // _TRIGGERS))
            .option("numPartitions", "2")
            .load()
        )
        value = "substring(repeat(cast(value as string), 20), 1, 100) as value"
        query = (
            stream.selectExpr(value)
            .writeStream.format(kind)
            .option("topic", topic)
            .option("kafka.bootstrap.servers", self._brokers.bootstrap)
            .option("checkpointLocation", name)
            .start()
        )
        while query.isActive and (query.lastProgress or {"batchId": -1})["batchId"] < _TRIGGERS - 1:
            time.sleep(0.05)
        progress = query.recentProgress
        query.stop()
        return _steady_rate(progress)

    def _cached(self) -> DataFrame:
        frame = self._spark.read.format("odradek").options(**self._source()).load()
        kept = frame.select("value").persist()
        kept.count()
        return kept

    def _source(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._brokers.bootstrap, "subscribe": self.topic}

    def _rate(self, run: Callable[[], None]) -> float:
        began = time.monotonic()
        run()
        return self._records / (time.monotonic() - began)


def _steady_rate(progress: list[Any]) -> float:
    """Rows a second from the second trigger on: the first one starts the query's processes."""
    steady = [one for one in progress[1:] if one["numInputRows"]]
    elapsed_ms = sum(one["durationMs"]["triggerExecution"] for one in steady)
    return float(sum(one["numInputRows"] for one in steady) / elapsed_ms * 1000)


@contextmanager
def started(records: int, jars: list[str]) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as where, Cluster(data=f"{where}/broker") as brokers:
        config = {
            "spark.jars": ",".join(jars),
            "spark.local.dir": where,
            "spark.sql.warehouse.dir": f"{where}/warehouse",
            "spark.driver.memory": "4g",
        }
        spark = odradek_spark.session("benchmark", master="local[2]", config=config)
        spark.sparkContext.setLogLevel("OFF")
        try:
            bench = Bench(spark, brokers, records, where)
            bench.fill()
            yield bench
        finally:
            spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="the best of them counts")
    parser.add_argument("--only", choices=["odradek", "kafka"])
    parser.add_argument("--what", default="read_batch,read_stream,write_batch,write_stream")
    parser.add_argument("--json")
    wanted = parser.parse_args()
    jars = [] if wanted.only == "odradek" else connector_jars_if_possible()
    kinds = [wanted.only] if wanted.only else ["odradek", *(["kafka"] if jars else [])]
    found: dict[str, dict[str, float]] = {}
    with started(wanted.records, jars) as bench:
        for what in wanted.what.split(","):
            for _ in range(wanted.rounds):
                for kind in kinds:
                    rate = getattr(bench, what)(kind)
                    best = found.setdefault(what, {})
                    best[kind] = max(best.get(kind, 0), rate)
                    print(f"{what:12} {kind:8} {rate / 1e6:6.2f} M records/s", flush=True)
    print(json.dumps(found))
    if wanted.json:
        Path(wanted.json).write_text(json.dumps(found))


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main()
