"""Avro, JSON Schema and Protobuf on a real registry, and read by confluent-kafka."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from odradek.connect import plugins
from odradek.connect.converters.converter import Converter
from odradek.connect.converters.registry_converter import RegistryConverter
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.schemas.registry_client import RegistryClient
from odradek.testing.registry import Registry
from odradek.world.blocking_calls import MustBlock
from tests.unit.connect.connectors.json_server import JsonServer, Response

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"

ADDRESS = schemas.struct(
    Field("city", schemas.STRING), Field("zip", schemas.OPTIONAL_STRING), name="shop.Address"
)
ORDER = schemas.struct(
    Field("tiny", schemas.INT8),
    Field("small", schemas.INT16.optional()),
    Field("id", schemas.INT32),
    Field("big", schemas.INT64),
    Field("single", schemas.FLOAT32),
    Field("double", schemas.FLOAT64.optional()),
    Field("is_paid", schemas.BOOLEAN),
    Field("note", replace(schemas.OPTIONAL_STRING, default="none")),
    Field("raw", schemas.BYTES),
    Field("price", schemas.decimal(2, is_optional=True)),
    Field("day", schemas.date()),
    Field("at", schemas.time()),
    Field("moment", schemas.timestamp(is_optional=True)),
    Field("tags", schemas.array(schemas.STRING)),
    Field("counts", schemas.map_of(schemas.STRING, schemas.INT32)),
    Field("home", ADDRESS),
    Field("work", ADDRESS.optional()),
    name="shop.Order",
)
VALUE: dict[str, Any] = {
    "tiny": -128,
    "small": 300,
    "id": 7,
    "big": 1 << 40,
    "single": 0.5,
    "double": 2.25,
    "is_paid": True,
    "note": "gift",
    "raw": b"\x00\xff",
    "price": Decimal("-12.50"),
    "day": date(2024, 2, 29),
    "at": time(23, 59, 59, 999000),
    "moment": datetime(2024, 2, 29, 12, 30, 15, 250000, UTC),
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "home": {"city": "Praha", "zip": None},
    "work": {"city": "Brno", "zip": "60200"},
}
EMPTY = {
    **VALUE, "small": None, "double": None, "price": None, "moment": None, "work": None,
    "tags": [], "counts": {},
}  # fmt: skip


def converter(name: str, registry: Registry, field: str = "value", **options: str) -> Converter:
    given = {option.replace("_", "."): text for option, text in options.items()}
    return plugins.make_converter(name, {"schema.registry.url": registry.url, **given}, field)


def topic() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def context(name: str) -> Any:
    return SerializationContext(name, MessageField.VALUE)


@pytest.mark.parametrize("value", [VALUE, EMPTY])
@pytest.mark.parametrize("name", [AVRO, JSON])
def test_a_struct_comes_back_with_its_schema(
    odradek_registry: Registry, name: str, value: dict[str, Any]
) -> None:
    where = topic()
    convert = converter(name, odradek_registry)
    data = convert.from_connect(where, ORDER, value)
    assert data is not None
    schema, found = convert.to_connect(where, data)
    assert found == value
    assert schema is not None
    assert schema.version == 1
    # Avro marks defaults that stand in its own schema, and keeps fields as they are.
    assert _bare(schema) == _bare(ORDER)


def _bare(schema: Schema) -> Schema:
    return replace(
        schema,
        version=None,
        parameters={},
        fields=tuple(Field(part.name, _bare(part.schema)) for part in schema.fields),
    )


def test_protobuf_reads_what_it_wrote(odradek_registry: Registry) -> None:
    where = topic()
    convert = converter(PROTOBUF, odradek_registry)
    data = convert.from_connect(where, ORDER, VALUE)
    schema, found = convert.to_connect(where, data)
    # A field of proto3 that is not set is its default.
    assert found == {**VALUE, "home": {"city": "Praha", "zip": ""}}
    assert schema is not None
    price = schema.field("price")
    assert price is not None
    assert price.schema.scale == 2
    tiny = schema.field("tiny")
    assert tiny is not None
    assert tiny.schema.type is Type.INT8
    sparse = convert.to_connect(where, convert.from_connect(where, ORDER, EMPTY)).value
    assert sparse == {**EMPTY, "small": 0, "double": 0.0, "home": {"city": "Praha", "zip": ""}}


def test_protobuf_keeps_nulls_if_it_is_told_to(odradek_registry: Registry) -> None:
    where = topic()
    for option in ("optional.for.nullables", "wrapper.for.nullables"):
        convert = converter(PROTOBUF, odradek_registry, **{option: "true"})
        where = topic()
        written = convert.from_connect(where, ORDER, EMPTY)
        assert convert.to_connect(where, written).value == EMPTY


def test_confluents_deserializers_read_what_we_write(odradek_registry: Registry) -> None:
    where = topic()
    with SchemaRegistryClient({"url": odradek_registry.url}) as client:
        avro = converter(AVRO, odradek_registry).from_connect(where, ORDER, VALUE)
        assert AvroDeserializer(client)(avro, context(where)) == VALUE
        where = topic()
        json = converter(JSON, odradek_registry).from_connect(where, ADDRESS, VALUE["home"])
        read = JSONDeserializer(None, schema_registry_client=client)
        assert read(json, context(where)) == VALUE["home"]


def test_avro_of_others_is_read(odradek_registry: Registry) -> None:
    where = topic()
    text = """{"type":"record","name":"Click","namespace":"web","doc":"A click.","fields":[
      {"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
      {"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A","B"]},"default":"A"},
      {"name":"hash","type":{"type":"fixed","name":"Hash","size":2}},
      {"name":"what","type":["null","string","long",
         {"type":"record","name":"Page","fields":[{"name":"url","type":"string"}]}]},
      {"name":"before","type":["null","Page"],"default":null}]}"""
    with SchemaRegistryClient({"url": odradek_registry.url}) as client:
        write = AvroSerializer(client, text)
        page = {"url": "/"}
        clicks = [
            {"at": 5, "kind": "B", "hash": b"ab", "what": ("web.Page", page), "before": page},
            {"at": 5, "kind": "A", "hash": b"ab", "what": 1 << 40, "before": None},
            {"at": 5, "kind": "A", "hash": b"ab", "what": None, "before": None},
        ]
        frames = [write(click, context(where)) for click in clicks]
    convert = converter(AVRO, odradek_registry)
    found = [convert.to_connect(where, frame) for frame in frames]
    assert [one.value["what"] for one in found] == [{"Page": page}, {"long": 1 << 40}, None]
    assert found[0].value["before"] == page
    assert found[0].value["hash"] == b"ab"
    assert found[0].value["at"] == 5
    schema = found[0].schema
    assert schema is not None
    assert (schema.name, schema.parameters) == (
        "web.Click",
        {"io.confluent.connect.avro.record.doc": "A click."},
    )
    # What was read can be written: a struct of a union is a union again.
    enhanced = converter(AVRO, odradek_registry, **{"enhanced.avro.schema.support": "true"})
    again = topic()
    schema, value = enhanced.to_connect(where, frames[0])
    assert value["what"] == {"web.Page": page}
    data = enhanced.from_connect(again, schema, value)
    assert enhanced.to_connect(again, data).value == value
    # The namespace of the enum says that it is the same schema.
    text = RegistryClient(odradek_registry.url).latest(f"{again}-value").schema.text
    assert '"symbols":["A","B"]' in text


def test_the_avro_schema_is_that_of_confluent(odradek_registry: Registry) -> None:
    where = topic()
    schema = schemas.struct(
        Field("id", schemas.INT8),
        Field("price", schemas.decimal(2, is_optional=True)),
        Field("on", schemas.date()),
        name="a.b.Row",
    )
    value = {"id": 1, "price": None, "on": date(1970, 1, 2)}
    converter(AVRO, odradek_registry).from_connect(where, schema, value)
    text = RegistryClient(odradek_registry.url).latest(f"{where}-value").schema.text
    assert text == (
        '{"type":"record","name":"Row","namespace":"a.b","fields":['
        '{"name":"id","type":{"type":"int","connect.type":"int8"}},'
        '{"name":"price","type":["null",{"type":"bytes","scale":2,"precision":64,'
        '"connect.version":1,"connect.parameters":{"scale":"2"},'
        '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}],'
        '"default":null},'
        '{"name":"on","type":{"type":"int","connect.version":1,'
        '"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}}],'
        '"connect.name":"a.b.Row"}'
    )


@pytest.mark.parametrize(
    "value", [{"a": [1, None, "x"], "b": {"c": 1.5}}, "text", 5, True, b"raw", [{"k": 1}]]
)
def test_avro_without_a_schema(odradek_registry: Registry, value: Any) -> None:
    convert = converter(AVRO, odradek_registry)
    data = convert.from_connect("anything", None, value)
    assert convert.to_connect("anything", data) == (None, value)


@pytest.mark.parametrize("name", [AVRO, JSON, PROTOBUF])
@pytest.mark.parametrize(
    ("schema", "value"),
    [(schemas.STRING, "x"), (schemas.INT64, -5), (schemas.BYTES, b"\x00"), (schemas.BOOLEAN, True)],
)
def test_keys_may_be_primitive(
    odradek_registry: Registry, name: str, schema: Schema, value: Any
) -> None:
    where = topic()
    convert = converter(name, odradek_registry, "key")
    data = convert.from_connect(where, schema, value)
    found = convert.to_connect(where, data)
    assert found.value == value
    assert found.schema is not None
    assert found.schema.type is schema.type
    assert f"{where}-key" in RegistryClient(odradek_registry.url).subjects()


@pytest.mark.parametrize("name", [AVRO, JSON])
def test_maps_with_other_keys_are_lists(odradek_registry: Registry, name: str) -> None:
    where = topic()
    schema = schemas.struct(Field("m", schemas.map_of(schemas.INT32, schemas.STRING)), name="M")
    convert = converter(name, odradek_registry)
    data = convert.from_connect(where, schema, {"m": {1: "a", 2: "b"}})
    found = convert.to_connect(where, data)
    assert found.value == {"m": {1: "a", 2: "b"}}
    assert found.schema is not None
    assert found.schema.fields[0].schema.type is Type.MAP


def test_json_schemas_of_others_are_read(odradek_registry: Registry) -> None:
    where = topic()
    text = """{"type":"object","title":"Person","required":["name"],"properties":{
      "name":{"type":"string","description":"full"},"age":{"type":"integer","default":1},
      "mail":{"type":["string","null"]},"kind":{"enum":["a","b"]},
      "pet":{"oneOf":[{"type":"string"},{"$ref":"#/definitions/dog"}]}},
      "definitions":{"dog":{"type":"object","properties":{"barks":{"type":"boolean"}}}}}"""
    client = RegistryClient(odradek_registry.url)
    number = client.register(f"{where}-value", "JSON", text)
    data = b"\x00" + number.to_bytes(4, "big") + b'{"name":"Eva","pet":{"barks":true},"more":1}'
    convert = converter(JSON, odradek_registry, **{"use.optional.for.nonrequired": "true"})
    schema, value = convert.to_connect(where, data)
    dog = {"io.confluent.connect.json.OneOf.field.1": {"barks": True}}
    assert value == {"name": "Eva", "age": 1, "mail": None, "kind": None, "pet": dog}
    assert schema is not None
    assert [part.schema.is_optional for part in schema.fields] == [False, True, True, True, True]


def test_protobuf_of_others_is_read(odradek_registry: Registry) -> None:
    where = topic()
    text = """syntax = "proto3";
package zoo;
import "google/protobuf/timestamp.proto";
message Animal {
  enum Kind { UNKNOWN = 0; CAT = 1; }
  message Leg { int32 toes = 1; }
  Kind kind = 1;
  oneof sound { string word = 2; Leg stamp = 3; }
  repeated Leg legs = 4;
  map<string, Leg> named = 5;
  google.protobuf.Timestamp born = 6;
  optional string nick = 7;
}
message Second { uint64 big = 1; }
"""
    client = RegistryClient(odradek_registry.url)
    number = client.register(f"{where}-value", "PROTOBUF", text)
    # kind=CAT, stamp={toes:3}, legs=[{toes:1}], named={"a": {}}, born=1 s
    body = bytes.fromhex("08011a02080322020801" + "2a05 0a0161 1200 32020801".replace(" ", ""))
    frame = b"\x00" + number.to_bytes(4, "big") + b"\x00"
    convert = converter(PROTOBUF, odradek_registry)
    schema, value = convert.to_connect(where, frame + body)
    assert value == {
        "sound_0": {"stamp": {"toes": 3}},
        "kind": "CAT",
        "legs": [{"toes": 1}],
        "named": {"a": {"toes": 0}},
        "born": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "nick": None,
    }
    assert schema is not None
    assert schema.name == "Animal"
    second = b"\x00" + number.to_bytes(4, "big") + b"\x02\x02" + b"\x08" + b"\xff" * 9 + b"\x01"
    assert convert.to_connect(where, second).value == {"big": -1}
    # A oneof that was read is written as one.
    again = topic()
    convert = converter(PROTOBUF, odradek_registry, **{"optional.for.nullables": "true"})
    schema, value = convert.to_connect(where, frame + body)
    data = convert.from_connect(again, schema, value)
    assert convert.to_connect(again, data).value == value


def test_subjects_and_registering_are_set_as_for_serializers(odradek_registry: Registry) -> None:
    where = topic()
    by_record = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
    convert = converter(AVRO, odradek_registry, **{"value.subject.name.strategy": by_record})
    convert.from_connect(where, ADDRESS, VALUE["home"])
    assert "shop.Address" in RegistryClient(odradek_registry.url).subjects()
    strict = converter(AVRO, odradek_registry, **{"auto.register.schemas": "false"})
    with pytest.raises(DataError, match="not registered as a version of"):
        strict.from_connect(where, ADDRESS, VALUE["home"])


def test_a_schema_that_does_not_fit_the_subject_ends_the_task(odradek_registry: Registry) -> None:
    where = topic()
    convert = converter(AVRO, odradek_registry)
    convert.from_connect(where, schemas.struct(Field("a", schemas.INT32), name="X"), {"a": 1})
    with pytest.raises(InvalidConfig, match="refuses the schema of topic"):
        convert.from_connect(
            where, schemas.struct(Field("a", schemas.STRING), name="X"), {"a": "1"}
        )


@pytest.mark.parametrize("name", [AVRO, JSON, PROTOBUF])
def test_what_does_not_fit_says_where(odradek_registry: Registry, name: str) -> None:
    convert = converter(name, odradek_registry)
    with pytest.raises(DataError, match=r"city|null"):
        convert.from_connect(topic(), ADDRESS, {"city": None, "zip": None})
    with pytest.raises(DataError):
        convert.from_connect(topic(), ADDRESS, {"city": 5, "zip": None})
    with pytest.raises(DataError, match="not framed by a serializer"):
        convert.to_connect(topic(), b'{"a":1}')
    assert convert.from_connect(topic(), None, None) is None
    assert convert.to_connect(topic(), None) == (None, None)


def test_an_event_loop_does_not_wait_for_the_registry(odradek_registry: Registry) -> None:
    where = topic()
    convert = converter(AVRO, odradek_registry)
    assert isinstance(convert, RegistryConverter)
    convert = convert.without_blocking()

    def done(call: Callable[[], Any]) -> Any:
        with pytest.raises(MustBlock) as waiting:
            call()
        waiting.value.call()
        return call()

    data = done(lambda: convert.from_connect(where, ADDRESS, VALUE["home"]))
    assert done(lambda: convert.to_connect(where, data)).value == VALUE["home"]
    gone = b"\x00\x7f\xff\xff\xff\x00"
    with pytest.raises(DataError, match="2147483647"):
        done(lambda: convert.to_connect(where, gone))


def test_a_registry_that_does_not_answer_is_no_fault_of_the_record() -> None:
    convert = plugins.make_converter(
        AVRO, {"schema.registry.url": "http://127.0.0.1:1", "max.retries": "0"}
    )
    with pytest.raises(Unavailable, match="cannot be asked"):
        convert.from_connect("t", schemas.STRING, "x")


def test_a_wrong_log_in_is_no_fault_of_the_record() -> None:
    with JsonServer(lambda _: Response(401, {"error_code": 401, "message": "who?"})) as server:
        convert = plugins.make_converter(AVRO, {"schema.registry.url": server.url})
        with pytest.raises(Unavailable, match="does not let us in"):
            convert.from_connect("t", schemas.STRING, "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "schema.registry.url is not set"),
        ({"schema.registry.url": "nonsense"}, "not the URL of a schema registry"),
        ({"value.subject.name.strategy": "os:system"}, "must be TopicNameStrategy"),
        ({"generalized.sum.type.support": "true"}, "is not supported"),
        ({"schema.id.serializer": "HeaderSchemaIdSerializer"}, "leave it out"),
        ({"scrub.invalid.names": "maybe"}, "scrub.invalid.names"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, str], message: str) -> None:
    given = {"schema.registry.url": "http://127.0.0.1:1", **options} if options else {}
    with pytest.raises(InvalidConfig, match=message):
        plugins.make_converter(AVRO, given)
