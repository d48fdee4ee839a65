"""Fetched records as Arrow columns: librdkafka's messages against our own decoding.

One process, one topic of 100-byte records, no Spark:

    python -m benchmarks.spark_decoding [--records 2000000]

Measured are records a second of wall time and CPU of this process (the broker's is its own).
"""

import argparse
import os
import tempfile
import time

import confluent_kafka
import pyarrow as pa

from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.producer import BatchProducer
from odradek.spark.arrow.ranges import RangeReader
from odradek.testing import Cluster
from odradek.world.clock import SystemClock

_ROWS = 10_000


def fill(brokers: Cluster, topic: str, records: int) -> None:
    settings = ProducerSettings(bootstrap_servers=brokers.bootstrap, max_request_size=4 << 20)
    values = pa.array([os.urandom(100) for _ in range(_ROWS)], pa.binary())
    columns = record_columns(pa.record_batch([values], names=["value"]), SystemClock().now_ms())
    with BatchProducer(settings) as producer:
        encoder = ArrowEncoder(topic, producer.partition_count)
        for _ in range(records // _ROWS):
            for encoded in encoder.encode(columns):
                producer.send(*encoded)
        producer.flush()


def ours(brokers: Cluster, topic: str, records: int) -> int:
    settings = ConsumerSettings(
        bootstrap_servers=brokers.bootstrap, max_partition_fetch_bytes=8 << 20
    )
    with RangeReader(settings) as reader:
        return sum(one.num_rows for one in reader.read(TopicPartition(topic, 0), 0, records))


def librdkafka(brokers: Cluster, topic: str, records: int) -> int:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 8 << 20,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    rows = 0
    while rows < records:
        messages = consumer.consume(_ROWS, 5.0)
        columns = [
            pa.array([one.key() for one in messages], pa.binary()),
            pa.array([one.value() for one in messages], pa.binary()),
            pa.array([one.offset() for one in messages], pa.int64()),
            pa.array([one.timestamp()[1] * 1000 for one in messages], pa.int64()),
        ]
        names = ["key", "value", "offset", "timestamp"]
        rows += pa.RecordBatch.from_arrays(columns, names=names).num_rows
    consumer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as where, Cluster(data=where) as brokers:
        topic = brokers.create_topic()
        fill(brokers, topic, records)
        for way in (ours, ours, librdkafka):
            wall, cpu = time.monotonic(), time.process_time()
            rows = way(brokers, topic, records)
            wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            assert rows == records
            rate = f"{rows / wall / 1e6:6.2f} M records/s"
            print(f"{way.__name__:12} {rate}, {cpu / rows * 1e9:6.0f} ns of CPU a record")


if __name__ == "__main__":
    main()
