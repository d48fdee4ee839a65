"""Rows as JSON and as delimited text, read and written as ksqlDB does."""

from decimal import Decimal
from typing import Any

import pytest

from odradek.streams.formats.columns import BadRow, make
from odradek.streams.plan.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Column,
    DecimalType,
    SqlType,
    StructType,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, "1.10", "1.10"),
        (STRING, "1e2", "1E+2"),
        (STRING, "true", "true"),
        (STRING, '{"b": 1.50, "a": null}', '{"b":1.50,"a":null}'),
        (STRING, '[1, "x", null]', "[1, x, null]"),
        (INTEGER, "1.9", 1),
        (INTEGER, '"7"', 7),
        (DOUBLE, '"1.5"', 1.5),
        (DecimalType(4, 2), '"1.005"', Decimal("1.01")),
        (BOOLEAN, "false", False),
        (StructType((("A", INTEGER), ("b", INTEGER))), '{"a": 1, "B": 2}', {"A": 1, "b": None}),
        (StructType((("A", INTEGER), ("a", INTEGER))), '{"a": 1, "A": 2}', {"A": 2, "a": 1}),
    ],
)
def test_json_is_read(kind: SqlType, text: str, value: Any) -> None:
    codec = make("JSON", [Column("X", kind)], is_key=False)
    assert codec.decode(f'{{"x": {text}}}'.encode()) == (value,)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (BOOLEAN, '"true"'),
        (BOOLEAN, "1"),
        (INTEGER, '"1.5"'),
        (INTEGER, "true"),
        (INTEGER, "99999999999"),
        (DecimalType(3, 2), "10.00"),
        (StructType((("A", INTEGER),)), "[1]"),
    ],
)
def test_json_that_does_not_fit(kind: SqlType, text: str) -> None:
    codec = make("JSON", [Column("X", kind)], is_key=False)
    with pytest.raises(BadRow):
        codec.decode(f'{{"x": {text}}}'.encode())


def test_json_of_json_sr_is_read() -> None:
    codec = make("JSON", [Column("X", INTEGER)], is_key=False)
    assert codec.decode(b'\0\0\0\0\x07{"x": 1}') == (1,)
    with pytest.raises(BadRow):
        codec.decode(b"\0\0\0\0\x07")


_THREE = [Column("I", INTEGER), Column("S", STRING), Column("B", BOOLEAN)]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ((1, "a", True), "1,a,true"),
        ((-1, "a b", None), '"-1",a b,'),
        ((None, 'say "x"', False), ',"say ""x""",false'),
        ((1, "a,b", None), '1,"a,b",'),
        ((1, " a", None), '1," a",'),
        ((1, "a ", None), '1,"a ",'),
        ((1, "#1", None), '1,"#1",'),
        ((1, "é", None), "1,é,"),
    ],
)
def test_delimited_text(row: tuple[Any, ...], line: str) -> None:
    codec = make("DELIMITED", _THREE, is_key=False)
    assert codec.encode(row) == line.encode()
    assert codec.decode(line.encode()) == row


def test_delimited_text_that_does_not_fit() -> None:
    codec = make("DELIMITED", [Column("S", STRING)], is_key=False)
    assert codec.encode(("",)) == b'""'
    for data in (b"", b"a,b"):
        with pytest.raises(BadRow):
            codec.decode(data)
    flags = make("DELIMITED", [Column("B", BOOLEAN)], is_key=False)
    assert flags.decode(b"TRUE") == (True,)
    assert flags.decode(b"yes") == (False,)


def test_no_columns_are_an_empty_object() -> None:
    codec = make("JSON", [], is_key=False)
    assert codec.encode(()) == b"{}"
    assert codec.decode(b'{"a": 1}') == ()
    assert codec.decode(None) is None
