"""Thrift and Cap'n Proto, which a client finds by the names of entry points."""

from pathlib import Path
from typing import Any

import pytest

from odradek.client.serialization import (
    bind_deserializer,
    bind_serializer,
    deserializer_named,
    serializer_named,
)
from odradek.schemas.errors import BadPayload, BadSetting

THRIFT = """
struct Item { 1: string name, 2: double price }
struct Order { 1: i64 id, 2: list<Item> items, 3: map<string, Item> by, 4: optional string note }
"""
CAPNP = """
@0xdbb9ad1f14bf0b36;
struct Item { name @0 :Text; price @1 :Float64; }
struct Order { id @0 :Int64; items @1 :List(Item); note @2 :Text; }
"""


@pytest.mark.parametrize(("name", "schema"), [("thrift", THRIFT), ("capnp", CAPNP)])
def test_a_dict_goes_there_and_back(tmp_path: Path, name: str, schema: str) -> None:
    path = tmp_path / f"order.{name}"
    path.write_text(schema)
    settings = {f"value.{name}.file": str(path), f"value.{name}.struct": "Order"}
    to = bind_serializer(serializer_named(name), settings, "value")
    back = bind_deserializer(deserializer_named(name), settings, "value")
    assert to is not None
    assert back is not None
    order: dict[str, Any] = {"id": 7, "items": [{"name": "Zoë", "price": 1.5}], "note": "☃"}
    if name == "thrift":
        order["by"] = {"a": {"name": "x", "price": 2.0}}
    assert back.function(to.function(order)) == order
    assert to.function(None) is None
    assert back.function(None) is None
    for bad in ({"nothing": 1}, {"id": "x"}):
        with pytest.raises(BadPayload, match="a value is no Order"):
            to.function(bad)
    with pytest.raises(BadPayload, match="a value is no Order"):
        back.function(b"\xff\xff\xff")
    with pytest.raises(BadSetting, match="has no struct Nothing"):
        bind_serializer(
            serializer_named(name), {**settings, f"value.{name}.struct": "Nothing"}, "value"
        )
    with pytest.raises(BadSetting, match="cannot be read"):
        bind_serializer(serializer_named(name), {f"value.{name}.file": "/none"}, "value")
    with pytest.raises(BadSetting, match=f"key.{name}.file is not set"):
        bind_serializer(serializer_named(name), {}, "key")
