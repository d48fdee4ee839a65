"""Serializers and deserializers: subjects, ids, classes, settings, and what goes wrong."""

import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
import pytest
from pydantic import BaseModel

from odradek.schemas.errors import (
    BadPayload,
    BadSchema,
    BadSetting,
    NotRegistered,
    RegistryFailed,
    RegistryUnreachable,
)
from odradek.schemas.serializers import (
    AvroDeserializer,
    AvroSerializer,
    AvroType,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SerializationContext,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from odradek.world.blocking_calls import MustBlock
from tests.unit.schemas.registries import Registry, registry

CLICK = '{"type":"record","name":"Click","namespace":"shop","fields":[{"name":"n","type":"long"}]}'
VALUE = SerializationContext("clicks", "value")


class Pair:
    def __init__(self, known: Registry, client: SchemaRegistryClient) -> None:
        self.known = known
        self.client = client


@pytest.fixture
def pair() -> Iterator[Pair]:
    conf = {"max.retries": 1, "retries.wait.ms": 5, "timeout": 10}
    with registry() as known, SchemaRegistryClient({"url": known.url, **conf}) as client:
        yield Pair(known, client)


# Which schema


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "clicks-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Click"),
        ("TOPIC_RECORD", "clicks-shop.Click"),
        (record_subject_name_strategy, "shop.Click"),
        (lambda context, name: f"{context.field}/{name}", "value/shop.Click"),
        ("tests.unit.schemas.test_serializers:own_strategy", "own"),
    ],
)
def test_subjects(pair: Pair, strategy: Any, subject: str) -> None:
    conf = {"subject.name.strategy": strategy}
    assert AvroSerializer(pair.client, CLICK, None, conf)({"n": 1}, VALUE) is not None
    assert list(pair.known.subjects) == [subject]


def own_strategy(context: object, name: str | None) -> str:
    return "own"


def test_a_schema_without_a_name_has_no_subject_by_record(pair: Pair) -> None:
    conf = {"subject.name.strategy": "RecordNameStrategy"}
    with pytest.raises(BadPayload, match="needs the name of a record"):
        AvroSerializer(pair.client, '"long"', None, conf)(1, VALUE)


def test_nothing_is_registered_unless_wanted(pair: Pair) -> None:
    serializer = AvroSerializer(pair.client, CLICK, None, {"auto.register.schemas": False})
    with pytest.raises(NotRegistered, match="not registered as a version of clicks-value"):
        serializer({"n": 1}, VALUE)
    assert not pair.known.subjects
    pair.known.add("clicks-value", {"schema": CLICK})
    assert serializer({"n": 1}, VALUE) == b"\0\0\0\0\1\2"


def test_the_newest_version_and_a_given_id(pair: Pair) -> None:
    newer = CLICK.replace('"long"', '"double"')
    for text in (CLICK, newer):
        pair.known.add("clicks-value", {"schema": text})
    newest = AvroSerializer(pair.client, None, None, {"use.latest.version": True})
    assert newest({"n": 1.5}, VALUE)[:5] == b"\0\0\0\0\2"  # type: ignore[index]
    given = AvroSerializer(pair.client, None, None, {"use.schema.id": 1})
    assert given({"n": 1}, VALUE) == b"\0\0\0\0\1\2"
    reads = AvroDeserializer(pair.client, None, None, False, {"use.latest.version": True})
    assert reads(b"\0\0\0\0\1\2", VALUE) == {"n": 1.0}
    # The newest version is asked for again when its time is over, and kept while nobody answers.
    client = SchemaRegistryClient(
        {"url": pair.known.url, "latest.cache.ttl.sec": 0, "max.retries": 0}
    )
    with client:
        newest = AvroSerializer(client, None, None, {"use.latest.version": True})
        newest({"n": 1}, VALUE)
        pair.known.add("clicks-value", {"schema": CLICK.replace("long", "float")})
        assert newest({"n": 1}, VALUE)[4] == 3  # type: ignore[index]
        pair.known.failures = [503]
        assert newest({"n": 1}, VALUE)[4] == 3  # type: ignore[index]


def test_references(pair: Pair) -> None:
    pair.known.add("inner", {"schema": CLICK})
    outer = Schema(
        '{"type":"record","name":"Outer","fields":[{"name":"click","type":"shop.Click"}]}',
        "AVRO",
        [SchemaReference("shop.Click", "inner", 1)],
    )
    data = AvroSerializer(pair.client, outer)({"click": {"n": 3}}, VALUE)
    assert AvroDeserializer(pair.client)(data, VALUE) == {"click": {"n": 3}}
    assert AvroDeserializer(pair.client, outer)(data, VALUE) == {"click": {"n": 3}}


def test_a_reader_gets_what_its_schema_says(pair: Pair) -> None:
    data = AvroSerializer(pair.client, CLICK)({"n": 1}, VALUE)
    fields = '{"name":"n","type":"double"},{"name":"by","type":"string","default":"?"}'
    reader = CLICK.replace('{"name":"n","type":"long"}', fields)
    assert AvroDeserializer(pair.client, reader)(data, VALUE) == {"n": 1.0, "by": "?"}


# Classes


class Kind(Enum):
    BUY = "BUY"
    LOOK = "LOOK"


@dataclass
class Part:
    weight: float
    parts: "list[Part]" = field(default_factory=list)


@dataclass
class Box:
    """What is sent."""

    __avro_namespace__ = "shop"
    size: int


@dataclass
class Order:
    user: str
    price: Annotated[Decimal, AvroType.decimal(10, 2)]
    day: date
    clock: time
    at: datetime
    key: UUID
    data: bytes
    kind: Kind
    level: Literal["low", "high"]
    content: Box | Part
    contents: list[Box | Part]
    tree: Part | None = None
    note: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    retries: int = 0


ORDER = Order(
    "Zoë",
    Decimal("9.50"),
    date(2026, 11, 18),
    time(1, 2, 3, 4),
    datetime(2026, 11, 18, tzinfo=UTC),
    UUID(int=1),
    b"\0\xff",
    Kind.LOOK,
    "high",
    Box(3),
    [Part(1.5), Box(2)],
    tree=Part(2.0, [Part(1.0)]),
    counts={"a": 1},
)


class Item(BaseModel):
    name: str
    at: datetime
    count: int = 1
    kind: Kind = Kind.BUY


@attrs.define
class Visit:
    page: str
    items: list[str] = attrs.Factory(list)
    by: str | None = None


def test_a_dataclass_goes_there_and_back_in_avro(pair: Pair) -> None:
    for serializer in (AvroSerializer(pair.client, Order), AvroSerializer(pair.client)):
        data = serializer(ORDER, VALUE)
        assert AvroDeserializer(pair.client, record_class=Order)(data, VALUE) == ORDER
        read = AvroDeserializer(pair.client)(data, VALUE)
        assert (read["price"], read["kind"], read["note"]) == (Decimal("9.50"), "LOOK", None)
    schema = json.loads(str(pair.known.schemas[1]["schema"]))
    assert schema["name"] == "Order"
    box = next(one for one in schema["fields"] if one["name"] == "content")["type"][0]
    assert (box["name"], box["doc"]) == ("shop.Box", "What is sent.")


def test_a_dataclass_goes_there_and_back_in_json(pair: Pair) -> None:
    # JSON does not say which member of a union a value is, so the union is left out.
    order = Visit("/a", ["x"], None)
    part = Part(1.0, [Part(2.0)])
    for value, kind in ((order, Visit), (part, Part)):
        context = SerializationContext(kind.__name__, "value")
        data = JSONSerializer(kind, pair.client)(value, context)
        reader = JSONDeserializer(None, None, pair.client, record_class=kind)
        assert reader(data, context) == value


def test_pydantic_and_attrs(pair: Pair) -> None:
    item = Item(name="pen", at=datetime(2026, 11, 18, tzinfo=UTC))
    visit = Visit("/a", ["x"])
    for value in (item, visit):
        context = SerializationContext(type(value).__name__, "value")
        data = AvroSerializer(pair.client, type(value))(value, context)
        assert AvroDeserializer(pair.client, record_class=type(value))(data, context) == value
    data = JSONSerializer(Item, pair.client)(item, VALUE)
    read = JSONDeserializer(None, None, pair.client, record_class=Item)
    assert read(data, VALUE) == item
    context = SerializationContext("bad", "value")
    bad = JSONSerializer("{}", pair.client)({"name": 1}, context)
    with pytest.raises(BadPayload, match="Item cannot be made: 2 validation errors"):
        read(bad, context)


def test_an_older_class_reads_newer_values(pair: Pair) -> None:
    data = AvroSerializer(pair.client, None)(Visit("/a", ["x"], "me"), VALUE)

    @dataclass
    class Visit_:  # noqa: N801 - it is another version of Visit
        page: str
        seen: bool = False

    Visit_.__name__ = "Visit"
    assert AvroDeserializer(pair.client, record_class=Visit_)(data, VALUE) == Visit_("/a", False)


def test_to_dict_and_from_dict(pair: Pair) -> None:
    serializer = AvroSerializer(pair.client, CLICK, lambda number, context: {"n": number})
    data = serializer(7, VALUE)
    read = AvroDeserializer(pair.client, None, lambda found, context: found["n"])
    assert read(data, VALUE) == 7


def test_a_class_without_a_schema_is_refused() -> None:
    @dataclass
    class Money:
        amount: Decimal

    with pytest.raises(BadSchema, match=r"Money.amount has no Avro type: it is Decimal without"):
        AvroSerializer(None, Money)

    @dataclass
    class Odd:
        of: complex

    with pytest.raises(BadSchema, match=r"Odd.of has no Avro type: it is complex"):
        AvroSerializer(None, Odd)


# What goes wrong


@pytest.mark.parametrize("data", [b"", b"\0\0\1", b"\1\2\3\4\5\6", b"{}"])
def test_what_is_not_framed_is_refused(pair: Pair, data: bytes) -> None:
    with pytest.raises(BadPayload, match="it was not framed"):
        AvroDeserializer(pair.client)(data, VALUE)


def test_a_header_that_names_no_schema_is_refused(pair: Pair) -> None:
    headers = [("__value_schema_id", b"\1\2\3")]
    with pytest.raises(BadPayload, match="header __value_schema_id is 01 02 03"):
        AvroDeserializer(pair.client)(b"x", SerializationContext("t", "value", headers))


def test_an_unknown_id(pair: Pair) -> None:
    for read in (
        AvroDeserializer(pair.client),
        JSONDeserializer(None, None, pair.client),
        ProtobufDeserializer(None, {}, pair.client),
    ):
        with pytest.raises(NotRegistered, match="was written with schema 9, which the registry"):
            read(b"\0\0\0\0\x09\0", VALUE)


def test_a_schema_of_another_format(pair: Pair) -> None:
    data = JSONSerializer("{}", pair.client)({}, VALUE)
    with pytest.raises(BadSchema, match="schema 1 has type JSON, and this deserializer reads AVRO"):
        AvroDeserializer(pair.client)(data, VALUE)
    with pytest.raises(BadSchema, match="schema 1 has type JSON, and this serializer writes AVRO"):
        AvroSerializer(pair.client, None, None, {"use.latest.version": True})({}, VALUE)


def test_a_value_that_does_not_fit_says_where(pair: Pair) -> None:
    write = AvroSerializer(pair.client, CLICK)
    with pytest.raises(BadPayload, match=r"shop.Click.n is 'x', not long"):
        write({"n": "x"}, VALUE)
    with pytest.raises(BadPayload, match="does not fit"):
        write({}, VALUE)
    with pytest.raises(BadPayload, match="does not fit its Avro schema: it ends too early"):
        AvroDeserializer(pair.client)(b"\0\0\0\0\1", VALUE)
    context = SerializationContext("j", "value")
    with pytest.raises(BadPayload, match=r'\$.n: "x" is not of type "integer"'):
        JSONSerializer('{"properties":{"n":{"type":"integer"}}}', pair.client)({"n": "x"}, context)
    with pytest.raises(BadPayload, match="cannot be JSON"):
        JSONSerializer("{}", pair.client)(float("nan"), context)


def test_the_registry_goes_away_and_comes_back(pair: Pair) -> None:
    write, read = AvroSerializer(pair.client, CLICK), AvroDeserializer(pair.client)
    pair.known.failures = [503, 503]
    with pytest.raises(RegistryUnreachable):
        write({"n": 1}, VALUE)
    data = write({"n": 1}, VALUE)
    pair.known.failures = [503, 503]
    with pytest.raises(RegistryUnreachable):
        read(data, VALUE)
    pair.known.failures = [503] * 100
    assert write({"n": 2}, VALUE) == b"\0\0\0\0\1\4"
    pair.known.failures = []
    assert read(data, VALUE) == {"n": 1}


def test_a_registry_without_guids(pair: Pair) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer}
    pair.known.has_guids = False
    with pytest.raises(RegistryFailed, match="gives schemas no GUID"):
        AvroSerializer(pair.client, CLICK, None, conf)({"n": 1}, VALUE)


def test_recursive_and_large_values(pair: Pair) -> None:
    tree = (
        '{"type":"record","name":"Tree","fields":'
        '[{"name":"left","type":["null","Tree"],"default":null}]}'
    )
    write = AvroSerializer(pair.client, tree)
    value: dict[str, Any] = {"left": None}
    for _ in range(50):
        value = {"left": value}
    assert AvroDeserializer(pair.client)(write(value, VALUE), VALUE) == value
    for _ in range(100_000):
        value = {"left": value}
    with pytest.raises(BadPayload, match="nested too deeply"):
        write(value, VALUE)
    # Such bytes would end the process in fastavro's compiled code.
    with pytest.raises(BadPayload, match="nested too deeply"):
        AvroDeserializer(pair.client)(b"\0\0\0\0\1" + b"\2" * 1_000_000, VALUE)
    while value["left"] is not None:  # Python would free it recursively.
        value = value["left"]
    big = SerializationContext("big", "value")
    text = "☃" * 5_000_000
    data = AvroSerializer(pair.client, '"string"')(text, big)
    assert AvroDeserializer(pair.client)(data, big) == text


def test_many_threads_share_a_serializer(pair: Pair) -> None:
    write, read = AvroSerializer(pair.client, CLICK), AvroDeserializer(pair.client)
    found: list[Any] = []

    def work(number: int) -> None:
        found.append(read(write({"n": number}, VALUE), VALUE)["n"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1000))
    assert len(pair.known.asked) == 2


def test_on_an_event_loop_nothing_blocks(pair: Pair) -> None:
    write = AvroSerializer(pair.client, CLICK).without_blocking()
    with pytest.raises(MustBlock) as waiting:
        write.serialize({"n": 1}, VALUE)
    assert not pair.known.asked
    pair.known.failures = [400]
    waiting.value.call()
    with pytest.raises(RegistryFailed, match="Schema not found"):
        write.serialize({"n": 1}, VALUE)
    with pytest.raises(MustBlock) as waiting:
        write.serialize({"n": 1}, VALUE)
    waiting.value.call()
    assert write.serialize({"n": 1}, VALUE) == b"\0\0\0\0\1\2"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        (
            {"auto.register.schema": True},
            "there is no setting auto.register.schema of a serializer",
        ),
        ({"auto.register.schemas": "maybe"}, "must be true or false"),
        ({"auto.register.schemas": True, "use.latest.version": True}, "cannot go with"),
        ({"use.latest.version": True, "use.schema.id": 1}, "not both"),
        ({"subject.name.strategy": "RecordStrategy"}, "must be TopicNameStrategy"),
        ({"rule.executors": "x"}, "rules of schemas are not executed"),
        ({"schema.id.serializer": len}, "must be header_schema_id_serializer or"),
    ],
)
def test_bad_settings(conf: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        AvroSerializer(None, CLICK, None, conf)


def test_bad_arguments() -> None:
    with pytest.raises(BadSchema, match="this is not an Avro schema"):
        AvroSerializer(None, "{")
    with pytest.raises(BadSetting, match="not a class that protoc generated"):
        ProtobufSerializer(dict)
    with pytest.raises(BadSetting, match="to_dict must be a function"):
        AvroSerializer(None, CLICK, 1)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"set schema.registry.url, or give a client"):
        AvroSerializer(None, CLICK)({"n": 1}, VALUE)
    with pytest.raises(BadSchema, match="there is no schema for a dict"):
        AvroSerializer(None)({"n": 1}, VALUE)


GENERATED = """{"type":"record","name":"Order","namespace":"shop","fields":[
  {"name":"id","type":"int"},
  {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
  {"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A","B"]}},
  {"name":"in","type":["null","string"],"default":null},
  {"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
  {"name":"item","type":{"type":"record","name":"Item","fields":[{"name":"n","type":"float"}]}}]}"""


@pytest.mark.parametrize("style", ["dataclass", "attrs", "pydantic"])
def test_generated_classes_are_records(pair: Pair, tmp_path: Path, style: str) -> None:
    from odradek.cli.main import main

    (tmp_path / "order.avsc").write_text(GENERATED)
    name = f"generated_{style}"
    out = tmp_path / f"{name}.py"
    file = str(tmp_path / "order.avsc")
    assert main(["schema", "generate", file, "--style", style, "--out", str(out)]) == 0
    specification = importlib.util.spec_from_file_location(name, out)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    at = datetime(2026, 11, 18, 1, 2, 3, 4000, tzinfo=UTC)
    plain = {
        "id": 1,
        "price": Decimal("2.50"),
        "kind": "B",
        "in": "x",
        "at": at,
        "item": {"n": 1.5},
    }
    context = SerializationContext(style, "value")
    data = AvroSerializer(pair.client, GENERATED)(plain, context)
    order = AvroDeserializer(pair.client, record_class=module.Order)(data, context)
    assert isinstance(order, module.Order)
    assert (order.kind, order.in_, order.at) == (module.Kind.B, "x", at)
    assert AvroSerializer(pair.client, GENERATED)(order, context) == data
