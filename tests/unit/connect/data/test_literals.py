"""The types that are guessed from text, as Kafka Connect guesses them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect.data import schemas
from odradek.connect.data.literals import parse_literal
from odradek.connect.data.schemas import Schema, array, map_of


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("12", schemas.INT8, 12),
        ("-300", schemas.INT16, -300),
        ("70000", schemas.INT32, 70_000),
        ("3000000000", schemas.INT64, 3_000_000_000),
        ("9223372036854775808", schemas.decimal(0), Decimal(2**63)),
        ("1.5", schemas.FLOAT32, 1.5),
        ("3.14159265358979", schemas.FLOAT64, 3.14159265358979),
        ("0.10000000000000000001", schemas.decimal(20), Decimal("0.10000000000000000001")),
        ("1e5", schemas.INT32, 100_000),
        ("1.0", schemas.INT8, 1),
        ("TRUE", schemas.STRING, "TRUE"),
        ("true", schemas.BOOLEAN, True),
        ("null", None, None),
        ("hello", schemas.STRING, "hello"),
        ('"12"', schemas.STRING, '"12"'),
        ("[1, 2.5]", array(schemas.FLOAT32), [1.0, 2.5]),
        ('["a", null]', array(schemas.OPTIONAL_STRING), ["a", None]),
        ("[1, 2, 300]", array(schemas.INT16), [1, 2, 300]),
        ('{"a": true}', map_of(schemas.STRING, schemas.BOOLEAN), {"a": True}),
        ("[1, true]", schemas.STRING, "[1, true]"),
        ("{broken", schemas.STRING, "{broken"),
        ("2020-01-02", schemas.date(), date(2020, 1, 2)),
        ("2020-01-32", schemas.STRING, "2020-01-32"),
        (
            "2020-01-02T03:04:05.678Z",
            schemas.timestamp(),
            datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        ),
    ],
)
def test_types_are_guessed(text: str, schema: Schema | None, value: Any) -> None:
    assert parse_literal(text) == (schema, value)


@given(st.text())
def test_any_text_stands_for_something(text: str) -> None:
    parse_literal(text)
