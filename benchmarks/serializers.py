"""What a record costs in our serializers and in confluent-kafka's, as ratios measured in one run.

    python -m benchmarks.serializers          rows for docs/serializers.md

Both write and read the same records in one process, with the same libraries for the formats. The
registry is asked once; then only codecs and frames count. `codec` is fastavro, jsonschema or
protobuf alone, without a frame: what no serializer can be faster than.
"""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import fastavro
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import avro as theirs_avro
from confluent_kafka.schema_registry import json_schema as theirs_json
from confluent_kafka.schema_registry import protobuf as theirs_protobuf
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf import message_factory

from odradek.schemas.json_schema import JsonCodec
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
)
from tests.unit.schemas.registries import registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "prices", "type": {"type": "array", "items": "double"}},
        ],
    }
)
ORDER = {
    "id": 7_000_000,
    "customer": "ada@example.org",
    "note": "at the door",
    "prices": [9.5, 1.0],
}
JSON = json.dumps({"title": "Order", "properties": {"id": {"type": "integer"}}})
PROTO = """
syntax = "proto3";
message Order { int64 id = 1; string customer = 2; string note = 3; repeated double prices = 4; }
"""
_ROUNDS = 7
_CALLS = 3_000

Call = Callable[[], object]


def nanoseconds(call: Call) -> float:
    """Returns the time of one call: the best of some rounds, because others use the machine too."""
    best = float("inf")
    for _ in range(_ROUNDS):
        before = time.perf_counter_ns()
        for _ in range(_CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - before) / _CALLS)
    return best


def _row(name: str, codec: Call, ours: Call, theirs: Call) -> None:
    alone, own, confluent = (nanoseconds(call) for call in (codec, ours, theirs))
    print(
        f"| {name} | {alone:.0f} ns | {own:.0f} ns | {own / alone:.1f}x codec"
        f" | {confluent / own:.1f}x faster than confluent-kafka |"
    )


def _avro(ours: Any, theirs: Any, here: Any, there: Any) -> None:
    write, read = AvroSerializer(ours, AVRO), AvroDeserializer(ours)
    write_too = theirs_avro.AvroSerializer(theirs, AVRO)
    read_too = theirs_avro.AvroDeserializer(theirs)
    parsed, data = fastavro.parse_schema(json.loads(AVRO)), write(ORDER, here)
    assert data is not None
    payload = data[5:]

    def encode() -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, ORDER)
        return stream.getvalue()

    _row("Avro, write", encode, lambda: write(ORDER, here), lambda: write_too(ORDER, there))
    _row(
        "Avro, read",
        lambda: fastavro.schemaless_reader(io.BytesIO(payload), parsed),
        lambda: read(data, here),
        lambda: read_too(data, there),
    )


def _json(ours: Any, theirs: Any, here: Any, there: Any) -> None:
    write, read = JSONSerializer(JSON, ours), JSONDeserializer(None, None, ours)
    write_too = theirs_json.JSONSerializer(JSON, theirs)
    read_too = theirs_json.JSONDeserializer(None, None, theirs)
    codec, data = JsonCodec(JSON), write(ORDER, here)
    assert data is not None
    payload = data[5:]
    _row(
        "JSON, write",
        lambda: codec.encode(ORDER),
        lambda: write(ORDER, here),
        lambda: write_too(ORDER, there),
    )
    _row(
        "JSON, read",
        lambda: codec.decode(payload),
        lambda: read(data, here),
        lambda: read_too(data, there),
    )


def _protobuf(ours: Any, theirs: Any, here: Any, there: Any) -> None:
    kind = message_factory.GetMessageClass(ProtobufSchema.from_text(PROTO).message())
    message = kind(**ORDER)
    write, read = ProtobufSerializer(kind, ours), ProtobufDeserializer(kind)
    write_too = theirs_protobuf.ProtobufSerializer(kind, theirs)
    read_too = theirs_protobuf.ProtobufDeserializer(kind, {}, theirs)
    data = write(message, here)
    assert data is not None
    payload = data[6:]
    _row(
        "Protobuf, write",
        message.SerializeToString,
        lambda: write(message, here),
        lambda: write_too(message, there),
    )
    _row(
        "Protobuf, read",
        lambda: kind.FromString(payload),
        lambda: read(data, here),
        lambda: read_too(data, there),
    )


def main() -> None:
    print("| | codec alone | ours | | |\n|---|---|---|---|---|")
    with (
        registry() as known,
        SchemaRegistryClient({"url": known.url}) as ours,
        ConfluentClient({"url": known.url}) as theirs,
    ):
        for topic, measure in (("avro", _avro), ("json", _json), ("protobuf", _protobuf)):
            here = SerializationContext(topic, "value", [])
            measure(ours, theirs, here, ConfluentContext(topic, "value", []))


if __name__ == "__main__":
    main()
