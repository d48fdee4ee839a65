"""Values of Protobuf become objects of a class, or what a function of the program makes of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from odradek.schemas.serializers import (
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SerializationContext,
)
from tests.unit.schemas.registries import registry

PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Click {
  string user = 1;
  int64 count = 2;
  bytes raw = 3;
  repeated string tags = 4;
  Place place = 5;
  google.protobuf.Timestamp at = 6;
  optional int32 rank = 7;
  map<string, int64> sums = 8;
  message Place { uint64 number = 1; }
}
"""
VALUE = SerializationContext("clicks", "value", [])


@dataclass
class Place:
    number: int


@dataclass
class Click:
    user: str
    count: int
    raw: bytes
    tags: list[str]
    place: Place
    at: datetime
    sums: dict[str, int]
    rank: int | None = None


CLICK = Click(
    "ada", 2**60, b"\0\1", ["new"], Place(2**63), datetime(2026, 11, 19, tzinfo=UTC), {"a": 1}
)


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    with registry() as known, SchemaRegistryClient({"url": known.url}) as client:
        yield client


def test_objects_of_a_class(client: SchemaRegistryClient) -> None:
    written = {**CLICK.__dict__, "place": CLICK.place.__dict__}
    data = ProtobufSerializer(PROTO, client)(written, VALUE)
    read = ProtobufDeserializer(None, schema_registry_client=client, record_class=Click)
    assert read(data, VALUE) == CLICK


def test_what_a_function_makes_of_the_dict(client: SchemaRegistryClient) -> None:
    data = ProtobufSerializer(PROTO, client)({"user": "ada"}, VALUE)

    def made(value: dict[str, object], context: SerializationContext) -> tuple[object, str]:
        return value["user"], context.topic

    read = ProtobufDeserializer(None, schema_registry_client=client, from_dict=made)
    assert read(data, VALUE) == ("ada", "clicks")
