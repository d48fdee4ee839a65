"""The transforms of Kafka Connect, with the names and settings of its documentation."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type, struct
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.plugins import (
    PREDICATES,
    TRANSFORMS,
    TRANSFORMS_PACKAGE,
    make_predicate,
    make_transform,
)
from odradek.connect.records import Header, Record, SinkRecord

NAME = struct(Field("first", schemas.STRING), Field("last", schemas.OPTIONAL_STRING))
PERSON = struct(Field("id", schemas.INT32), Field("name", NAME), name="Person")
ADA = {"id": 1, "name": {"first": "Ada", "last": "Lovelace"}}
AT = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
AT_MS = 1_577_934_245_678


def value(schema: Schema | None, content: Any) -> Record:
    return Record("orders", key=None, value=content, value_schema=schema, timestamp_ms=AT_MS)


def apply(name: str, record: Record, **properties: str) -> Record:
    given = {key.replace("_", "."): text for key, text in properties.items()}
    changed = make_transform(name, given).apply(record)
    assert changed is not None
    return changed


def test_all_of_kafka_connects_transforms_are_there() -> None:
    names = {
        name.rpartition(".")[2].partition("$")[0]
        for name in TRANSFORMS
        if name.startswith(TRANSFORMS_PACKAGE)
    }
    assert len(names) == 16
    assert {name.rpartition(".")[2] for name in PREDICATES} == {
        "HasHeaderKey",
        "RecordIsTombstone",
        "TopicNameMatches",
    }


def test_cast() -> None:
    schema = struct(
        Field("a", schemas.STRING), Field("b", schemas.FLOAT64), Field("c", schemas.INT64)
    )
    changed = apply(
        "Cast$Value", value(schema, {"a": "12", "b": 1e7, "c": 300}), spec="a:int64,b:string,c:int8"
    )
    assert changed.value == {"a": 12, "b": "1.0E7", "c": 44}
    assert changed.value_schema == struct(
        Field("a", schemas.INT64), Field("b", schemas.STRING), Field("c", schemas.INT8)
    )
    assert apply(
        "Cast$Value", value(None, {"a": "true", "b": None}), spec="a:boolean,b:int8"
    ).value == {
        "a": True,
        "b": None,
    }
    whole = apply(
        "Cast$Key", replace(value(None, None), key="7", key_schema=schemas.STRING), spec="int32"
    )
    assert (whole.key, whole.key_schema) == (7, schemas.INT32)
    time = apply("Cast$Value", value(schemas.timestamp(), AT), spec="string")
    assert time.value == "2020-01-02T03:04:05.678Z"
    assert apply("Cast$Value", value(schemas.timestamp(), AT), spec="int64").value == AT_MS
    with pytest.raises(DataError, match="'x' cannot be cast to int8"):
        apply("Cast$Value", value(None, {"a": "x"}), spec="a:int8")
    with pytest.raises(InvalidConfig, match="is not one of the types"):
        apply("Cast$Value", value(None, {}), spec="a:int7")


def test_extract_field() -> None:
    changed = apply("ExtractField$Value", value(PERSON, ADA), field="name")
    assert (changed.value, changed.value_schema) == (ADA["name"], NAME)
    deep = apply(
        "ExtractField$Value", value(PERSON, ADA), field="name.first", field_syntax_version="V2"
    )
    assert (deep.value, deep.value_schema) == ("Ada", schemas.STRING)
    assert apply("ExtractField$Value", value(None, {"a.b": 1}), field="a.b").value == 1
    assert (
        apply(
            "ExtractField$Value",
            value(None, {"a.b": {"c": 2}}),
            field="`a.b`.c",
            field_syntax_version="V2",
        ).value
        == 2
    )
    assert apply("ExtractField$Value", value(None, None), field="a").value is None
    with pytest.raises(DataError, match="Unknown field: nope"):
        apply("ExtractField$Value", value(PERSON, ADA), field="nope")


def test_filter_drops() -> None:
    assert make_transform("Filter", {}).apply(value(None, 1)) is None


def test_flatten() -> None:
    changed = apply("Flatten$Value", value(PERSON, ADA), delimiter="_")
    assert changed.value == {"id": 1, "name_first": "Ada", "name_last": "Lovelace"}
    assert changed.value_schema == struct(
        Field("id", schemas.INT32),
        Field("name_first", schemas.STRING),
        Field("name_last", schemas.OPTIONAL_STRING),
        name="Person",
    )
    optional = struct(Field("in", replace(NAME, is_optional=True)))
    flat = apply("Flatten$Value", value(optional, {"in": None}))
    assert flat.value == {"in.first": None, "in.last": None}
    assert flat.value_schema is not None
    assert flat.value_schema.fields[0].schema.is_optional
    assert apply("Flatten$Value", value(None, {"a": {"b": 1}, "c": [1]})).value == {
        "a.b": 1,
        "c": [1],
    }


def test_headers() -> None:
    moved = apply(
        "HeaderFrom$Value", value(PERSON, ADA), fields="id", headers="who", operation="move"
    )
    assert moved.headers == (Header("who", schemas.INT32, 1),)
    assert moved.value == {"name": ADA["name"]}
    inserted = apply("InsertHeader", moved, header="n", value_literal="12")
    assert inserted.headers[1] == Header("n", schemas.INT8, 12)
    assert apply("DropHeaders", inserted, headers="who,other").headers == inserted.headers[1:]
    with pytest.raises(InvalidConfig, match="`fields` has 2 names and `headers` 1"):
        apply("HeaderFrom$Value", moved, fields="a,b", headers="x", operation="copy")


def test_hoist_field() -> None:
    changed = apply(
        "HoistField$Key", replace(value(None, None), key=5, key_schema=schemas.INT32), field="id"
    )
    assert (changed.key, changed.key_schema) == ({"id": 5}, struct(Field("id", schemas.INT32)))
    assert apply("HoistField$Value", value(None, 5), field="line").value == {"line": 5}


def test_insert_field() -> None:
    record = SinkRecord(
        "orders", value=ADA, value_schema=PERSON, partition=3, timestamp_ms=AT_MS, offset=9
    )
    changed = apply(
        "InsertField$Value",
        record,
        topic_field="topic!",
        partition_field="partition",
        offset_field="offset?",
        timestamp_field="at",
        static_field="from",
        static_value="shop",
    )
    assert changed.value == {
        **ADA,
        "topic": "orders",
        "partition": 3,
        "offset": 9,
        "at": AT,
        "from": "shop",
    }
    assert changed.value_schema is not None
    assert changed.value_schema.fields[2:] == (
        Field("topic", schemas.STRING),
        Field("partition", schemas.INT32.optional()),
        Field("offset", schemas.INT64.optional()),
        Field("at", schemas.timestamp(is_optional=True)),
        Field("from", schemas.OPTIONAL_STRING),
    )
    plain = apply("InsertField$Value", value(None, {"a": 1}), timestamp_field="at")
    assert plain.value == {"a": 1, "at": AT_MS}
    assert apply("InsertField$Value", value(PERSON, None), topic_field="t").value is None
    with pytest.raises(DataError, match="only the records of a sink have an offset"):
        apply("InsertField$Value", value(None, {}), offset_field="o")


def test_mask_field() -> None:
    schema = struct(
        Field("a", schemas.STRING), Field("b", schemas.INT32), Field("c", schemas.decimal(2))
    )
    content = {"a": "secret", "b": 7, "c": Decimal("1.50")}
    assert apply("MaskField$Value", value(schema, content), fields="a,b,c").value == {
        "a": "",
        "b": 0,
        "c": Decimal("0.00"),
    }
    assert (
        apply("MaskField$Value", value(schema, content), fields="a", replacement="***").value["a"]
        == "***"
    )
    assert (
        apply("MaskField$Value", value(schema, content), fields="b", replacement="42").value["b"]
        == 42
    )
    with pytest.raises(DataError, match="'x' is no int"):
        apply("MaskField$Value", value(schema, content), fields="b", replacement="x")


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        ("or(.*)", "new-$1", "new-ders"),
        ("(?<begin>or).*", "${begin}x", "orx"),
        ("nothing", "x", "orders"),
        (".*", r"a\$b", "a$b"),
        (r"\p{Alpha}+", "letters", "letters"),
        ("(o)(r).*", "$2$11", "ro1"),
    ],
)
def test_regex_router(regex: str, replacement: str, topic: str) -> None:
    assert apply("RegexRouter", value(None, 1), regex=regex, replacement=replacement).topic == topic


def test_replace_field() -> None:
    changed = apply("ReplaceField$Value", value(PERSON, ADA), exclude="name", renames="id:number")
    assert changed.value == {"number": 1}
    assert changed.value_schema == struct(Field("number", schemas.INT32), name="Person")
    assert apply("ReplaceField$Value", value(None, {"a": 1, "b": 2}), include="b").value == {"b": 2}
    with pytest.raises(InvalidConfig, match="'a' is not like old:new"):
        apply("ReplaceField$Value", value(None, {}), renames="a")


def test_set_schema_metadata() -> None:
    changed = apply(
        "SetSchemaMetadata$Value", value(PERSON, ADA), schema_name="P", schema_version="2"
    )
    assert changed.value_schema == replace(PERSON, name="P", version=2)
    with pytest.raises(DataError, match="needs a schema"):
        apply("SetSchemaMetadata$Value", value(None, {}), schema_name="P")


@pytest.mark.parametrize(
    ("properties", "given", "expected"),
    [
        (
            {"target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSSX"},
            AT,
            "2020-01-02T03:04:05.678Z",
        ),
        (
            {"target.type": "string", "format": "d.M.yy h:mm a, EEEE"},
            AT,
            "2.1.20 3:04 AM, Thursday",
        ),
        ({"target.type": "unix"}, AT, AT_MS),
        ({"target.type": "unix", "unix.precision": "seconds"}, AT, AT_MS // 1000),
        ({"target.type": "unix", "unix.precision": "nanoseconds"}, AT, AT_MS * 1_000_000),
        ({"target.type": "Date"}, AT_MS, date(2020, 1, 2)),
        ({"target.type": "Timestamp"}, AT_MS, AT),
        (
            {"target.type": "Timestamp", "unix.precision": "seconds"},
            1_577_934_245,
            AT.replace(microsecond=0),
        ),
        (
            {"target.type": "Timestamp", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
            "2020-01-02 03:04:05.678",
            AT,
        ),
        (
            {"target.type": "Timestamp", "format": "yyyyMMddHHmmss Z"},
            "20200102050405 +0200",
            AT.replace(microsecond=0),
        ),
        ({"target.type": "Date", "format": "dd MMM yyyy"}, "02 Jan 2020", date(2020, 1, 2)),
    ],
)
def test_timestamp_converter(properties: dict[str, str], given: Any, expected: Any) -> None:
    transform = make_transform("TimestampConverter$Value", properties)
    changed = transform.apply(value(None, given))
    assert changed is not None
    assert changed.value == expected


def test_timestamp_converter_of_a_field() -> None:
    schema = struct(Field("at", schemas.INT64.optional()))
    properties = {"field": "at", "target.type": "Timestamp"}
    changed = make_transform("TimestampConverter$Value", properties).apply(
        value(schema, {"at": AT_MS})
    )
    assert changed is not None
    assert changed.value == {"at": AT}
    assert changed.value_schema == struct(Field("at", schemas.timestamp(is_optional=True)))
    with pytest.raises(InvalidConfig, match=r"it is needed for target\.type=string"):
        make_transform("TimestampConverter$Value", {"target.type": "string"})
    with pytest.raises(InvalidConfig, match="is not a part of a time"):
        make_transform("TimestampConverter$Value", {"target.type": "string", "format": "q"})
    reader = make_transform("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy"})
    with pytest.raises(DataError, match="Unparseable date"):
        reader.apply(value(None, "soon"))


def test_timestamp_router() -> None:
    assert apply("TimestampRouter", value(None, 1)).topic == "orders-20200102"
    with pytest.raises(DataError, match="Timestamp missing"):
        apply("TimestampRouter", Record("t"))


def test_value_to_key() -> None:
    changed = apply("ValueToKey", value(PERSON, ADA), fields="id")
    assert (changed.key, changed.key_schema) == ({"id": 1}, struct(Field("id", schemas.INT32)))
    assert apply("ValueToKey", value(None, {"a": 1}), fields="a,b").key == {"a": 1, "b": None}
    with pytest.raises(DataError, match="Field does not exist: no"):
        apply("ValueToKey", value(PERSON, ADA), fields="no")


def test_predicates() -> None:
    tombstone = Record("orders", headers=(Header("h", None, 1),))
    assert make_predicate("RecordIsTombstone", {}).test(tombstone)
    assert make_predicate("HasHeaderKey", {"name": "h"}).test(tombstone)
    assert not make_predicate("HasHeaderKey", {"name": "i"}).test(tombstone)
    assert make_predicate("TopicNameMatches", {"pattern": "ord.*"}).test(tombstone)
    assert not make_predicate("TopicNameMatches", {"pattern": "ord"}).test(tombstone)
    with pytest.raises(InvalidConfig, match="not a regular expression"):
        make_predicate("TopicNameMatches", {"pattern": "["})


@pytest.mark.parametrize(
    ("name", "properties", "line"),
    [
        (
            "HoistField$Value",
            {},
            'Missing required configuration "field" which has no default value.',
        ),
        ("org.apache.kafka.connect.transforms.Hoist$Value", {}, "did you mean"),
        ("MaskField$Value", {"fields": "a", "replacement": ""}, "Invalid value"),
        (
            "HeaderFrom$Value",
            {"fields": "a", "headers": "b", "operation": "steal"},
            "Invalid value steal",
        ),
    ],
)
def test_wrong_settings_are_told(name: str, properties: dict[str, str | None], line: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        make_transform(name, properties)
    assert line.lower() in str(raised.value).lower()


def test_defaults_of_schemas_stand_for_null() -> None:
    schema = struct(Field("a", Schema(Type.INT32, is_optional=True, default=5)))
    assert apply("ReplaceField$Value", value(schema, {"a": None})).value == {"a": 5}
    kept = apply(
        "ReplaceField$Value", value(schema, {"a": None}), replace_null_with_default="false"
    )
    assert kept.value == {"a": None}
