"""Avro schemas and values that are made to harm whoever reads them."""

import json
from typing import Any

import pytest

from odradek.schemas.avro import AvroCodec
from odradek.schemas.avro_schema import parse
from odradek.schemas.errors import BadPayload, InvalidSchema

TEN_MILLION = b"\x80\xda\xc4\x09"
EMPTY = {"type": "record", "name": "Empty", "fields": []}


def doubling(levels: int) -> dict[str, Any]:
    """Returns a record of two records of two records and so on, which takes no bytes."""
    inner: Any = EMPTY
    for level in range(levels):
        again = inner["name"]
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": again}]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return dict(inner)


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        {"type": "fixed", "name": "Nothing", "size": 0},
        EMPTY,
        {"type": "record", "name": "Nulls", "fields": [{"name": "x", "type": "null"}]},
        doubling(3),
    ],
)
def test_a_few_bytes_do_not_become_millions_of_items(items: Any) -> None:
    array = {"type": "array", "items": items}
    nested = {
        "type": "record",
        "name": "Nested",
        "fields": [{"name": "x", "type": ["null", array]}],
    }
    for schema, payload in ((array, TEN_MILLION), (nested, b"\x02" + TEN_MILLION)):
        with pytest.raises(BadPayload, match="items that take no bytes"):
            AvroCodec(json.dumps(schema)).decode(payload + b"\0")


def test_no_bytes_at_all_do_not_become_a_large_record() -> None:
    assert AvroCodec(json.dumps(doubling(3))).decode(b"")["a"]["b"] == {"a": {}, "b": {}}
    with pytest.raises(BadPayload, match="takes no bytes and has more than"):
        AvroCodec(json.dumps(doubling(16))).decode(b"")


def test_types_that_contain_themselves_are_read() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "none", "type": "null"},
            {"name": "inner", "type": {"type": "array", "items": "Tree"}},
        ],
    }
    value: dict[str, Any] = {"none": None, "inner": [{"none": None, "inner": []}]}
    codec = AvroCodec(json.dumps(tree))
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ('"sring"', "string"),
        ('{"type": "recrd", "name": "A", "fields": []}', "record"),
        (
            '{"type": "record", "name": "n.A", "fields": [{"name": "a", "type": "lnog"}]}',
            "long",
        ),
        (
            '{"type": "record", "name": "Abc", "fields": [{"name": "a", "type": ["null", "Abd"]}]}',
            "Abc",
        ),
    ],
)
def test_a_misspelt_type_is_answered_with_the_one_that_is_meant(schema: str, meant: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        parse(schema, (), {}, is_new=True)
    assert str(raised.value).endswith(f"; did you mean {meant}?")
