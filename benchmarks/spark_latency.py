"""How long a record takes through Spark: topic to query to topic, micro-batch after micro-batch.

    python -m benchmarks.spark_latency [--seconds 15]

Fifty records a second go in, each with its time; a read_committed consumer looks at its clock when
they come out. Ours writes exactly once, Spark's own connector at least once.
"""

import argparse
import tempfile
import threading
import time

from pyspark.sql import SparkSession

from benchmarks.spark_connector import connector_jars
from odradek import spark as odradek_spark
from odradek.client.sync import Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.testing import Cluster

_EVERY_S = 0.02
_WARM_UP_S = 10.0


def _produce(brokers: Cluster, topic: str, until_s: float) -> None:
    with Producer(bootstrap_servers=brokers.bootstrap, linger_ms=0) as producer:
        while time.monotonic() < until_s:
            producer.send(topic, b"%d" % time.monotonic_ns())
            time.sleep(_EVERY_S)
        producer.flush()


def latencies_ms(
    spark: SparkSession, brokers: Cluster, kind: str, seconds: float, where: str
) -> list[float]:
    """What each record took, those of the warm-up left out."""
    source, sink = brokers.create_topic(), brokers.create_topic()
    servers = {"kafka.bootstrap.servers": brokers.bootstrap}
    stream = spark.readStream.format(kind).options(**servers, subscribe=source).load()
    writer = stream.select("value").writeStream.format(kind).options(**servers, topic=sink)
    query = writer.option("checkpointLocation", f"{where}/{kind}").start()
    begun_s = time.monotonic()
    until_s = begun_s + _WARM_UP_S + seconds
    producing = threading.Thread(target=_produce, args=(brokers, source, until_s))
    producing.start()
    found: list[float] = []
    place = TopicPartition(sink, 0)
    with Consumer(
        bootstrap_servers=brokers.bootstrap,
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        while time.monotonic() < until_s + 1:
            for records in consumer.poll(100).values():
                now_ns = time.monotonic_ns()
                found += [
                    (now_ns - int(one.value)) / 1e6
                    for one in records
                    if int(one.value) / 1e9 > begun_s + _WARM_UP_S
                ]
    producing.join()
    query.stop()
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    seconds = parser.parse_args().seconds
    jars = connector_jars()
    with tempfile.TemporaryDirectory() as where, Cluster() as brokers:
        config = {"spark.jars": ",".join(jars), "spark.local.dir": where}
        spark = odradek_spark.session("latency", master="local[2]", config=config)
        spark.sparkContext.setLogLevel("OFF")
        for kind in ["odradek", *(["kafka"] if jars else [])]:
            found = latencies_ms(spark, brokers, kind, seconds, where)
            middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
            print(f"{kind:8} p50 {middle:6.0f} ms, p99 {late:6.0f} ms, {len(found)} records")
        spark.stop()


if __name__ == "__main__":
    main()
