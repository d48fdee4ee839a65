"""Formats with a schema registry: schemas as ksqlDB registers them, rows both ways, columns that
come from the registry."""

# ruff: noqa: E501 - a case is a line

import json
from decimal import Decimal
from typing import Any

import pytest

from odradek.client.producer.murmur2 import murmur2
from odradek.schemas import framing
from odradek.schemas.avro import AvroCodec
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.engine.definitions import Defaults, define
from odradek.sql.engine.persistent import prepare
from odradek.sql.errors import SqlError
from odradek.sql.formats.catalogue import Formats
from odradek.sql.formats.memory import MemoryRegistry
from odradek.sql.formats.printing import Shown
from odradek.sql.language.parser import parse
from odradek.sql.planning.sources import Format
from odradek.sql.testing import SqlTester
from odradek.streams.formats.columns import BadRow
from odradek.streams.plan.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    Column,
    DecimalType,
    MapType,
    StructType,
)
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord
from odradek.world.blocking_calls import MustBlock, blocking
from tests.unit.schemas.registries import registry

_COLUMNS = (
    Column("I", INTEGER), Column("L", BIGINT), Column("D", DOUBLE), Column("S", STRING),
    Column("O", BOOLEAN), Column("Y", BYTES), Column("E", DecimalType(6, 2)), Column("DA", DATE),
    Column("TI", TIME), Column("TS", TIMESTAMP), Column("A", ArrayType(STRING)),
    Column("M", MapType(STRING, BIGINT)),
    Column("R", StructType((("X", INTEGER), ("q", ArrayType(DecimalType(4, 1)))))),
)  # fmt: skip
_ROW = (
    1, 1 << 40, 0.5, "é", True, b"\x00\xff", Decimal("-12.50"), 19_782, 43_200_500,
    1_709_208_000_500, ["a", "b"], {"k": 2}, {"X": 3, "q": [Decimal("1.5")]},
)  # fmt: skip


def _codec(form: Format, columns: Any = _COLUMNS, is_key: bool = False) -> Any:
    return Formats(MemoryRegistry()).make(form, tuple(columns), is_key, "t")


@pytest.mark.parametrize(
    "form",
    [
        Format("AVRO"), Format("JSON_SR"), Format("PROTOBUF"), Format("PROTOBUF_NOSR"),
        Format("PROTOBUF", nullable="WRAPPER"), Format("PROTOBUF", nullable="OPTIONAL"),
        Format("PROTOBUF", full_name="a.b.Row"), Format("AVRO", full_name="a.b.Row"),
    ],
    ids=str,
)  # fmt: skip
def test_rows_survive(form: Format) -> None:
    codec = _codec(form)
    assert blocking(codec.decode, blocking(codec.encode, _ROW)) == _ROW
    assert codec.decode(None) is None
    assert codec.encode(None) is None


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR"])
def test_nulls_survive(name: str) -> None:
    codec = _codec(Format(name))
    nothing = (None,) * len(_COLUMNS)
    assert blocking(codec.decode, blocking(codec.encode, nothing)) == nothing


def test_nulls_are_defaults_in_protobuf() -> None:
    codec = _codec(Format("PROTOBUF"))
    row = blocking(codec.decode, blocking(codec.encode, (None,) * len(_COLUMNS)))
    assert row == (0, 0, 0.0, "", False, b"", None, None, None, None, [], {}, None)
    wrapped = _codec(Format("PROTOBUF", nullable="WRAPPER"), _COLUMNS[:6])
    assert blocking(wrapped.decode, blocking(wrapped.encode, (None,) * 6)) == (None,) * 6


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR"])
@pytest.mark.parametrize("column", [*range(len(_COLUMNS))])
def test_single_values_without_a_record(name: str, column: int) -> None:
    codec = _codec(Format(name, is_wrapped=False), [_COLUMNS[column]])
    row = (_ROW[column],)
    assert blocking(codec.decode, blocking(codec.encode, row)) == row
    assert codec.encode((None,)) is None
    keys = _codec(Format(name), [_COLUMNS[column]], is_key=True)
    assert blocking(keys.decode, blocking(keys.encode, row)) == row


def _text(formats: Formats, topic: str, is_key: bool = False) -> str:
    registry = formats.registry
    assert registry is not None
    return registry.latest(f"{topic}-{'key' if is_key else 'value'}").schema.text


def test_avro_schema_is_that_of_ksqldb() -> None:
    formats = Formats(MemoryRegistry())
    columns = (
        Column("ID", BIGINT), Column("E", DecimalType(4, 2)), Column("M", MapType(STRING, INTEGER)),
        Column("R", StructType((("F", DATE),))),
    )  # fmt: skip
    codec: Any = formats.make(Format("AVRO"), columns, False, "t")
    codec.prepare()
    space = "io.confluent.ksql.avro_schemas"
    connect = "org.apache.kafka.connect.data"
    decimal = {
        "type": "bytes", "scale": 2, "precision": 4, "connect.version": 1,
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "4"},
        "connect.name": f"{connect}.Decimal", "logicalType": "decimal",
    }  # fmt: skip
    entry = {
        "type": "record", "name": "KsqlDataSourceSchema_M", "fields": [
            {"name": "key", "type": ["null", "string"], "default": None},
            {"name": "value", "type": ["null", "int"], "default": None},
        ], "connect.internal.type": "MapEntry",
    }  # fmt: skip
    struct = {
        "type": "record", "name": "KsqlDataSourceSchema_R", "fields": [
            {"name": "F", "type": ["null", {
                "type": "int", "connect.version": 1, "connect.name": f"{connect}.Date",
                "logicalType": "date",
            }], "default": None},
        ], "connect.name": f"{space}.KsqlDataSourceSchema_R",
    }  # fmt: skip
    array = {
        "type": "array", "items": entry, "connect.name": f"{space}.KsqlDataSourceSchema_M",
    }  # fmt: skip
    assert json.loads(_text(formats, "t")) == {
        "type": "record", "name": "KsqlDataSourceSchema", "namespace": space, "fields": [
            {"name": "ID", "type": ["null", "long"], "default": None},
            {"name": "E", "type": ["null", decimal], "default": None},
            {"name": "M", "type": ["null", array], "default": None},
            {"name": "R", "type": ["null", struct], "default": None},
        ], "connect.name": f"{space}.KsqlDataSourceSchema",
    }  # fmt: skip


def test_values_of_other_writers() -> None:
    """Names match in capitals, narrower numbers are read, missing fields are null."""
    formats = Formats(MemoryRegistry())
    assert formats.registry is not None
    text = json.dumps({
        "type": "record", "name": "Click", "fields": [
            {"name": "l", "type": "int"}, {"name": "D", "type": "float"},
            {"name": "s", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
            {"name": "other", "type": "string"}, {"name": "I", "type": ["null", "int"]},
            {"name": "m", "type": {"type": "map", "values": "long"}},
        ],
    })  # fmt: skip
    schema_id = formats.registry.register("t-value", "AVRO", text)
    value = {"l": 7, "D": 1.5, "s": "RED", "other": "x", "I": None, "m": {"k": 2}}
    data = framing.frame(schema_id, AvroCodec(text).encode(value))
    codec: Any = formats.make(Format("AVRO"), _COLUMNS, False, "t")
    read = dict(
        zip((column.name for column in _COLUMNS), blocking(codec.decode, data), strict=True)
    )
    found = {name: one for name, one in read.items() if one is not None}
    assert found == {"L": 7, "D": 1.5, "S": "RED", "M": {"k": 2}}
    narrow: Any = formats.make(Format("AVRO"), (Column("S", INTEGER),), False, "t")
    with pytest.raises(BadRow, match="Cannot deserialize type string as type INTEGER for path"):
        blocking(narrow.decode, data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01\x00\x00\x00\x01x", b"\x00\x00\x00\x00\x09x"])
@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_bytes_that_are_no_rows(name: str, data: bytes) -> None:
    codec = _codec(Format(name))
    with pytest.raises(BadRow):
        blocking(codec.decode, data)


def test_an_event_loop_is_not_held_up() -> None:
    codec = _codec(Format("AVRO"))
    with pytest.raises(MustBlock):
        codec.encode(_ROW)
    codec.prepare()
    data = codec.encode(_ROW)
    with pytest.raises(MustBlock) as waiting:
        codec.decode(data)
    waiting.value.call()
    assert codec.decode(data) == _ROW


# Statements

_SOURCE = """
CREATE STREAM s (id INT KEY, `name` STRING, total DECIMAL(4, 2)) WITH (
  kafka_topic='s', format='AVRO', partitions=1);
INSERT INTO s VALUES (1, 'a', 1.5);
"""


def test_columns_come_from_the_registry() -> None:
    tester = SqlTester()
    tester.run(_SOURCE)
    tester.run("CREATE STREAM all_of_it WITH (kafka_topic='s', format='AVRO');")
    schema = tester.catalogue.sources["ALL_OF_IT"].schema
    assert str(schema) == "`ROWKEY` INTEGER KEY, `NAME` STRING, `TOTAL` DECIMAL(4, 2)"
    assert tester.rows("ALL_OF_IT")[0][0]["NAME"] == "a"
    tester.run("CREATE TABLE part (id INT PRIMARY KEY) WITH (kafka_topic='s', key_format='AVRO',"
               " value_format='AVRO');")  # fmt: skip
    assert str(tester.catalogue.sources["PART"].schema).startswith("`ID` INTEGER KEY, `NAME`")
    tester.run(
        "CREATE STREAM by_id WITH (kafka_topic='s', value_format='AVRO', value_schema_id=2);"
    )
    assert str(tester.catalogue.sources["BY_ID"].schema) == "`name` STRING, `TOTAL` DECIMAL(4, 2)"
    # What goes to other servers says the columns.
    again = parse(tester.catalogue.sources["BY_ID"].text)
    source, _ = define(again, Defaults(formats=Formats(MemoryRegistry())))  # type: ignore[arg-type]
    assert source.schema == tester.catalogue.sources["BY_ID"].schema


def test_schemas_go_with_their_topic() -> None:
    tester = SqlTester()
    tester.run(
        _SOURCE + "CREATE STREAM o AS SELECT * FROM s; DROP STREAM o; DROP STREAM s DELETE TOPIC;"
    )
    registry: Any = tester.defaults.formats.registry
    assert registry.subjects() == ["O-key", "O-value"]
    with pytest.raises(SqlError, match="Schema for message keys on topic 's' does not exist"):
        tester.run("CREATE STREAM again WITH (kafka_topic='s', format='AVRO');")


def test_what_queries_write_is_registered() -> None:
    tester = SqlTester()
    tester.run(_SOURCE + "CREATE STREAM my_sink AS SELECT * FROM s;")
    formats = tester._defaults.formats
    assert json.loads(_text(formats, "MY_SINK"))["name"] == "KsqlDataSourceSchema"
    assert _text(formats, "MY_SINK", is_key=True) == '"int"'
    tester.run("CREATE STREAM two AS SELECT id, `name`, total FROM s PARTITION BY id, `name`;")
    key = json.loads(_text(formats, "TWO", is_key=True))
    assert (key["name"], key["namespace"]) == ("TwoKey", "io.confluent.ksql.avro_schemas")
    tester.run("CREATE STREAM named WITH (value_schema_full_name='com.acme.Row') AS"
               " SELECT * FROM s;")  # fmt: skip
    named = json.loads(_text(formats, "NAMED"))
    assert (named["name"], named["namespace"]) == ("Row", "com.acme")


def test_rows_are_written_with_the_schema_of_an_id() -> None:
    tester = SqlTester()
    tester.run(_SOURCE)
    registry: Any = tester._defaults.formats.registry
    text = json.dumps({
        "type": "record", "name": "Given", "fields": [
            {"name": "TOTAL", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4,
                                       "scale": 2, "connect.decimal.precision": "4"}},
            {"name": "extra", "type": "string", "default": "none"},
        ],
    })  # fmt: skip
    schema_id = registry.register("given", "AVRO", text)
    tester.run(
        f"CREATE STREAM o WITH (value_format='AVRO', value_schema_id={schema_id}) AS"
        " SELECT id, CAST(total AS DECIMAL(4, 2)) AS total FROM s;"
    )
    (record,) = tester.topics["O"]
    assert record.value is not None
    assert framing.unframe_id(record.value) == schema_id
    written = AvroCodec(text).decode(record.value, framing.HEADER_SIZE)
    assert written == {"TOTAL": Decimal("1.50"), "extra": "none"}


_PARTS = {
    "AVRO": (
        "shop.Item",
        (
            '{"type": "record", "name": "Item", "namespace": "shop", "fields": ['
            '{"name": "SKU", "type": "string"}]}'
        ),
        (
            '{"type": "record", "name": "Order", "namespace": "shop", "fields": ['
            '{"name": "ITEM", "type": "shop.Item"}, {"name": "N", "type": "int"}]}'
        ),
    ),
    "PROTOBUF": (
        "item.proto",
        'syntax = "proto3"; package shop; message Item { string SKU = 1; }',
        (
            'syntax = "proto3"; package shop; import "item.proto";'
            " message Order { Item ITEM = 1; int32 N = 2; }"
        ),
    ),
    "JSON": (
        "item.json",
        '{"type": "object", "properties": {"SKU": {"type": "string"}}}',
        (
            '{"type": "object", "properties": {"ITEM": {"$ref": "item.json"},'
            ' "N": {"type": "integer", "connect.type": "int32"}}}'
        ),
    ),
}


@pytest.mark.parametrize("kind", _PARTS)
def test_schemas_with_references_are_written(kind: str) -> None:
    name, part, whole = _PARTS[kind]
    form = "JSON_SR" if kind == "JSON" else kind
    named: dict[str, object] = {} if kind == "AVRO" else {"schemaType": kind}
    with registry() as known:
        known.add("item", {"schema": part, **named})
        reference = {"name": name, "subject": "item", "version": 1}
        schema_id = known.add("order", {"schema": whole, **named, "references": [reference]})
        client = RegistryClient({"schema.registry.url": known.url})
        tester = SqlTester(Defaults(formats=Formats(client)))
        given = f"value_format='{form}', value_schema_id={schema_id}, partitions=1"
        tester.run(
            f"CREATE STREAM s WITH (kafka_topic='s', {given});"
            f"CREATE STREAM o WITH ({given}) AS SELECT item, n FROM s;"
            "INSERT INTO s (item, n) VALUES (STRUCT(sku := 'a'), 3);"
        )
        (record,) = tester.topics["O"]
        assert record.value is not None
        assert framing.unframe_id(record.value) == schema_id
        assert tester.rows("O")[0][0] == {"ROWTIME": 0, "ITEM": {"SKU": "a"}, "N": 3}
        assert known.subjects["O-value"] == [schema_id]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE STREAM o WITH (kafka_topic='x', value_format='AVRO');", "on topic 'x' does not exist"),
        ("CREATE STREAM o WITH (kafka_topic='s', value_format='JSON_SR');", "set VALUE_FORMAT to 'AVRO'"),
        ("CREATE STREAM o (x INT) WITH (kafka_topic='s', value_format='AVRO', value_schema_id=1);", "Table elements and VALUE_SCHEMA_ID cannot both exist"),
        ("CREATE STREAM o WITH (kafka_topic='s', value_format='JSON', value_schema_id=1);", "JSON does not support the following configs: [schemaId]"),
        ("CREATE STREAM o WITH (value_format='AVRO', value_schema_id=2) AS SELECT id, 1 AS x FROM s;", "changed, missing or reordered: [`X` INTEGER]"),
        ("CREATE STREAM o (`a b` INT) WITH (value_format='AVRO');", "not compatible with Avro"),
        ("CREATE STREAM o (m MAP<INT, INT>) WITH (value_format='AVRO');", "MAPs with STRING keys"),
        ("CREATE STREAM o (x INT) WITH (value_format='PROTOBUF', wrap_single_value=false);", "does not support 'WRAP_SINGLE_VALUE' set to 'false'"),
        ("CREATE STREAM o (x INT) WITH (value_format='DELIMITED', wrap_single_value=true);", "does not support 'WRAP_SINGLE_VALUE' set to 'true'"),
        ("CREATE STREAM o (x INT, y INT) WITH (value_format='JSON', wrap_single_value=false);", "only valid for single-field value schemas"),
        ("CREATE STREAM o (x INT) WITH (value_format='AVRO', value_protobuf_nullable_representation='WRAPPER');", "only be enabled with protobuf"),
        ("CREATE STREAM o (x ARRAY<ARRAY<INT>>) WITH (value_format='PROTOBUF');", "Protobuf has no arrays of arrays"),
        ("CREATE STREAM o (x INT) WITH (value_format='AVROO');", "Unknown format: AVROO; did you mean AVRO"),
    ],
)  # fmt: skip
def test_refusals(statement: str, reason: str) -> None:
    tester = SqlTester()
    tester.run(_SOURCE)
    with pytest.raises(SqlError) as caught:
        tester.run(statement)
    assert reason in str(caught.value)


def test_registry_is_needed() -> None:
    tester = SqlTester(Defaults())
    with pytest.raises(SqlError, match=r"without configuring 'ksql.schema.registry.url'"):
        tester.run("CREATE STREAM o (x INT) WITH (value_format='AVRO', kafka_topic='o');")


def test_records_that_cannot_be_read_are_skipped() -> None:
    tester = SqlTester()
    tester.run(_SOURCE + "CREATE STREAM o AS SELECT * FROM s;")
    tester.append("s", None, b"no frame", 0)
    tester.run("INSERT INTO s VALUES (2, 'b', 2);")
    assert [row["ID"] for row, _ in tester.rows("O")] == [1, 2]
    assert any("was not framed" in note for note in tester.notes)


class _Written:
    def __init__(self) -> None:
        self.records: list[OutputRecord] = []

    def write(self, record: OutputRecord) -> None:
        self.records.append(record)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        pass


def test_keys_with_other_schemas_are_joined() -> None:
    """Equal keys have other bytes in each topic, and so are in other partitions of it."""
    tester = SqlTester()
    tester.run(
        "CREATE STREAM a (id STRING KEY, x INT) WITH (kafka_topic='a', format='AVRO');"
        "CREATE TABLE b (id STRING PRIMARY KEY, y INT) WITH (kafka_topic='b', format='JSON_SR');"
    )
    prepared = prepare(
        parse("CREATE STREAM o AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id;"),  # type: ignore[arg-type]
        tester.catalogue, tester._defaults, reset="earliest",
    )  # fmt: skip
    written = _Written()
    executor = Executor(prepared.plan, {"a": 4, "b": 4, "O": 4}, written)
    make = tester._defaults.make
    for topic, name in (("b", "B"), ("a", "A")):
        source = tester.catalogue.sources[name]
        keys = make(source.key_format, source.schema.key, True, topic)
        values = make(source.value_format, source.topic_columns, False, topic)
        for number in range(20):
            key = blocking(keys.encode, (f"k{number}",))
            value = blocking(values.encode, (number,))
            partition = (murmur2(key) & 0x7FFFFFFF) % 4
            blocking(executor.deliver, InputRecord(topic, partition, number, number, key, value))
    assert len(written.records) == 20


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF"])
async def test_values_are_printed(name: str) -> None:
    formats = Formats(MemoryRegistry())
    codec: Any = formats.make(Format(name), _COLUMNS[:4], False, "t")
    data = blocking(codec.encode, _ROW[:4])
    shown = Shown(formats.registry, "value")
    assert await shown.text(data) == '{"I":1,"L":1099511627776,"D":0.5,"S":"é"}'
    for other in (b"plain", data[:7], b"\x00\x00\x00\x00\x63x"):
        assert await shown.text(other) is None
    assert await Shown(None, "value").text(data) is None
