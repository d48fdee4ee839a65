"""Protobuf schemas that clients register and read as descriptors: nothing may be lost or refused on
the way from a descriptor to the text that a registry stores, and back."""

import base64
from typing import Any

import pytest

from odradek.schemas.errors import BadSchema
from odradek.schemas.inline_tags import tags_in
from odradek.schemas.parsed import parse
from odradek.schemas.proto_meta import descriptor_class
from odradek.schemas.protobuf_descriptors import ProtobufSchema, compiled_file

TAGGED = """syntax = "proto3";
package n;
import "confluent/meta.proto";
option (confluent.file_meta).doc = "a file";
message M {
  option (confluent.message_meta) = {
    tags: ["T1", "T2"],
    params: [{key: "k", value: "v"}, {key: "l", value: "w"}]
  };
  string s = 1 [(confluent.field_meta).tags = "PII"];
  enum E { option (confluent.enum_meta).doc = "an enum"; A = 0; }
  E e = 2;
}
"""
MAPS = """syntax = "proto3";
package n.m;
message M {
  map<string, Inner> by_name = 1;
  map<int32, .n.m.Outer> others = 2;
  message Inner { map<string, int32> counts = 1; }
}
message Outer { M.Inner inner = 1; }
message Later { message First { int32 n = 1; } map<string, First> by_name = 1; message Last {} }
"""
KNOWN = """syntax = "proto3";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/protobuf/timestamp.proto";
message M { confluent.type.Decimal d = 1; google.type.Date e = 2; google.protobuf.Timestamp f = 3; }
"""


def descriptor(text: str) -> Any:
    compiled = descriptor_class().FromString(compiled_file(text))
    compiled.name = ""
    return compiled


@pytest.mark.parametrize("text", [TAGGED, MAPS, KNOWN], ids=["tags", "maps", "known"])
def test_a_descriptor_is_the_same_after_it_was_stored(text: str) -> None:
    stored = parse("PROTOBUF", base64.b64encode(compiled_file(text)).decode()).text
    assert descriptor(stored) == descriptor(text)
    assert ProtobufSchema.from_text(stored).message().name == "M"


def test_tags_of_a_descriptor_are_kept() -> None:
    stored = parse("PROTOBUF", base64.b64encode(compiled_file(TAGGED)).decode()).text
    assert tags_in("PROTOBUF", stored) == tags_in("PROTOBUF", TAGGED)
    assert [one.tags for one in tags_in("PROTOBUF", stored)] == [["T1", "T2"], ["PII"]]


def test_an_import_that_nobody_knows_is_still_refused() -> None:
    with pytest.raises(BadSchema, match=r"nobody/knows\.proto.*not found"):
        compiled_file('syntax = "proto3"; import "nobody/knows.proto"; message M {}')


def test_a_message_keeps_its_place_beside_those_of_maps() -> None:
    """The place is in front of each value."""
    stored = parse("PROTOBUF", base64.b64encode(compiled_file(MAPS)).decode()).text
    for text in (MAPS, stored):
        later = descriptor(text).message_type[2]
        assert [one.name for one in later.nested_type] == ["First", "ByNameEntry", "Last"]
    schema = ProtobufSchema.from_text(stored)
    assert schema.message_at((2, 0)).name == "First"
    assert schema.message_at((2, 2)).name == "Last"
