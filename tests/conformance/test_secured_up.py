"""`odradek up --secure` is used by real clients with the files that it writes: Java's, kcat,
librdkafka, kafka-python and ours."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from benchmarks.apache_kafka import ApacheKafka
from odradek.client.sync import Consumer, Producer
from odradek.config.properties import parse_properties
from odradek.testing import Cluster
from tests.conformance.peer import java_peer
from tests.conformance.rows import Row
from tests.needs import need

pytestmark = pytest.mark.xdist_group("odradek")
JAVA_ROW = Row(None, b"by Java", (), 1_700_000_000_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, secure=True) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic()


def librdkafka_path(cluster: Cluster) -> str:
    return cluster.client_path.replace("client.properties", "librdkafka.properties")


def read_all(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    with Consumer({**cluster.client_properties, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(topic, 0)])
        found: list[bytes | None] = []
        for _ in range(100):
            for records in consumer.poll(timeout_ms=200).values():
                found += [record.value for record in records]
            if len(found) >= count:
                break
        return found


def by_ours(cluster: Cluster, topic: str) -> bytes:
    with Producer(cluster.client_properties) as producer:
        producer.send(topic, b"by ours").result(timeout=30)
    return b"by ours"


def by_librdkafka(cluster: Cluster, topic: str) -> bytes:
    with open(librdkafka_path(cluster), encoding="utf-8") as file:
        settings: Mapping[str, str] = parse_properties(file.read())
    failed: list[object] = []
    producer = LibrdkafkaProducer(dict(settings))
    producer.produce(topic, b"by librdkafka", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(30) == 0
    assert failed == [None]
    return b"by librdkafka"


def by_kafka_python(cluster: Cluster, topic: str) -> bytes:
    with open(librdkafka_path(cluster), encoding="utf-8") as file:
        given = parse_properties(file.read())
    login = {
        "bootstrap_servers": cluster.bootstrap.split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": given["ssl.ca.location"],
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": given["sasl.username"],
        "sasl_plain_password": given["sasl.password"],
    }
    producer = KafkaProducer(**login)
    producer.send(topic, b"by kafka-python").get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **login
    )
    assert next(consumer).value == b"by kafka-python"
    consumer.close()
    return b"by kafka-python"


@pytest.mark.parametrize("send", [by_ours, by_librdkafka, by_kafka_python])
def test_a_python_client_logs_in(
    cluster: Cluster, topic: str, send: Callable[[Cluster, str], bytes]
) -> None:
    assert read_all(cluster, topic, 0) == []
    sent = send(cluster, topic)
    assert read_all(cluster, topic, 1) == [sent]


def test_kcat_logs_in_with_the_file(cluster: Cluster, topic: str, kcat: str) -> None:
    file = ["-F", librdkafka_path(cluster)]

    def run(*words: str, stdin: bytes = b"") -> bytes:
        command = [kcat, *words, "-t", topic, *file]
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=60, check=True
        ).stdout

    run("-P", stdin=b"by kcat\n")
    read = run("-C", "-e", "-J")
    assert [json.loads(line)["payload"] for line in read.splitlines()] == ["by kcat"]


def test_java_logs_in_with_the_file(cluster: Cluster, topic: str, kafka_home: ApacheKafka) -> None:
    with need(lambda: java_peer(kafka_home.libraries, "java", cluster.client_path)) as peer:
        peer.produce(cluster.bootstrap, topic, "none", [JAVA_ROW])
        assert peer.consume(cluster.bootstrap, topic, 1) == [JAVA_ROW]
