"""Serializers, partitioners, interceptors and assignors of the user, given or named."""

import dataclasses
import json
from typing import Any

import pytest

from odradek.client import named_classes
from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import SettingsError
from odradek.client.producer.interceptors import Interceptors, ProducerRecord
from odradek.client.producer.partitioners import (
    FunctionPartitioner,
    RecordPartitioner,
    partitioner_for,
)
from odradek.client.producer.producer import Producer
from odradek.client.serialization import bind_serializer
from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.protocol.types import TopicPartition
from odradek.world import Randomness
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.own_classes import AlertsFirst, Audit, FairAssignor, Tagged
from tests.unit.client.simulated import in_simulation

HERE = "tests.unit.client.own_classes"


@in_simulation()
async def test_a_serde_class_named_in_properties_sees_topic_and_headers(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    Tagged.story.clear()
    shared = {"bootstrap.servers": brokers.bootstrap, "tagged.mark": "/"}
    settings = ProducerSettings.from_properties(shared | {"value.serializer": f"{HERE}:Tagged"})
    async with Producer(settings) as producer:
        await producer.send_and_wait("t", "hello", headers=[("a", b"b")])
    (record,) = brokers.logs[TopicPartition("t", 0)].records()
    assert record.value == b"t/hello"
    assert record.headers == [("a", b"b"), ("field", b"value")]
    properties = shared | {
        "value.deserializer": f"{HERE}:Tagged",
        "auto.offset.reset": "earliest",
    }
    async with Consumer(ConsumerSettings.from_properties(properties)) as consumer:
        consumer.assign([("t", 0)])
        (records,) = (await consumer.poll(10_000)).values()
        assert records[0].value == "hello"
    assert Tagged.story == ["configured is_key=False", "closed"] * 2


@pytest.mark.parametrize(
    "function",
    [
        json.dumps,
        lambda value, context: f"{context.topic}:{value}",
        lambda value, ctx=None: f"{ctx.topic}:{value}",
        lambda topic, value: f"{topic}:{value}",
        lambda topic, headers, data: f"{topic}:{data}",
    ],
)
def test_functions_of_the_value_and_of_more_than_the_value(function: Any) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        brokers.create("t")
        options: Any = {"value_serializer": _encoded(function)}
        async with Producer(bootstrap_servers=brokers.bootstrap, **options) as producer:
            await producer.send_and_wait("t", 7)
        (record,) = brokers.logs[TopicPartition("t", 0)].records()
        assert record.value in {b"7", b"t:7"}
        assert (record.value == b"7") == (function is json.dumps)

    test()


def _encoded(function: Any) -> Any:
    """The same function, but with bytes as its result; its parameters stay visible."""
    import functools

    @functools.wraps(function)
    def encoded(*arguments: Any, **options: Any) -> bytes:
        made: str = function(*arguments, **options)
        return made.encode()

    return encoded


@in_simulation()
async def test_a_partitioner_sees_the_objects(brokers: MiniCluster, simulation: Simulation) -> None:
    brokers.create("t", 3)
    settings = ProducerSettings.from_properties(
        {
            "bootstrap.servers": brokers.bootstrap,
            "partitioner.class": f"{HERE}:AlertsFirst",
            "value.serializer": "json",
        }
    )
    async with Producer(settings) as producer:
        for level in ["info", "critical", "debug", "critical"]:
            where = await producer.send_and_wait("t", {"level": level}, key=level.encode())
            assert (where.partition == 0) == (level == "critical")
    async with Producer(
        bootstrap_servers=brokers.bootstrap, partitioner_class=lambda record: len(record.value)
    ) as producer:
        assert (await producer.send_and_wait("t", b"xx")).partition == 2
        with pytest.raises(ValueError, match="chose partition 5 of topic t"):
            await producer.send("t", b"12345")


@in_simulation()
async def test_interceptors_named_in_properties_see_records_and_outcomes(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    Audit.seen.clear()
    config = {
        "bootstrap.servers": brokers.bootstrap,
        "client.id": "me",
        "interceptor.classes": f"{HERE}:Audit",
    }
    async with Producer(config) as producer:
        await producer.send_and_wait("t", b"one", key=b"k")
        with pytest.raises(TypeError, match=r'set value_serializer, for example.*"string"'):
            await producer.send("t", "text")
    assert Audit.seen == [
        "me",
        ("send", "t", b"k", b"one"),
        ("outcome", True, b"one"),
        ("send", "t", None, "text"),
        ("outcome", False, "text"),
        "closed",
    ]
    Audit.seen.clear()
    async with Consumer(config | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([("t", 0)])
        await consumer.poll(10_000)
    assert Audit.seen == ["me", ("consume", 1), "closed"]


@in_simulation()
async def test_headers_may_be_a_dict(brokers: MiniCluster, simulation: Simulation) -> None:
    brokers.create("t")
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        await producer.send_and_wait("t", b"v", headers={"trace": b"1"})
    (record,) = brokers.logs[TopicPartition("t", 0)].records()
    assert record.headers == [("trace", b"1")]


class Broken:
    """An interceptor that raises wherever it can without changing what is sent."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return dataclasses.replace(record, headers={"id": b"1"})  # type: ignore[arg-type]

    def on_acknowledgement(self, metadata: object, error: BaseException | None) -> None:
        raise RuntimeError("the metrics server is down")

    def close(self) -> None:
        raise RuntimeError("close() too")


@in_simulation()
async def test_an_interceptor_that_raises_changes_no_outcome(
    brokers: MiniCluster, simulation: Simulation, said: list[str]
) -> None:
    brokers.create("t")
    Audit.seen.clear()
    Tagged.story.clear()
    called: list[object] = []
    options: Any = {"interceptors": [Broken(), Audit()], "value_serializer": Tagged()}
    async with Producer(bootstrap_servers=brokers.bootstrap, **options) as producer:
        where = await producer.send_and_wait("t", "v")
        await producer.send("t", "w", on_delivery=lambda *outcome: called.append(outcome))
        await producer.flush()
        with pytest.raises(TypeError, match="a key must be bytes"):
            await producer.send("t", "w", key=5)
    assert where.offset == 0
    assert len(called) == 1
    assert [seen for seen in Audit.seen if seen[0] == "outcome"] == [
        ("outcome", True, "v"),
        ("outcome", True, "w"),
        ("outcome", False, "w"),
    ]
    assert Audit.seen[-1] == Tagged.story[-1] == "closed", "one error keeps no other open"
    first, *others = said
    assert first.startswith("an interceptor raised in on_acknowledgement")
    assert others == [
        "interceptors raised in on_acknowledgement 3 times",
        "close() of Broken raised",
    ]
    (record, _) = brokers.logs[TopicPartition("t", 0)].records()
    assert record.headers[0] == ("id", b"1"), "headers of an interceptor may be a dict"


@in_simulation()
async def test_an_interceptor_must_return_the_record(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    class Forgetful:
        def on_send(self, record: ProducerRecord) -> None:
            pass

    brokers.create("t")
    options: Any = {"interceptors": [Forgetful()]}
    async with Producer(bootstrap_servers=brokers.bootstrap, **options) as producer:
        with pytest.raises(TypeError, match=r"Forgetful.on_send\(\) returned None: it must return"):
            await producer.send("t", b"v")


def test_an_assignor_by_class_and_by_name() -> None:
    for given in (
        FairAssignor(),
        [FairAssignor],
        f"{HERE}:FairAssignor",
        f"range,{HERE}:FairAssignor",
    ):
        settings = ConsumerSettings.from_config({"partition.assignment.strategy": given})
        assert settings.assignors[-1].name == "fair"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("value.serializer", "nosuch.module:Serde", "there is no module nosuch: add its directory"),
        ("value.serializer", f"{HERE}:Taged", f"module {HERE} has no Taged; did you mean Tagged?"),
        ("value.serializer", f"{HERE}:TopicPartition", "has no serialize()"),
        ("value.serializer", "com.example.Avro", "or a class as module:Class"),
        ("value.serializer", "strng", "did you mean string?"),
        ("partitioner.class", f"{HERE}:nothing", "has no nothing"),
        (
            "interceptor.classes",
            "audit.Audit",
            "is no class of Python: name interceptors audit:Audit",
        ),
        ("interceptor.classes", f"{HERE}:Audti", "did you mean Audit?"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        ProducerSettings.from_properties({name: value})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"{name}=")


def test_what_a_function_is_given_is_decided_by_names() -> None:
    def context_of(function: Any) -> bool:
        bound = bind_serializer(function, {}, "value")
        assert bound is not None
        return bound.takes_context

    assert context_of(lambda value, context=None: value)
    assert context_of(lambda value, anything: value)
    assert context_of(lambda topic, data=None: data)
    assert context_of(lambda topic, headers, data: data)
    assert not context_of(lambda value, encoding="utf-8": value)
    assert not context_of(lambda topic, encoding="utf-8": topic), "the value is called topic"

    told: list[Any] = []

    class Counting:
        def on_acknowledgement(self, metadata: Any, error: Any, retries: int = 3) -> None:
            told.append(retries)

    record = ProducerRecord("t")
    Interceptors([Counting()], {}).not_sent(record, ValueError())
    assert told == [3]

    def of_key(key: Any, all_partitions: Any = (), available: Any = ()) -> int:
        return len(all_partitions)

    settings: Any = {"batch_size_bytes": 1, "ignore_keys": False}
    found = partitioner_for(of_key, Randomness(), **settings)
    assert isinstance(found, FunctionPartitioner)
    found = partitioner_for(lambda record, seed=1: 0, Randomness(), **settings)
    assert isinstance(found, RecordPartitioner)


def test_a_class_that_needs_arguments_is_refused() -> None:
    with pytest.raises(SettingsError, match="NeedsArguments cannot be made without arguments"):
        Producer({"value.serializer": f"{HERE}:NeedsArguments"})


def test_objects_and_classes_are_taken_as_they_are() -> None:
    assert ProducerSettings(value_serializer=Tagged).value_serializer is Tagged
    assert ProducerSettings(partitioner_class=AlertsFirst).partitioner_class is AlertsFirst
    with pytest.raises(SettingsError, match=r"a partitioner takes one argument.*or three"):
        ProducerSettings(partitioner_class=lambda key, partitions: 0)  # type: ignore[arg-type]


def test_serializers_of_the_extra_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name="fastavro")

    monkeypatch.setattr(named_classes, "import_module", missing)
    with pytest.raises(SettingsError, match=r"needs fastavro: .* -m pip install .*\[schemas\]"):
        named_classes.load("odradek.schemas.serializers.avro:AvroSerializer")
    with pytest.raises(SettingsError, match=r"shop\.serdes needs fastavro: install it"):
        named_classes.load("shop.serdes:Serializer")
