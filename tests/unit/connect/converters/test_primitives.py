"""Converters of text, bytes and numbers write what Kafka's serializers write."""

from typing import Any

import pytest

from odradek.connect.converters.converter import Converter
from odradek.connect.converters.primitives import (
    BooleanConverter,
    BytesConverter,
    NumberConverter,
    StringConverter,
    java_string,
)
from odradek.connect.converters.simple_headers import SimpleHeaders
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, struct
from odradek.connect.errors import DataError
from odradek.connect.records import Header


@pytest.mark.parametrize(
    ("converter", "value", "data"),
    [
        (BytesConverter(), b"\x00a", b"\x00a"),
        (StringConverter(), "é", "é".encode()),
        (StringConverter("UTF-16-BE"), "a", b"\0a"),
        (NumberConverter(schemas.INT16), -2, b"\xff\xfe"),
        (NumberConverter(schemas.INT32), 1, b"\0\0\0\1"),
        (NumberConverter(schemas.INT64), 1, b"\0\0\0\0\0\0\0\1"),
        (NumberConverter(schemas.FLOAT32), 1.0, b"\x3f\x80\0\0"),
        (NumberConverter(schemas.FLOAT64), 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        (BooleanConverter(), True, b"\1"),
    ],
)
def test_values_go_there_and_back(converter: Converter, value: Any, data: bytes) -> None:
    assert converter.from_connect("t", None, value) == data
    assert converter.to_connect("t", data).value == value
    assert converter.from_connect("t", None, None) is None
    schema, nothing = converter.to_connect("t", None)
    assert nothing is None
    assert schema is not None
    assert schema.is_optional


@pytest.mark.parametrize(
    ("converter", "value"),
    [
        (BytesConverter(), "text"),
        (NumberConverter(schemas.INT16), 1 << 15),
        (NumberConverter(schemas.INT32), "1"),
        (NumberConverter(schemas.FLOAT32), 1e300),
        (BooleanConverter(), 1),
    ],
)
def test_other_values_are_refused(converter: Converter, value: Any) -> None:
    with pytest.raises(DataError):
        converter.from_connect("t", None, value)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\2"])
def test_other_bytes_are_refused(data: bytes) -> None:
    for converter in (NumberConverter(schemas.INT32), BooleanConverter()):
        with pytest.raises(DataError):
            converter.to_connect("t", data)


def test_text_of_other_values_is_javas() -> None:
    point = struct(Field("x", schemas.FLOAT64), Field("y", schemas.OPTIONAL_STRING))
    assert java_string({"x": 1.0, "y": None}, point) == "Struct{x=1.0}"
    assert java_string({"a": [1, True, None]}) == "{a=[1, true, null]}"


def test_structs_in_headers_are_json() -> None:
    schema = struct(Field("a", schemas.STRING), Field("b", schemas.array(schemas.FLOAT64)))
    headers = SimpleHeaders()
    value = {"a": 'q"', "b": [1.0, 1e7]}
    written = headers.from_connect(Header("h", schema, value))
    assert written == b'{"a":"q\\"","b":[1.0,1.0E7]}'
    assert headers.from_connect(Header("h", None, {"x": None, "y": b"\0"})) == (
        b'{"x":null,"y":"AA=="}'
    )
