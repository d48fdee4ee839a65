"""The texts of PostgreSQL's types, and what Debezium 3.6 makes of them (observed)."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect.connectors.cdc import logical_types
from odradek.connect.connectors.postgres import nested, times
from odradek.connect.connectors.postgres.defaults import default_of
from odradek.connect.connectors.postgres.lsn import end_of_records, lsn_text, parse_lsn
from odradek.connect.connectors.postgres.types import Modes, TypeRow, column_type
from odradek.connect.connectors.postgres.visibility import visibility
from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError


def base(name: str) -> TypeRow:
    return TypeRow(1, name, "pg_catalog", "b")


def array_of(element: TypeRow) -> TypeRow:
    return TypeRow(2, f"_{element.name}", "pg_catalog", "b", element)


def value(found: TypeRow, text: str, modifier: int = -1, **modes: Any) -> Any:
    kind = column_type(found, modifier, Modes(**modes))
    assert kind is not None
    return text if kind.convert is None else kind.convert(text)


def schema(found: TypeRow, modifier: int = -1, **modes: Any) -> Schema:
    kind = column_type(found, modifier, Modes(**modes))
    assert kind is not None
    return kind.schema


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("name", "modifier", "text", "expected"),
    [
        ("bool", -1, "t", True),
        ("int8", -1, "-9223372036854775808", -(2**63)),
        ("float8", -1, "-Infinity", float("-inf")),
        ("numeric", -1, "1.10", {"scale": 1, "value": b"\x0b"}),
        ("numeric", -1, "100", {"scale": 0, "value": b"d"}),
        ("numeric", -1, "NaN", None),
        ("numeric", numeric(5, 2), "123.45", Decimal("123.45")),
        ("numeric", numeric(5, -2), "12300", Decimal("123E+2")),
        ("money", -1, "-$1,234.56", Decimal("-1234.56")),
        ("bytea", -1, "\\xdeadbeef", b"\xde\xad\xbe\xef"),
        ("bit", 1, "1", True),
        ("bit", 3, "101", b"\x05"),
        ("bit", 16, "1000000000000001", b"\x01\x80"),
        ("bit", 3, "000", b""),
        ("varbit", -1, "10110011101", b"\x9d\x05"),
        ("varbit", 1, "1", True),
        ("date", -1, "1969-12-31", -1),
        ("date", -1, "0044-03-15 BC", -735_160),
        ("time", -1, "24:00:00", 86_400_000_000),
        ("time", 3, "12:34:56.789", 45_296_789),
        ("timetz", -1, "12:34:56.789012+02", "10:34:56.789012Z"),
        ("timetz", -1, "12:34:56.789-05:30", "18:04:56.789Z"),
        ("timestamp", -1, "2026-01-02 03:04:05.678901", 1_767_323_045_678_901),
        ("timestamp", 0, "9999-12-31 23:59:59", 253_402_300_799_000),
        ("timestamp", -1, "0044-03-15 12:00:00 BC", -63_517_780_800_000_000),
        ("timestamp", -1, "infinity", 9_223_372_036_825_200_000),
        ("timestamp", -1, "294276-12-31 23:59:59", 2**63 - 1),
        ("timestamp", 3, "294276-12-31 23:59:59", 9_224_318_015_999_000),
        ("timestamp", 3, "-infinity", -9_223_372_036_832_400),
        ("timestamptz", -1, "2026-01-02 01:04:05+00", "2026-01-02T01:04:05.000000Z"),
        ("timestamptz", 0, "2026-01-02 01:04:05+00", "2026-01-02T01:04:05Z"),
        ("timestamptz", -1, "0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00.000000Z"),
        ("timestamptz", 3, "infinity", "infinity"),
        ("interval", -1, "1 year 2 mons 3 days 04:05:06.789012", 37_091_106_789_012),
        ("interval", -1, "-1 years -2 mons +3 days -04:05:06.789", -36_572_706_789_000),
        ("interval", -1, "178000000 years", 2**63 - 1),
        ("interval", -1, "-178000000 years", -(2**63)),
        ("hstore", -1, '"a"=>"1", "b"=>NULL, "c d"=>"x\\"y"', '{"a":"1","b":null,"c d":"x\\"y"}'),
        ("inet", -1, "10.0.0.1/24", "10.0.0.1/24"),
    ],
)
def test_a_value_is_that_of_debezium(name: str, modifier: int, text: str, expected: Any) -> None:
    assert value(base(name), text, modifier) == expected


def test_a_point_has_its_binary_form() -> None:
    found = value(base("point"), "(1.5,2)")
    assert (found["x"], found["y"], found["srid"]) == (1.5, 2.0, None)
    assert found["wkb"].hex() == "0101000000000000000000f83f0000000000000040"


def test_modes_change_values_and_schemas() -> None:
    timestamp, number = base("timestamp"), base("numeric")
    text = "2026-01-02 03:04:05.600000"
    assert value(timestamp, text, time="isostring") == "2026-01-02T03:04:05.6Z"
    assert value(timestamp, text, time="nanoseconds") == 1_767_323_045_600_000_000
    assert schema(timestamp, time="connect") == schemas.timestamp()
    assert value(number, "1.10", decimal="string") == "1.10"
    assert value(number, "1.10", decimal="double") == 1.1
    interval = "1 year 2 mons 3 days 04:05:06.78"
    assert value(base("interval"), interval, interval="string") == "P1Y2M3DT4H5M6.78S"
    assert value(base("hstore"), '"a"=>NULL', hstore="map") == {"a": None}
    assert value(base("bytea"), "\\xfbff", binary="base64-url-safe") == "-_8="
    assert schema(base("bytea"), binary="hex") == schemas.STRING


@pytest.mark.parametrize(
    ("name", "text", "mode", "expected"),
    [
        ("timestamp", "infinity", "nanoseconds", 2**63 - 1),
        ("timestamp", "-infinity", "nanoseconds", -(2**63)),
        ("timestamp", "0044-03-15 10:00:00 BC", "nanoseconds", None),
        ("timestamp", "2262-04-12 00:00:00", "nanoseconds", None),
        ("timestamp", "2026-01-02 03:04:05.678901", "nanoseconds", 1_767_323_045_678_901_000),
        ("timestamp", "infinity", "isostring", "+294247-01-10T04:00:25.2Z"),
        ("timestamp", "-infinity", "isostring", "-290308-12-21T19:59:27.6Z"),
    ],
)
def test_times_beyond_a_mode(name: str, text: str, mode: str, expected: Any) -> None:
    assert value(base(name), text, time=mode) == expected


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("timestamp", "infinity", 9_223_372_036_825_200),
        ("timestamp", "0044-03-15 10:00:00 BC", -63_517_788_000_000),
        ("timestamp", "294276-12-31 23:59:59", 9_224_318_015_999_000),
        ("date", "0044-03-15 BC", -735_160),
        ("date", "5874897-12-31", 2_145_042_905),
        ("time", "24:00:00", 86_400_000),
        ("time", "23:59:59.5", 86_399_500),
    ],
)
def test_times_beyond_those_of_python_are_written(name: str, text: str, number: int) -> None:
    found = base(name)
    data = JsonConverter().from_connect(
        "topic", schema(found, time="connect"), value(found, text, time="connect")
    )
    assert data is not None
    assert json.loads(data)["payload"] == number


def test_arrays_have_the_values_of_their_elements() -> None:
    assert value(array_of(base("int4")), "{1,NULL,3}") == [1, None, 3]
    assert value(array_of(base("int4")), "{{1,2},{3,4}}") == [None, None]
    assert value(array_of(base("text")), '{a,"b c",NULL,"NULL","q\\"x"}') == [
        "a", "b c", None, "NULL", 'q"x',
    ]  # fmt: skip
    assert value(array_of(base("numeric")), "{1.5,NaN}") is None
    assert schema(array_of(base("uuid"))).item == logical_types.UUID.optional()
    for name in ("money", "interval", "point"):
        assert column_type(array_of(base(name)), -1, Modes()) is None


def test_a_placeholder_can_be_given_as_bytes() -> None:
    def unavailable(found: TypeRow, **modes: Any) -> Any:
        kind = column_type(found, -1, Modes(unavailable="hex:41ff", **modes))
        assert kind is not None
        return kind.unavailable

    assert unavailable(base("text")) == "A\ufffd"
    assert unavailable(base("bytea")) == b"A\xff"
    assert unavailable(base("bytea"), binary="hex") == "A\ufffd"
    assert unavailable(base("bytea"), binary="base64") == "A\ufffd"
    assert unavailable(array_of(base("int4"))) == [65, -1]
    with pytest.raises(ValueError, match="hexadecimal"):
        _ = Modes(unavailable="hex:x").placeholder_data


def test_what_was_not_sent_has_a_placeholder_of_its_type() -> None:
    def unavailable(found: TypeRow) -> Any:
        kind = column_type(found, -1, Modes())
        assert kind is not None
        return kind.unavailable

    text = "__debezium_unavailable_value"
    assert unavailable(base("jsonb")) == text
    assert unavailable(base("bytea")) == text.encode()
    assert unavailable(array_of(base("text"))) == [text]
    assert unavailable(array_of(base("int8"))) == [*text.encode()]
    assert unavailable(array_of(base("uuid"))) == ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]
    assert unavailable(array_of(base("float8"))) is None
    assert unavailable(base("numeric")) is None


def test_domains_and_enums_are_their_own_kind_of_type() -> None:
    domain = TypeRow(3, "money2", "shop", "d", base=base("numeric"), modifier=numeric(8, 2))
    assert schema(domain).parameters == {"scale": "2", "connect.decimal.precision": "8"}
    enum = TypeRow(4, "mood", "shop", "e", labels=("sad", "very, very happy"))
    assert schema(enum).parameters == {"allowed": "sad,very, very happy"}
    assert column_type(base("tsquery"), -1, Modes()) is None
    assert value(base("tsquery"), "a & b", includes_unknown=True) == b"a & b"


@pytest.mark.parametrize(
    ("name", "expression", "expected"),
    [
        ("int4", "5", 5),
        ("int4", "'-5'::integer", -5),
        ("int4", "nextval('s'::regclass)", 0),
        ("int4", "(1 + 1)", None),
        ("int4", "length('abc'::text)", 0),
        ("int8", "(random())::bigint", 0),
        ("float8", "random()", 0.0),
        ("bool", "(1 = 1)", False),
        ("bool", "is_open()", False),
        ("text", "('a'::text || 'b'::text)", "a"),
        ("text", "((1 + 2))::text", "((1 + 2))::text"),
        ("jsonb", "jsonb_build_object('a', 1)", "{}"),
        ("interval", "make_interval(1)", 0),
        ("timestamp", "('now'::text)::date", None),
        ("text", "'it''s'::text", "it's"),
        ("text", "NULL::text", None),
        ("text", "CURRENT_USER", "CURRENT_USER"),
        ("text", "lower('ABC'::text)", ""),
        ("bpchar", "'c'::bpchar", "c"),
        ("bool", "true", True),
        ("timestamptz", "now()", "1970-01-01T00:00:00.000000Z"),
        ("timestamp", "'2026-01-02 03:04:05'::timestamp without time zone", 1_767_323_045_000_000),
        ("date", "CURRENT_DATE", 0),
        ("uuid", "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("bit", "'1'::\"bit\"", True),
        ("numeric", "1.5", None),
        ("bytea", "'\\x01'::bytea", None),
        ("jsonb", "'{}'::jsonb", "{}"),
        ("interval", "'1 day'::interval", times.DAY_US),
    ],
)
def test_a_default_is_a_constant_or_the_zero_of_a_function(
    name: str, expression: str, expected: Any
) -> None:
    found = base(name)
    kind = column_type(found, 1 if name == "bit" else -1, Modes())
    assert kind is not None
    assert default_of(expression, found, -1, kind) == expected


@pytest.mark.parametrize(
    ("expression", "as_number", "as_text"),
    [
        ("1.5", Decimal("1.50"), "1.50"),
        ("0", Decimal("0.00"), "0.00"),
        ("'-1.25'::numeric", Decimal("-1.25"), "-1.25"),
        ("1.255", None, None),
        ("'NaN'::numeric", None, None),
        ("now()", Decimal("0.00"), "0.00"),
    ],
)
def test_a_default_of_a_number_has_the_digits_of_its_column(
    expression: str, as_number: Decimal | None, as_text: str | None
) -> None:
    found, modifier = base("numeric"), numeric(5, 2)
    for mode, expected in (("precise", as_number), ("string", as_text)):
        kind = column_type(found, modifier, Modes(decimal=mode))
        assert kind is not None
        assert default_of(expression, found, modifier, kind) == expected
        assert str(default_of(expression, found, modifier, kind)) == str(expected)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("NaN", "NAN"),
        ("Infinity", "POSITIVE_INFINITY"),
        ("-Infinity", "NEGATIVE_INFINITY"),
        ("1.10", "1.10"),
    ],
)
def test_decimals_as_text_that_are_no_numbers_have_debezium_s_names(
    text: str, written: str
) -> None:
    assert value(base("numeric"), text, decimal="string") == written
    assert value(base("numeric"), text, numeric(5, 2), decimal="string") == written


@given(st.dates())
def test_days_are_those_of_the_calendar(day: Any) -> None:
    assert times.days(day.isoformat()) == (day - day.replace(1970, 1, 1)).days


@given(
    st.lists(st.none() | st.text(max_size=5), max_size=5),
)
def test_an_array_is_read_as_it_was_quoted(parts: list[str | None]) -> None:
    quoted = [
        "NULL" if part is None else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for part in parts
    ]
    assert nested.elements("{" + ",".join(quoted) + "}") == parts
    assert nested.elements("[0:1]={" + ",".join(quoted) + "}") == parts


@pytest.mark.parametrize("text", ["", "{", '{"a', "{a", "a}"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        nested.elements(text)


def test_positions_in_the_log() -> None:
    assert parse_lsn("16/B374D848") == 0x16B374D848
    assert lsn_text(0x16B374D848) == "16/B374D848"
    with pytest.raises(DataError):
        parse_lsn("nowhere")
    # Behind the header of a page there is nothing yet.
    assert end_of_records(8192 * 5 + 24) == 8192 * 5
    assert end_of_records(8192 * 5 + 48) == 8192 * 5 + 48


def test_a_snapshot_knows_which_transactions_it_has_seen() -> None:
    found = visibility("10:20:12,15")
    assert [xid for xid in range(8, 22) if not found.sees(xid)] == [12, 15, 20, 21]
    epoch = 1 << 32
    found = visibility(f"{epoch - 2}:{epoch + 3}:{epoch + 1}")
    assert found.sees(2**32 - 3)
    assert found.sees(2)
    assert not found.sees(1)
    assert not found.sees(3)


def test_the_kinds_of_schemas_are_those_of_kafka_connect() -> None:
    assert schema(base("int2")).type is Type.INT16
    assert schema(base("oid")).type is Type.INT64
    assert schema(base("bit"), 3) == logical_types.bits(3)
    assert schema(base("time"), 3) == logical_types.TIME
    assert schema(base("time")) == logical_types.MICRO_TIME
