"""Topics that validate schemas, with a real registry, librdkafka and Java."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import header_schema_id_serializer as confluent_header
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from benchmarks.apache_kafka import KAFKA_VERSION, Artifact, install_jars
from benchmarks.broker_process import free_ports
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.serializers import (
    AvroSerializer,
    SerializationContext,
    header_schema_id_serializer,
)
from odradek.testing import Cluster
from tests.conformance.peer import java_peer
from tests.conformance.rows import Row
from tests.needs import need
from tests.scenarios.registry_process import Registry, running

INT_9 = b"\x12"  # The number 9 in Avro.


@dataclass
class Platform:
    bootstrap: str
    registry: Registry

    def topic(self, name: str, **settings: str) -> bytes:
        """Makes a topic that validates values, and returns the frame of its schema."""
        config = {"confluent.value.schema.validation": "true"}
        config |= {key.replace("_", "."): value for key, value in settings.items()}
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)
        schema_id: int = self.registry.register(f"{name}-value", '"int"')["id"]
        return b"\0" + schema_id.to_bytes(4, "big")

    def send(self, topic: str, *values: bytes) -> list[KafkaError | None]:
        """Sends the values as one batch with librdkafka; returns the error of each."""
        outcomes: list[KafkaError | None] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 200, "enable.idempotence": True}
        )
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(60) == 0
        return outcomes

    def read(self, topic: str, count: int) -> list[Any]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"readers of {topic}",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        found: list[Any] = []
        try:
            while len(found) < count:
                messages = consumer.consume(count - len(found), timeout=30)
                assert messages, found
                assert all(message.error() is None for message in messages)
                found += messages
        finally:
            consumer.close()
        return found


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    directory = tmp_path_factory.mktemp("registry")
    with (
        Cluster(settings={"confluent.schema.registry.url": url}) as cluster,
        running(directory, cluster.bootstrap, listeners=url) as registry,
    ):
        yield Platform(cluster.bootstrap, registry)


def test_librdkafka_is_told_which_record_is_wrong(platform: Platform) -> None:
    frame = platform.topic("rejecting")
    assert platform.send("rejecting", frame + INT_9, frame + INT_9) == [None, None]
    errors = platform.send("rejecting", b"plain text")
    assert [error.code() for error in errors if error] == [KafkaError.INVALID_RECORD]
    unknown = b"\0" + (1 << 20).to_bytes(4, "big") + INT_9
    assert all(platform.send("rejecting", unknown))
    assert len(platform.read("rejecting", 2)) == 2


def test_java_sees_the_message_of_the_broker(platform: Platform, java: str) -> None:
    frame = platform.topic("for-java")
    clients = Artifact("org.apache.kafka", "kafka-clients", KAFKA_VERSION)
    libraries = need(lambda: install_jars(f"kafka-clients-{KAFKA_VERSION}", [clients]))
    with java_peer(libraries, "java") as peer:
        peer.produce(platform.bootstrap, "for-java", "none", [Row(None, frame + INT_9, (), 1)])
        with pytest.raises(RuntimeError, match=r"InvalidRecordException.*not with 00 and the id"):
            peer.produce(platform.bootstrap, "for-java", "zstd", [Row(None, b"{}", (), 1)])


def test_wrong_records_are_diverted_and_the_others_keep_their_places(platform: Platform) -> None:
    frame = platform.topic(
        "diverting",
        odradek_schema_validation_action="divert",
        odradek_schema_validation_content="true",
    )
    values = [frame + INT_9, b"plain", frame + b"\x80", frame + INT_9]
    assert platform.send("diverting", *values) == [None] * 4
    assert platform.send("diverting", frame + INT_9) == [None]
    kept = platform.read("diverting", 3)
    assert [message.offset() for message in kept] == [0, 3, 4]
    letters = platform.read("diverting-dead-letters", 2)
    assert [message.value() for message in letters] == values[1:3]
    reasons = [dict(message.headers())["__odradek.errors.reason"] for message in letters]
    assert b"begins with 70 6c 61 69 6e" in reasons[0]
    assert b"the value does not fit schema" in reasons[1]


@pytest.mark.parametrize("content", ["false", "true"])
def test_schema_ids_in_headers_are_taken(platform: Platform, content: str) -> None:
    topic = f"headed-{content}"
    platform.topic(topic, odradek_schema_validation_content=content)
    conf = {"auto.register.schemas": False, "schema.id.serializer": header_schema_id_serializer}
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": platform.bootstrap})
    url = f"http://127.0.0.1:{platform.registry.port}"
    with RegistryClient(url) as client, ConfluentClient({"url": url}) as confluent:
        ours = AvroSerializer(client, '"int"', conf=conf)
        theirs = ConfluentSerializer(
            confluent, '"int"', conf={**conf, "schema.id.serializer": confluent_header}
        )
        for serialize, context in (
            (ours, SerializationContext(topic, "value", [])),
            (theirs, ConfluentContext(topic, "value", [])),
        ):
            value, headers = serialize(9, context), context.headers
            assert value == INT_9
            assert headers[0][0] == "__value_schema_id"
            producer.produce(
                topic, value, headers=headers, on_delivery=lambda error, _: errors.append(error)
            )
            assert producer.flush(60) == 0
    assert errors == [None, None]
    unknown = [("__value_schema_id", b"\1" + bytes(16))]
    producer.produce(
        topic, INT_9, headers=unknown, on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.flush(60) == 0
    assert errors[-1] is not None
    assert errors[-1].code() == KafkaError.INVALID_RECORD
    assert [message.value() for message in platform.read(topic, 2)] == [INT_9, INT_9]


def test_a_registry_that_is_away_delays_only_schemas_that_are_new(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = {
        "confluent.schema.registry.url": url,
        "odradek.schema.registry.timeout.ms": "300",
        "odradek.schema.registry.cache.ms": "0",
    }
    with Cluster(settings=settings) as cluster:
        with running(tmp_path / "first", cluster.bootstrap, listeners=url) as registry:
            platform = Platform(cluster.bootstrap, registry)
            frame = platform.topic("patient")
            later = b"\0" + registry.register("patient-value", '"long"')["id"].to_bytes(4, "big")
            assert platform.send("patient", frame + INT_9) == [None]
        assert platform.send("patient", frame + INT_9) == [None]
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        outcomes: list[KafkaError | None] = []
        producer.produce("patient", later + INT_9, on_delivery=lambda e, _: outcomes.append(e))
        producer.flush(1)
        assert outcomes == []  # It is being tried again.
        with running(tmp_path / "second", cluster.bootstrap, listeners=url):
            assert producer.flush(60) == 0
        assert outcomes == [None]
        assert len(platform.read("patient", 3)) == 3
