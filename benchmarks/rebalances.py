"""The duration of rebalances while librdkafka consumers join and leave one by one.

    python -m benchmarks.rebalances [--consumers 8] [--protocol consumer|classic]
                                    [--heartbeat-ms 500] [--apache]

A rebalance begins when a consumer subscribes or closes, and ends when every partition has one
owner and every consumer has partitions. Both brokers are given the same heartbeat interval; Apache
Kafka is told to assign at once (group.consumer.assignment.interval.ms=0).
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess, odradek_broker

TOPIC = "shared"
GROUP = "rebalances"
PATIENCE_S = 60.0


@contextmanager
def running(directory: Path, heartbeat_ms: int, *, is_apache: bool) -> Iterator[BrokerProcess]:
    overrides = {
        "group.consumer.heartbeat.interval.ms": str(heartbeat_ms),
        "group.consumer.min.heartbeat.interval.ms": str(heartbeat_ms),
        "group.initial.rebalance.delay.ms": "0",
    }
    if is_apache:
        overrides["group.consumer.assignment.interval.ms"] = "0"
        overrides["group.consumer.min.assignment.interval.ms"] = "0"
        with ApacheKafka.install().broker(directory, overrides) as broker:
            yield broker
    else:
        with odradek_broker(directory, overrides) as broker:
            yield broker


def consumer(broker: BrokerProcess, protocol: str, heartbeat_ms: int) -> Consumer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {
            "partition.assignment.strategy": "cooperative-sticky",
            "heartbeat.interval.ms": heartbeat_ms,
            "session.timeout.ms": 6000,
        }
    made = Consumer(settings)
    made.subscribe([TOPIC])
    return made


def settled_s(consumers: list[Consumer], partitions: int) -> float:
    """Returns the seconds until every partition has one owner and every consumer has partitions."""
    began = time.monotonic()
    while True:
        for each in consumers:
            each.poll(0.001)
        owned = [[part.partition for part in each.assignment()] for each in consumers]
        if all(owned) and sorted(one for part in owned for one in part) == list(range(partitions)):
            return time.monotonic() - began
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"after {PATIENCE_S:.0f} s the parts are {owned}")


def measure(broker: BrokerProcess, protocol: str, count: int, heartbeat_ms: int) -> list[float]:
    partitions = count * 2
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(PATIENCE_S)
    times_s = []
    consumers: list[Consumer] = []
    for _ in range(count):
        consumers.append(consumer(broker, protocol, heartbeat_ms))
        times_s.append(settled_s(consumers, partitions))
    while len(consumers) > 1:
        consumers.pop().close()
        times_s.append(settled_s(consumers, partitions))
    consumers.pop().close()
    return times_s


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long rebalances take.")
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--protocol", choices=("consumer", "classic"), default="consumer")
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    parser.add_argument("--apache", action="store_true", help="against Apache Kafka")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), asked.heartbeat_ms, is_apache=asked.apache) as broker,
    ):
        times_s = measure(broker, asked.protocol, asked.consumers, asked.heartbeat_ms)
    cuts = quantiles(times_s, n=100, method="inclusive")
    print(
        f"{broker.name}, {asked.protocol} protocol, {asked.consumers} consumers, heartbeats every"
        f" {asked.heartbeat_ms} ms: {len(times_s)} rebalances, p50 {cuts[49]:.2f} s,"
        f" p99 {cuts[98]:.2f} s, longest {max(times_s):.2f} s"
    )


if __name__ == "__main__":
    main()
