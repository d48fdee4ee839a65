"""confluent-kafka's serializers and ours on our registry: each reads what the other writes.

The readers of confluent-kafka have a client of their own, because its client caches the text of a
Protobuf schema that it has looked up where its deserializer expects a descriptor.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import protobuf as confluent_protobuf

from odradek.schemas.serializers import (
    AvroDeserializer,
    AvroSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SerializationContext,
)
from odradek.testing.registry import Registry
from tests.unit.schemas.test_serializers_of_confluent import AVRO, CLICK, conf_of, generated


class Clients(NamedTuple):
    ours: SchemaRegistryClient
    writing: Any
    reading: Any


@pytest.fixture
def clients(odradek_registry: Registry) -> Iterator[Clients]:
    conf = {"url": odradek_registry.url}
    with (
        SchemaRegistryClient(conf) as ours,
        ConfluentClient(conf) as writing,
        ConfluentClient(conf) as reading,
    ):
        yield Clients(ours, writing, reading)


@pytest.mark.parametrize("in_headers", [False, True])
def test_both_ways(clients: Clients, in_headers: bool) -> None:
    ours, theirs = conf_of(in_headers, False), conf_of(in_headers, True)
    pairs: list[tuple[Any, Any, Any, Any, Any]] = [
        (
            AvroSerializer(clients.ours, AVRO, None, ours),
            AvroDeserializer(clients.ours),
            confluent_avro.AvroSerializer(clients.writing, AVRO, None, theirs),
            confluent_avro.AvroDeserializer(clients.reading),
            CLICK,
        )
    ]
    for kind, message, _ in generated():
        pairs.append(
            (
                ProtobufSerializer(kind, clients.ours, ours),
                ProtobufDeserializer(kind),
                confluent_protobuf.ProtobufSerializer(kind, clients.writing, theirs),
                confluent_protobuf.ProtobufDeserializer(kind, {}, clients.reading),
                message,
            )
        )
    for number, (write, read, write_too, read_too, value) in enumerate(pairs):
        topic = f"both-{in_headers}-{number}"
        here = SerializationContext(topic, "value", [])
        there = SerializationContext(topic, "value", [])
        data, data_too = write(value, here), write_too(value, there)
        assert (data, here.headers) == (data_too, there.headers)
        assert read(data_too, there) == value
        assert read_too(data, here) == value
