"""JSON as Kafka Connect writes it. The expected lines were written by JsonConverter's rules."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type, array, map_of, struct
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.plugins import make_converter

ORDER = struct(
    Field("id", schemas.INT32),
    Field("note", schemas.OPTIONAL_STRING),
    Field("price", schemas.decimal(2)),
    Field("at", schemas.timestamp()),
    name="shop.Order",
)
AT = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def payload(schema: Schema, value: Any, **settings: Any) -> str:
    written = JsonConverter(has_schemas=False, **settings).from_connect("t", schema, value)
    assert written is not None
    return written.decode()


def test_the_schema_stands_beside_the_value() -> None:
    value = {"id": 1, "note": None, "price": Decimal("1.10"), "at": AT}
    written = JsonConverter().from_connect("t", ORDER, value)
    assert written is not None
    assert written.decode() == (
        '{"schema":{"type":"struct","fields":['
        '{"type":"int32","optional":false,"field":"id"},'
        '{"type":"string","optional":true,"field":"note"},'
        '{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal",'
        '"version":1,"parameters":{"scale":"2"},"field":"price"},'
        '{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp",'
        '"version":1,"field":"at"}],"optional":false,"name":"shop.Order"},'
        '"payload":{"id":1,"note":null,"price":"bg==","at":1577934245678}}'
    )
    assert JsonConverter().to_connect("t", written) == (ORDER, value)


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (schemas.FLOAT64, 1.0, "1.0"),
        (schemas.FLOAT64, 1e7, "1.0E7"),
        (schemas.FLOAT64, 0.0001, "1.0E-4"),
        (schemas.FLOAT64, 123456.789, "123456.789"),
        (schemas.FLOAT64, -0.0, "-0.0"),
        (schemas.FLOAT64, float("nan"), '"NaN"'),
        (schemas.FLOAT32, 0.1, "0.1"),
        (schemas.FLOAT32, 16777216.0, "1.6777216E7"),
        (schemas.BOOLEAN, True, "true"),
        (schemas.STRING, 'é "\\\n\x01😀', '"é \\"\\\\\\n\\u0001\\uD83D\\uDE00"'),
        (schemas.BYTES, b"\x00\xff", '"AP8="'),
        (schemas.date(), date(1970, 1, 3), "2"),
        (schemas.time(), time(0, 0, 1, 5000), "1005"),
        (array(schemas.INT8), [1, 2], "[1,2]"),
        (map_of(schemas.STRING, schemas.INT32), {"a": 1}, '{"a":1}'),
        (map_of(schemas.INT32, schemas.BOOLEAN), {1: True}, "[[1,true]]"),
        (schemas.decimal(3), Decimal("-12.345"), '"z8c="'),
    ],
)
def test_values_are_written_as_java_writes_them(schema: Schema, value: Any, written: str) -> None:
    assert payload(schema, value) == written


def test_decimals_may_be_numbers() -> None:
    schema = schemas.decimal(2)
    assert payload(schema, Decimal("1.10"), decimal_format="numeric") == "1.10"
    line = (
        b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
        b'"parameters":{"scale":"2"}},"payload":1.1}'
    )
    assert JsonConverter().to_connect("t", line).value == Decimal("1.10")


def test_a_default_stands_for_null() -> None:
    with_default = Schema(Type.INT32, is_optional=True, default=7)
    schema = struct(Field("a", with_default))
    assert payload(schema, {"a": None}) == '{"a":7}'
    assert payload(schema, {"a": None}, replaces_null=False) == '{"a":null}'
    written = JsonConverter().from_connect("t", schema, {"a": None})
    assert written is not None
    assert json.loads(written)["schema"]["fields"][0]["default"] == 7
    assert JsonConverter().to_connect("t", written).schema == schema


def test_null_without_a_schema_is_no_bytes() -> None:
    converter = JsonConverter()
    assert converter.from_connect("t", None, None) is None
    assert converter.to_connect("t", None) == (None, None)


def test_values_without_schemas_are_plain_json() -> None:
    converter = JsonConverter(has_schemas=False)
    value = {"a": [1, 2.5, None, {"b": True}], "c": "x"}
    written = converter.from_connect("t", None, value)
    assert written == b'{"a":[1,2.5,null,{"b":true}],"c":"x"}'
    assert converter.to_connect("t", written) == (None, value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "this is not JSON"),
        (b'{"a":1}', "set schemas.enable=false"),
        (b'{"schema":{"type":"int33"},"payload":1}', "'int33' is not a type of a schema"),
        (b'{"schema":{"type":"int8"},"payload":300}', "300, which is no int8"),
        (b'{"schema":{"type":"int32"},"payload":null}', "null where the schema allows none"),
        (b'{"schema":{"type":"int32"},"payload":1.5}', "int32 is needed"),
        (b'{"schema":{"type":"bytes"},"payload":"%"}', "bytes are Base64"),
        (b'{"schema":{"type":"array"},"payload":[]}', "lacks 'items'"),
        (b'{"schema":{"type":"struct","fields":[{}]},"payload":{}}', "needs its name as `field`"),
        (b"[" * 100_000, "this is not JSON"),
    ],
)
def test_what_cannot_be_read_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason.replace("(", r"\(")):
        JsonConverter().to_connect("t", line)


def test_values_that_do_not_fit_their_schema_are_refused() -> None:
    converter = JsonConverter()
    for schema, value in [
        (schemas.INT8, 300),
        (schemas.INT32, "1"),
        (schemas.STRING, 1),
        (schemas.STRING, None),
        (schemas.decimal(2), Decimal("1.1")),
        (schemas.timestamp(), 5),
    ]:
        with pytest.raises(DataError):
            converter.from_connect("t", schema, value)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_plain_values_come_back(value: Any) -> None:
    converter = JsonConverter(has_schemas=False)
    written = converter.from_connect("t", None, value)
    assert converter.to_connect("t", written).value == value


numbers = st.floats(allow_nan=False)


@given(numbers)
def test_numbers_keep_their_value(number: float) -> None:
    text = payload(schemas.FLOAT64, number).strip('"')
    assert float(text) == number


def test_a_schema_may_stand_in_the_settings() -> None:
    content = '{"type":"struct","fields":[{"type":"int32","field":"a","optional":true}]}'
    converter = make_converter(
        "JsonConverter", {"schema.content": content, "schemas.cache.size": "1"}
    )
    schema, value = converter.to_connect("t", b'{"a":5}')
    assert value == {"a": 5}
    assert schema is not None
    assert schema.fields[0].name == "a"
    # What is written has its schema beside it, as always.
    assert b'"schema":' in (converter.from_connect("t", schema, value) or b"")
    for wrong in ("{", '{"type":"int"}'):
        with pytest.raises(InvalidConfig, match=r"schema\.content"):
            make_converter("JsonConverter", {"schema.content": wrong})


def test_records_that_begin_alike_are_read_alike() -> None:
    """The schema of a record is recognised by the first bytes; what follows is read as ever."""
    begin = b'{"schema": {"type": "int32", "optional": true} , "payload" :'
    for rest, value in [(b"1}", 1), (b" 2 }", 2), (b"null}", None), (b"3}\n", 3)]:
        again, fresh = JsonConverter(), JsonConverter()
        again.to_connect("t", begin + b"0}")
        assert again.to_connect("t", begin + rest) == fresh.to_connect("t", begin + rest)
        assert again.to_connect("t", begin + rest).value == value
    for rest in (b'1,"more":2}', b"1", b"1}}", b"}", b"1.5}", b'"x"}'):
        again, fresh = JsonConverter(), JsonConverter()
        again.to_connect("t", begin + b"0}")
        errors = []
        for converter in (again, fresh):
            with pytest.raises(DataError) as caught:
                converter.to_connect("t", begin + rest)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
    converter = JsonConverter()
    for number in range(30):
        data = b'{"schema":{"type":"int32","name":"n%d"},"payload":%d}' % (number % 10, number)
        schema, value = converter.to_connect("t", data)
        assert schema is not None
        assert (schema.name, value) == (f"n{number % 10}", number)
