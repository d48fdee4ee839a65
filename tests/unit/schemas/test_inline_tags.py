"""Tags in a schema's text: listed, added and removed where a path says."""

import pytest

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.inline_tags import FIELD, RECORD, SchemaEntity, SchemaTags, tags_in, with_tags
from odradek.schemas.parsed import SchemaType, parse

AVRO = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"card","type":'
    '{"type":"record","name":"Card","fields":[{"name":"number","type":"string"}]}}]}'
)
JSON = (
    '{"type":"object","properties":{"card":{"type":"object","properties":{"number":'
    '{"type":"string"}}},"lines":{"type":"array","items":{"type":"object"}}}}'
)
PROTOBUF = """syntax = "proto3";
message Order {
  oneof paid { string card = 1 [(confluent.field_meta).tags = "OLD"]; }
  message Line { int32 count = 1; }
}
"""


def tagged(path: str, kind: str, *tags: str) -> SchemaTags:
    return SchemaTags(SchemaEntity(path, kind), list(tags))


@pytest.mark.parametrize(
    ("schema_type", "text", "record", "field"),
    [
        ("AVRO", AVRO, "shop.Order", "shop.Card.number"),
        ("JSON", JSON, "object", "object.card.object.number"),
        ("JSON", JSON, "object.lines.array.object", "object.lines"),
        ("PROTOBUF", PROTOBUF, "Order.Line", "Order.Line.count"),
    ],
)
def test_tags_are_added_found_and_removed(
    schema_type: SchemaType, text: str, record: str, field: str
) -> None:
    added = [tagged(f".{record}", RECORD, "A", "B"), tagged(field, FIELD, "PII")]
    both = with_tags(schema_type, text, added, [])
    # The text can be parsed again, and the registry would store it as it is.
    assert parse(schema_type, both).text == both
    found = {one.schema_entity.key: one.tags for one in tags_in(schema_type, both)}
    assert found[record, RECORD] == ["A", "B"]
    assert found[field, FIELD] == ["PII"]
    removed = [tagged(record, RECORD, "B"), tagged(field, FIELD, "PII")]
    left = tags_in(schema_type, with_tags(schema_type, both, [], removed))
    assert tagged(record, RECORD, "A") in left
    assert not any(one.schema_entity.key == (field, FIELD) for one in left)


def test_both_ways_to_write_an_option_are_read() -> None:
    other = PROTOBUF.replace('.tags = "OLD"', ' = {doc: "d", tags: ["OLD"]}')
    for text in (PROTOBUF, other):
        more = with_tags("PROTOBUF", text, [tagged("Order.card", FIELD, "NEW")], [])
        assert tags_in("PROTOBUF", more) == [tagged("Order.card", FIELD, "OLD", "NEW")]
    assert 'doc: "d"' in more


def test_definitions_that_nobody_uses_may_be_anything() -> None:
    odd = '{"type":"object","definitions":{"X":{"type":"object","properties":[1],"allOf":{}}}}'
    assert tags_in("JSON", odd) == []
    assert tags_in("JSON", "true") == []
    assert tags_in("AVRO", '"string"') == []


@pytest.mark.parametrize("entity", [("nothing.here", FIELD), ("shop.Order", FIELD), ("shop", "x")])
def test_a_place_that_is_not_there_is_refused(entity: tuple[str, str]) -> None:
    with pytest.raises(InvalidSchema, match="tag"):
        with_tags("AVRO", AVRO, [tagged(*entity, "A")], [])
    assert with_tags("AVRO", AVRO, [tagged(*entity, "A")], [], must_exist=False) == AVRO
