"""Our clients with serializers that ask a registry: real brokers, and a registry that can fail."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.errors import (
    DeserializationFailed,
    DeserializerUnavailable,
    SerializerUnavailable,
    SettingsError,
    is_retriable,
)
from odradek.client.serializers_with_schemas import is_their_setting
from odradek.client.sync import Consumer as SyncConsumer
from odradek.client.sync import Producer as SyncProducer
from odradek.schemas.errors import BadPayload
from odradek.schemas.serializers import AvroDeserializer, AvroSerializer, RegistryClient
from odradek.schemas.serializers.settings import _DECLARED
from odradek.testing.cluster import Cluster
from tests.unit.schemas.registries import Registry, registry

CLICK = '{"type":"record","name":"Click","fields":[{"name":"n","type":"long"}]}'

PROTO = 'syntax = "proto3"; message Click { int64 n = 1; }'


@dataclass
class Click:
    n: int


@pytest.fixture
def known() -> Iterator[Registry]:
    with registry() as found:
        yield found


def _properties(cluster: Cluster, known: Registry, **more: str) -> dict[str, Any]:
    shared = {
        "bootstrap.servers": cluster.bootstrap,
        "schema.registry.url": known.url,
        "schema.registry.max.retries": "0",
    }
    return {**shared, **{name.replace("_", "."): value for name, value in more.items()}}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("avro", CLICK),
        ("io.confluent.kafka.serializers.KafkaAvro", CLICK),
        ("odradek.schemas.serializers:Avro", CLICK),
        ("json-schema", '{"properties":{"n":{"type":"integer"}}}'),
        ("io.confluent.kafka.serializers.protobuf.KafkaProtobuf", PROTO),
    ],
)
async def test_serializers_by_properties(
    odradek_cluster: Cluster, odradek_topic: str, known: Registry, name: str, schema: str
) -> None:
    java = name[0] == "i" or ":" in name
    to, back = (f"{name}Serializer", f"{name}Deserializer") if java else (name, name)
    settings = _properties(odradek_cluster, known, value_serializer=to, value_schema=schema)
    async with Producer(settings) as producer:
        await producer.send_and_wait(odradek_topic, {"n": 7})
        await producer.send_and_wait(odradek_topic, None)
        with pytest.raises(BadPayload):
            await producer.send(odradek_topic, {"n": "x"})
    settings = _properties(odradek_cluster, known, value_deserializer=back)
    async with Consumer(settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(odradek_topic, 0)])
        read = [record.value for record in await _records(consumer, 2)]
    assert read == [{"n": 7}, None]
    assert list(known.subjects) == [f"{odradek_topic}-value"]


async def _records(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                found += records
    return found


async def test_the_event_loop_goes_on_while_the_registry_thinks(
    odradek_cluster: Cluster, odradek_topic: str, known: Registry
) -> None:
    known.answering.clear()
    client = RegistryClient(known.url)
    with client:
        serializer: Any = AvroSerializer(client)
        async with Producer(
            bootstrap_servers=odradek_cluster.bootstrap, value_serializer=serializer
        ) as producer:
            sends = [
                asyncio.create_task(producer.send(odradek_topic, Click(number)))
                for number in range(100)
            ]
            longest_s, before_s = 0.0, time.monotonic()
            for _ in range(50):
                await asyncio.sleep(0.01)
                longest_s = max(longest_s, time.monotonic() - before_s)
                before_s = time.monotonic()
            assert not any(send.done() for send in sends)
            known.answering.set()
            await asyncio.gather(*sends)
        assert longest_s < 5
        deserializer: Any = AvroDeserializer(client, record_class=Click)
        async with Consumer(
            bootstrap_servers=odradek_cluster.bootstrap,
            value_deserializer=deserializer,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([(odradek_topic, 0)])
            records = await _records(consumer, 100)
    # Those that waited kept their order, and the registry was asked once each.
    assert [record.value for record in records] == [Click(number) for number in range(100)]
    assert len(known.asked) == 2


async def test_a_registry_that_is_down_loses_nothing(
    odradek_cluster: Cluster, odradek_topic: str, known: Registry
) -> None:
    settings = _properties(odradek_cluster, known, value_serializer="avro", value_schema=CLICK)
    async with Producer(settings) as producer:
        known.failures = [503]
        with pytest.raises(SerializerUnavailable, match="nothing was sent") as raised:
            await producer.send(odradek_topic, {"n": 1})
        assert is_retriable(raised.value)
        await producer.send_and_wait(odradek_topic, {"n": 1})
        await producer.send_and_wait(odradek_topic, {"n": 2})
    settings = _properties(odradek_cluster, known, value_deserializer="avro")
    async with Consumer(settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(odradek_topic, 0)])
        known.failures = [503, 503]
        for _ in range(2):
            with pytest.raises(DeserializerUnavailable, match=r"at offset 0.*tries again") as down:
                await consumer.poll(timeout_ms=60_000)
            assert is_retriable(down.value)
        assert [record.value["n"] for record in await _records(consumer, 2)] == [1, 2]
        record = await consumer.get(odradek_topic, b"nobody", all_partitions=True)
        assert record is None


async def test_bad_data_is_one_error_with_its_place(
    odradek_cluster: Cluster, odradek_topic: str, known: Registry
) -> None:
    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        for value in (b"\0\0\0\0\x09x", b"abc", b"\0\0\0\0\1\2"):
            await producer.send_and_wait(odradek_topic, value)
    known.add("any", {"schema": CLICK})
    settings = _properties(odradek_cluster, known, value_deserializer="avro")
    async with Consumer(settings, auto_offset_reset="earliest") as consumer:
        partition = TopicPartition(odradek_topic, 0)
        consumer.assign([partition])
        for offset, reason in (
            (0, "schema 9, which the registry does not know"),
            (1, "not framed"),
        ):
            with pytest.raises(DeserializationFailed, match=reason) as raised:
                await consumer.poll(timeout_ms=60_000)
            assert (raised.value.partition, raised.value.offset) == (partition, offset)
            consumer.seek(partition, offset + 1)
        assert (await _records(consumer, 1))[0].value == {"n": 1}


def test_clients_without_asyncio(
    odradek_cluster: Cluster, odradek_topic: str, known: Registry
) -> None:
    header = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
    settings = _properties(
        odradek_cluster,
        known,
        key_serializer="avro",
        key_schema='"string"',
        value_serializer="avro",
        value_record_class=f"{__name__}:Click",
        value_schema_id_serializer=header,
    )
    with SyncProducer(settings) as producer:
        producer.send(odradek_topic, Click(3), "ada").result(60)
    settings = _properties(
        odradek_cluster,
        known,
        key_deserializer="avro",
        value_deserializer="avro",
        value_record_class=f"{__name__}:Click",
    )
    with SyncConsumer(settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(odradek_topic, 0)])
        (records,) = consumer.poll(timeout_ms=60_000).values()
        assert (records[0].key, records[0].value) == ("ada", Click(3))
        assert [name for name, _ in records[0].headers] == ["__value_schema_id"]


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(SettingsError, match=r"json, avro, json_schema, protobuf, or a class"):
        Producer(value_serializer="avros")
    with pytest.raises(ValueError, match=r"schema\.registry\.url is not set"):
        Producer({"bootstrap.servers": "h:1", "value.serializer": "avro"})


def test_the_client_knows_the_settings_of_serializers() -> None:
    for name in (*_DECLARED, "schema.registry.url", "basic.auth.user.info", "bearer.auth.token"):
        assert is_their_setting(name)
    for name in ("value.schema.file", "key.message", "value_record_class"):
        assert is_their_setting(name)
    assert not is_their_setting("value.serialiser")
