"""How long a record takes through Spark: topic to query to topic, micro-batch after micro-batch.

    python -m benchmarks.spark_latency [--seconds 15] [--only odradek|kafka]

Fifty records a second go in, each with its time; a read_committed consumer looks at its clock when
they come out. Ours writes exactly once, Spark's own connector at least once. Its checkpoint is
written as Spark does it, ours as `odradek.spark.session()` has it; `--config` changes either.

What counts begins when a query has been through its first batches: until then Spark starts
processes and compiles. How long the first batch took is a figure of its own. Each runs in a Spark
of its own.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.spark_connector import connector_jars, connector_jars_if_possible
from odradek import spark as odradek_spark
from odradek.client.sync import Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.spark.spark_session import (
    CHECKPOINT_MANAGER_SETTING,
    LOCAL_CHECKPOINT_MANAGER,
    SPARK_CHECKPOINT_MANAGER,
)
from odradek.testing import Cluster

_EVERY_S = 0.02
_WARM_UP_BATCHES = 20
_WARM_UP_TIMEOUT_S = 90.0


def _produce(brokers: Cluster, topic: str, stop: threading.Event) -> None:
    with Producer(bootstrap_servers=brokers.bootstrap, linger_ms=0) as producer:
        while not stop.wait(_EVERY_S):
            producer.send(topic, b"%d" % time.monotonic_ns())
        producer.flush()


class Found(NamedTuple):
    """What each record took, how long the query took to its first batch's end, and where a
    trigger spends its time."""

    latencies_ms: list[float]
    first_batch_s: float
    phases_ms: dict[str, float]


def _warm_up(query: StreamingQuery) -> float:
    """Waits for the first batches; how long the first one with rows took to end."""
    begun_s, first_s = time.monotonic(), 0.0
    while time.monotonic() < begun_s + _WARM_UP_TIMEOUT_S:
        done = [one for one in query.recentProgress if one["numInputRows"]]
        if done and not first_s:
            first_s = time.monotonic() - begun_s
        if len(done) >= _WARM_UP_BATCHES:
            return first_s
        time.sleep(0.05)
    raise RuntimeError(f"no {_WARM_UP_BATCHES} batches in {_WARM_UP_TIMEOUT_S:.0f} s")


def _phases_ms(query: StreamingQuery, from_batch: int) -> dict[str, float]:
    shown = [
        one["durationMs"]
        for one in query.recentProgress
        if one["numInputRows"] and one["batchId"] > from_batch
    ]
    return {name: median(one.get(name, 0) for one in shown) for name in shown[0]}


def measure(spark: SparkSession, brokers: Cluster, kind: str, seconds: float, where: str) -> Found:
    source, sink = brokers.create_topic(), brokers.create_topic()
    servers = {"kafka.bootstrap.servers": brokers.bootstrap}
    stream = spark.readStream.format(kind).options(**servers, subscribe=source).load()
    writer = stream.select("value").writeStream.format(kind).options(**servers, topic=sink)
    stop = threading.Event()
    producing = threading.Thread(target=_produce, args=(brokers, source, stop))
    query = writer.option("checkpointLocation", f"{where}/{kind}").start()
    producing.start()
    try:
        first_batch_s = _warm_up(query)
        warm_batch = query.lastProgress["batchId"]
        found = _latencies_ms(brokers, sink, time.monotonic(), seconds)
        return Found(sorted(found), first_batch_s, _phases_ms(query, warm_batch))
    finally:
        stop.set()
        producing.join()
        query.stop()


def _latencies_ms(brokers: Cluster, topic: str, from_s: float, seconds: float) -> list[float]:
    """Of the records that were sent in these seconds, however late they come."""
    found: list[float] = []
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=brokers.bootstrap,
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        sent_s = from_s
        while sent_s < from_s + seconds and time.monotonic() < from_s + 4 * seconds:
            for records in consumer.poll(100).values():
                now_ns = time.monotonic_ns()
                sent_s = int(records[-1].value) / 1e9
                found += [
                    (now_ns - int(one.value)) / 1e6
                    for one in records
                    if from_s < int(one.value) / 1e9 < from_s + seconds
                ]
    return found


def run(kind: str, seconds: float, config: dict[str, str]) -> None:
    jars = connector_jars() if kind == "kafka" else []
    with tempfile.TemporaryDirectory() as where, Cluster() as brokers:
        files = SPARK_CHECKPOINT_MANAGER if kind == "kafka" else LOCAL_CHECKPOINT_MANAGER
        usual = {
            "spark.jars": ",".join(jars),
            "spark.local.dir": where,
            CHECKPOINT_MANAGER_SETTING: files,
        }
        config = {**usual, **config}
        spark = odradek_spark.session("latency", master="local[2]", config=config)
        spark.sparkContext.setLogLevel("OFF")
        found = measure(spark, brokers, kind, seconds, where)
        taken = found.latencies_ms
        middle, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
        print(
            f"{kind:8} p50 {middle:6.0f} ms, p99 {late:6.0f} ms, {len(taken)} records;"
            f" first batch after {found.first_batch_s:.1f} s"
        )
        print("        ", ", ".join(f"{name} {ms:.0f}" for name, ms in found.phases_ms.items()))
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", choices=["odradek", "kafka"])
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    wanted = parser.parse_args()
    if wanted.only:
        run(wanted.only, wanted.seconds, dict(one.split("=", 1) for one in wanted.config))
        return
    # Each in a Spark of its own: who comes second would find Java's code compiled.
    for kind in ["odradek", *(["kafka"] if connector_jars_if_possible() else [])]:
        command = [sys.executable, "-m", "benchmarks.spark_latency", *sys.argv[1:], "--only", kind]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
