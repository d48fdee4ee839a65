"""Real clients push their metrics (KIP-714), and the management port serves them.

librdkafka and the newest Java client push by default to a broker that asks for it. Apache Kafka's
own tool makes the subscription, and ours reads it.
"""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess, free_ports
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.conformance.peer import Peer
from tests.conformance.rows import numbered_rows

PATIENCE_S = 180.0
INTERVAL_MS = 200
TOOL = "client-metrics"


class Metered(NamedTuple):
    """A broker, and where its metrics are."""

    broker: BrokerProcess
    url: str

    def pushed(self, software: str) -> dict[str, float]:
        """The metrics that clients of this name have pushed."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as response:
            text = response.read().decode()
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("org_apache_kafka_")
            and sample.labels["client_software_name"] == software
        }

    def client_metrics(self, *flags: str) -> str:
        command = [sys.executable, "-m", "odradek.cli", "client-metrics", *flags]
        command += ["--bootstrap-server", self.broker.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with running_odradek(
        tmp_path_factory.mktemp("metered"), {"management.listener": url}
    ) as broker:
        yield Metered(broker, url)


@contextmanager
def subscription(metered: Metered, name: str) -> Iterator[None]:
    metered.client_metrics(
        "--alter", "--name", name, "--metrics", "*", "--interval", str(INTERVAL_MS)
    )
    try:
        yield
    finally:
        metered.client_metrics("--delete", "--name", name)


def test_librdkafka_pushes(metered: Metered) -> None:
    with subscription(metered, "librdkafka"):
        servers = {"bootstrap.servers": metered.broker.bootstrap, "log_level": 0}
        producer = Producer(servers)
        consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["pushed"])
        wanted = {
            "org_apache_kafka_producer_record_queue_time_avg",
            "org_apache_kafka_producer_node_request_latency_avg",
            "org_apache_kafka_consumer_fetch_manager_fetch_latency_avg",
            "org_apache_kafka_consumer_coordinator_assigned_partitions",
        }
        deadline_s = time.monotonic() + PATIENCE_S
        found: dict[str, float] = {}
        while not wanted <= found.keys():
            assert time.monotonic() < deadline_s, f"missing: {sorted(wanted - found.keys())}"
            producer.produce("pushed", b"x")
            producer.poll(0.05)
            consumer.poll(0.05)
            found = metered.pushed("confluent-kafka-python")
        producer.flush(PATIENCE_S)
        consumer.close()


def test_java_pushes(metered: Metered, java_client: Peer) -> None:
    with subscription(metered, "java"):
        wanted = {
            "org_apache_kafka_producer_record_queue_time_avg",
            "org_apache_kafka_producer_connection_creation_total",
            "org_apache_kafka_producer_node_request_latency_avg",
        }
        rows = numbered_rows(2_000, value_bytes=100)
        deadline_s = time.monotonic() + PATIENCE_S
        found: dict[str, float] = {}
        # Each call is a producer of its own. It pushes what it has when it is closed.
        while not wanted <= found.keys():
            assert time.monotonic() < deadline_s, f"missing: {sorted(wanted - found.keys())}"
            java_client.produce(metered.broker.bootstrap, "from-java", "none", rows)
            found = metered.pushed("apache-kafka-java")


def test_kafkas_tool_and_ours_agree(metered: Metered, kafka_home: ApacheKafka) -> None:
    servers = ("--bootstrap-server", metered.broker.bootstrap)
    kafka_home.run_tool(
        TOOL,
        *servers,
        "--alter",
        "--name",
        "both",
        *("--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer."),
        *("--interval", "60000", "--match", "client_id=app-.*"),
    )
    assert metered.client_metrics("--list").split() == ["both"]
    ours = metered.client_metrics("--describe", "--name", "both").splitlines()
    assert ours == [
        "Client metrics configs for both are:",
        "  interval.ms=60000",
        "  match=client_id=app-.*",
        "  metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.",
    ]
    theirs = kafka_home.run_tool(TOOL, *servers, "--describe", "--name", "both")
    assert sorted(theirs.split("\n")[1:]) == sorted([*ours[1:], ""])
    kafka_home.run_tool(TOOL, *servers, "--delete", "--name", "both")
    assert metered.client_metrics("--list") == ""
