import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from odradek.schemas.avro_columns import AvroColumns
from odradek.schemas.errors import BadPayload, BadSchema

_EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "tests",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [{"name": "maps", "type": {"type": "array", "items": "Tags"}}],
                },
            ],
        },
        {"name": "either", "type": ["null", "string", "long", "Inner"]},
    ],
}
# Avro has no names for maps: an array of records with one.
_TAGS = {
    "type": "record",
    "name": "tests.Tags",
    "fields": [{"name": "of", "type": {"type": "map", "values": "string"}}],
}
_VALUE = {
    "id": 7,
    "name": "seven",
    "day": date(2026, 11, 15),
    "at": datetime(2026, 11, 15, 12, 0, 0, 5000, tzinfo=UTC),
    "price": Decimal("12.50"),
    "uuid": "8c5a3c1e-0000-0000-0000-000000000000",
    "clock": 1000,
    "kind": "B",
    "tags": [("x", 1)],
    "inner": {"maps": [{"of": [("k", "v")]}]},
    "either": {"member2": {"maps": []}},
}


def _codec() -> AvroColumns:
    return AvroColumns(json.dumps(_EVERYTHING), [("tests.Tags", json.dumps(_TAGS))])


def test_rows_survive_the_way_there_and_back() -> None:
    codec = _codec()
    shape = codec.shape()
    assert shape.to_row is not None
    assert shape.from_row is not None
    payload = codec.encode(shape.from_row(_VALUE))
    assert shape.to_row(codec.decode(payload)) == _VALUE
    for either in ({"member0": "text"}, {"member1": 5}, None):
        row = {**_VALUE, "either": either, "inner": None}
        assert shape.to_row(codec.decode(codec.encode(shape.from_row(row)))) == row


def test_a_column_has_sparks_types() -> None:
    inner = "struct<`maps`: array<struct<`of`: map<string, string>>>>"
    assert _codec().shape().type == (
        "struct<`id`: bigint, `name`: string, `day`: date, `at`: timestamp,"
        " `price`: decimal(9, 2), `uuid`: string, `clock`: int, `kind`: string,"
        f" `tags`: map<string, int>, `inner`: {inner},"
        f" `either`: struct<member0: string, member1: bigint, member2: {inner}>>"
    )
    assert AvroColumns('"bytes"').shape().type == "binary"


def test_old_values_are_read_with_a_newer_schema() -> None:
    def record(*fields: dict[str, object]) -> str:
        return json.dumps({"type": "record", "name": "R", "fields": fields})

    old = record({"name": "a", "type": "int"}, {"name": "gone", "type": "int"})
    new = record({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "?"})
    payload = AvroColumns(old).encode({"a": 1, "gone": 2})
    assert AvroColumns(old, reader=AvroColumns(new)).decode(payload) == {"a": 1, "b": "?"}


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(BadPayload, match="1 bytes are left"):
        AvroColumns('"long"').decode(b"\x02\x02")
    with pytest.raises(BadPayload, match="does not fit"):
        AvroColumns('"long"').decode(b"")
    with pytest.raises(BadPayload, match="does not fit"):
        AvroColumns('"long"').encode("x")
    with pytest.raises(BadSchema, match="not an Avro schema"):
        AvroColumns('{"type": "recor"}')
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "left", "type": ["null", "Tree"]}],
    }
    with pytest.raises(BadSchema, match="Tree contains itself"):
        AvroColumns(json.dumps(tree)).shape()
