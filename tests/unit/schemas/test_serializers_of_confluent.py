"""What confluent-kafka's serializers write, ours read, and the reverse."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import header_schema_id_serializer as confluent_header
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf import message_factory, timestamp_pb2

from odradek.schemas.errors import BadPayload
from odradek.schemas.protobuf_descriptors import ProtobufSchema
from odradek.schemas.serializers import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SerializationContext,
    header_schema_id_serializer,
)
from tests.unit.schemas.registries import Registry, registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "namespace": "shop",
        "fields": [
            {"name": "user", "type": "string"},
            {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal",
                                                "precision": 9, "scale": 2}], "default": None},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        ],
    }
)  # fmt: skip
CLICK = {
    "user": "Zoë ☃",
    "price": Decimal("12.50"),
    "day": date(2026, 11, 18),
    "clock": time(12, 30, 0, 5000),
    "at": datetime(2026, 11, 18, 12, 30, 0, 7, tzinfo=UTC),
    "key": UUID(int=7),
    "tags": {"a": [1, 2], "b": []},
}
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Click",
        "type": "object",
        "properties": {"user": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["user"],
    }
)


class Clients(NamedTuple):
    registry: Registry
    ours: SchemaRegistryClient
    theirs: Any


@pytest.fixture
def clients() -> Iterator[Clients]:
    with (
        registry() as known,
        SchemaRegistryClient({"url": known.url}) as ours,
        ConfluentClient({"url": known.url}) as theirs,
    ):
        yield Clients(known, ours, theirs)


def conf_of(in_headers: bool, theirs: bool) -> dict[str, Any]:
    if not in_headers:
        return {}
    return {"schema.id.serializer": confluent_header if theirs else header_schema_id_serializer}


def _both_ways(
    ours: tuple[Any, Any], theirs: tuple[Any, Any], value: Any, expected: Any = None
) -> None:
    """Each serializer's bytes are those of the other, and each deserializer reads the other's."""
    for field in ("key", "value"):
        written = []
        for serializer, context_class in ((ours[0], SerializationContext), (theirs[0], None)):
            headers: list[tuple[str, bytes]] = []
            context = (context_class or ConfluentContext)("clicks", field, headers)
            written.append((serializer(value, context), headers))
        assert written[0] == written[1]
        data, headers = written[0]
        read = ours[1](data, SerializationContext("clicks", field, headers))
        assert read == theirs[1](data, ConfluentContext("clicks", field, headers))
        assert read == (value if expected is None else expected)
        assert ours[0](None, SerializationContext("clicks", field, [])) is None
        assert ours[1](None, SerializationContext("clicks", field, [])) is None


@pytest.mark.parametrize("in_headers", [False, True])
def test_avro(clients: Clients, in_headers: bool) -> None:
    _, ours, theirs = clients
    _both_ways(
        (AvroSerializer(ours, AVRO, None, conf_of(in_headers, False)), AvroDeserializer(ours)),
        (
            confluent_avro.AvroSerializer(theirs, AVRO, None, conf_of(in_headers, True)),
            confluent_avro.AvroDeserializer(theirs),
        ),
        CLICK,
    )
    assert list(clients.registry.subjects) == ["clicks-key", "clicks-value"]


@pytest.mark.parametrize(
    "schema", ['{"type":"string"}', '["null","string","long"]', '{"type":"bytes"}']
)
def test_avro_that_is_no_record(clients: Clients, schema: str) -> None:
    _, ours, theirs = clients
    _both_ways(
        (AvroSerializer(ours, schema), AvroDeserializer(ours)),
        (confluent_avro.AvroSerializer(theirs, schema), confluent_avro.AvroDeserializer(theirs)),
        b"\0\1" if "bytes" in schema else "text",
    )


@pytest.mark.parametrize("in_headers", [False, True])
def test_json(clients: Clients, in_headers: bool) -> None:
    _, ours, theirs = clients
    compact = {"json_encode": lambda value: json.dumps(value, separators=(",", ":"))}
    _both_ways(
        (
            JSONSerializer(JSON, ours, None, conf_of(in_headers, False)),
            JSONDeserializer(JSON, None, ours),
        ),
        (
            confluent_json.JSONSerializer(JSON, theirs, None, conf_of(in_headers, True), **compact),
            confluent_json.JSONDeserializer(JSON, None, theirs),
        ),
        {"user": "ada", "n": 1},
    )


PLACE = 'syntax = "proto3"; package shop; message Place { double x = 1; }'
PROTO = """
syntax = "proto3";
package shop;
import "shop/place.proto";
import "google/protobuf/timestamp.proto";
message Click { string user = 1; google.protobuf.Timestamp at = 2; }
message Order { Place place = 1; message Item { int32 n = 1; } }
"""


def generated() -> list[tuple[Any, Any, bytes]]:
    """Returns classes as protoc generates them, a message of each, and its path in a frame."""
    file = ProtobufSchema.from_text(PROTO, [("shop/place.proto", PLACE)])
    click, order, item = (
        message_factory.GetMessageClass(file.message(name))
        for name in ("Click", "Order", "Order.Item")
    )
    at = timestamp_pb2.Timestamp(seconds=7)
    first = click(user="Zoë")
    first.at.seconds = at.seconds
    second = order()
    second.place.x = 0.5
    return [(click, first, b"\0"), (order, second, b"\2\2"), (item, item(n=2), b"\4\2\0")]


@pytest.mark.parametrize("in_headers", [False, True])
def test_protobuf(clients: Clients, in_headers: bool) -> None:
    known, ours, theirs = clients
    for kind, message, indexes in generated():
        serializer = ProtobufSerializer(kind, ours, conf_of(in_headers, False))
        _both_ways(
            (serializer, ProtobufDeserializer(kind)),
            (
                confluent_protobuf.ProtobufSerializer(kind, theirs, conf_of(in_headers, True)),
                confluent_protobuf.ProtobufDeserializer(kind, {}, theirs),
            ),
            message,
        )
        if not in_headers:
            data = serializer(message, SerializationContext("clicks", "value"))
            assert data is not None
            assert data[5 : 5 + len(indexes)] == indexes
    # The imported file is registered too, and referred to; Google's own is not.
    reference = {"name": "shop/place.proto", "subject": "shop/place.proto", "version": 1}
    assert known.schemas[max(known.schemas)]["references"] == [reference]


def test_protobuf_of_the_first_serializers(clients: Clients) -> None:
    kind, message, _ = generated()[1]
    context = SerializationContext("clicks", "value")
    data = ProtobufSerializer(kind, clients.ours, {"use.deprecated.format": True})(message, context)
    assert data is not None
    assert data[5:7] == b"\1\1"
    assert ProtobufDeserializer(kind, {"use.deprecated.format": True})(data) == message
    with pytest.raises(BadPayload):
        ProtobufDeserializer(None, {}, clients.ours)(data, context)


def test_dicts_are_messages_too(clients: Clients) -> None:
    client = clients.ours
    proto = 'syntax = "proto3"; package s; message A {} message B { string user = 1; }'
    context = SerializationContext("clicks", "value")
    data = ProtobufSerializer(proto, client, message="B")({"user": "ada"}, context)
    assert ProtobufDeserializer(None, None, client)(data, context) == {"user": "ada"}
