"""A thousand topics of three partitions: creates them, writes to all of them, restarts the broker.

    python -m benchmarks.many_topics [--topics 1000] [--records 600000] [--without-kafka]

Both brokers do the same: create, produce over all partitions with one librdkafka client, stop,
start, produce, kill -9, start. Times are until a Metadata request is answered.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import (
    BrokerProcess,
    ToolMissing,
    free_ports,
    start_odradek,
    wait_until_ready,
)

PARTITIONS = 3
TOPICS_A_REQUEST = 100

Start = Callable[[], BrokerProcess]
Row = dict[str, str]


def measure(start: Start, topics: int, records: int) -> Row:
    row: Row = {}
    broker = start()
    wait_until_ready(broker)
    try:
        row["create"] = seconds(create, broker, topics)
        row["memory after creation"] = megabytes(broker)
        row["produce"] = produce(broker, topics, records)
        row["memory after load"] = megabytes(broker)
        row["descriptors"] = str(psutil.Process(broker.process_id).num_fds())
        row["stop"] = seconds(BrokerProcess.stop, broker)
        broker = start()
        row["start after a stop"] = seconds(wait_until_ready, broker)
        produce(broker, topics, records // 2)
        broker.kill()
        broker = start()
        row["start after kill -9"] = seconds(wait_until_ready, broker)
    finally:
        broker.kill()
    return row


def create(broker: BrokerProcess, topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for first in range(0, topics, TOPICS_A_REQUEST):
        names = [
            f"topic-{number}" for number in range(first, min(first + TOPICS_A_REQUEST, topics))
        ]
        made = admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in names], request_timeout=120
        )
        for future in made.values():
            future.result()


def produce(broker: BrokerProcess, topics: int, records: int) -> str:
    """Round robin over all partitions; the rate until the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": 1,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    value = b"x" * 100
    names = [f"topic-{number}" for number in range(topics)]
    began = time.perf_counter()
    for number in range(records):
        partition = number // topics % PARTITIONS
        while True:
            try:
                producer.produce(names[number % topics], value, partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{broker.name} left {left} records unacknowledged")
    return f"{records / (time.perf_counter() - began):,.0f} records/s"


def seconds(work: Callable[..., object], *arguments: object) -> str:
    began = time.perf_counter()
    work(*arguments)
    return f"{time.perf_counter() - began:.2f} s"


def megabytes(broker: BrokerProcess) -> str:
    return f"{broker.usage().resident_bytes / 1e6:.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--without-kafka", action="store_true", help="measure Odradek alone")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        port = free_ports(1)[0]
        starts: dict[str, Start] = {
            "Odradek": lambda: start_odradek(directory / "odradek", port=port)
        }
        if not options.without_kafka:
            try:
                starts["Apache Kafka"] = ApacheKafka.install().prepare(directory / "kafka").start
            except ToolMissing as missing:
                print(f"Apache Kafka is not measured: {missing}", file=sys.stderr)
        for broker, start in starts.items():
            print(f"measuring {broker}", file=sys.stderr)
            rows[broker] = measure(start, options.topics, options.records)
    print(f"| {options.topics} topics of {PARTITIONS} partitions | {' | '.join(rows)} |")
    print(f"|---|{'---|' * len(rows)}")
    for figure in rows["Odradek"]:
        print(f"| {figure} | {' | '.join(row[figure] for row in rows.values())} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
