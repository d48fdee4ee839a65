"""confluent-kafka's serializers and ours on our registry: each reads what the other writes.

The readers of confluent-kafka have a client of their own, because its client caches the text of a
Protobuf schema that it has looked up where its deserializer expects a descriptor.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import protobuf as confluent_protobuf

from odradek.schemas.parsed import Reference
from odradek.schemas.serializers import (
    AvroDeserializer,
    AvroSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
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


def test_clients_have_the_same_calls(clients: Clients) -> None:
    """A program changes its imports only: each call takes and returns what Confluent's does."""
    ours = _walk(clients.ours, Schema, "walked-by-ours")
    theirs = _walk(clients.writing, ConfluentSchema, "walked-by-theirs")
    assert ours == theirs
    assert ours["versions"] == [1, 2]
    assert ours["compatible"] == [True, False]
    assert ours["level"] == "FULL"


def _walk(client: Any, schema: Any, subject: str) -> dict[str, Any]:
    """Calls everything that a client can do; returns what must not differ between two clients."""
    name = subject.replace("-", "_")

    def of_type(kind: str) -> str:
        # Without spaces, as the registry keeps it.
        fields = f'[{{"name":"n","type":"{kind}","default":0}}]'
        return f'{{"type":"record","name":"{name}","fields":{fields}}}'

    first = client.register_schema(subject, schema(of_type("int"), "AVRO"))
    second = client.register_schema(subject, schema(of_type("long"), "AVRO"), True)
    assert client.get_schema(first).schema_str == of_type("int")
    newest = client.get_latest_version(subject)
    assert (newest.schema_id, newest.subject) == (second, subject)
    assert client.get_schema_by_guid(newest.guid).schema_str == newest.schema.schema_str
    found = client.lookup_schema(subject, schema(of_type("int"), "AVRO"))
    text = schema(json.dumps("string"), "AVRO")
    compatible = [
        client.test_compatibility(subject, schema(of_type("long"), "AVRO")),
        client.test_compatibility(subject, text),
    ]
    changed = client.set_compatibility(subject, "FULL")
    return {
        "version": (found.version, found.schema_id == first, found.schema.schema_type),
        "older": client.get_version(subject, 1).schema.schema_str.replace(name, ""),
        "versions": client.get_versions(subject),
        "is listed": subject in client.get_subjects(),
        "compatible": compatible,
        "changed": changed,
        "level": client.get_compatibility(subject),
    }


def test_modes_and_references_of_a_registry(clients: Clients) -> None:
    client = clients.ours
    client.register("inner", "AVRO", json.dumps({"type": "enum", "name": "E", "symbols": ["A"]}))
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "e", "type": "E"}]}
    made = client.register("outer", "AVRO", json.dumps(outer), [Reference("E", "inner", 1)])
    assert client.referenced_by("inner", 1) == [made]
    assert client.set_mode("READONLY", "outer") == client.mode("outer") == "READONLY"
    client.delete_mode("outer")
    assert client.mode("outer") == "READWRITE"
