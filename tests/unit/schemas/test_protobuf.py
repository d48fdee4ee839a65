from datetime import UTC, datetime
from decimal import Decimal

import pytest

from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.protobuf import ProtobufCodec
from odradek.schemas.protobuf_columns import ProtobufColumns
from odradek.schemas.protobuf_descriptors import ProtobufSchema, indexes_of

_TEXT = """
syntax = "proto3";
package tests;
import "google/protobuf/timestamp.proto";
import "sub/place.proto";

message Click {
  int64 id = 1;
  optional string name = 2;
  uint64 big = 3;
  Kind kind = 4;
  repeated Tag tags = 5;
  map<string, int32> counts = 6;
  google.protobuf.Timestamp at = 7;
  Place place = 8;
  oneof either { string text = 9; bytes data = 10; }
  message Tag { string label = 1; }
  enum Kind { NONE = 0; SOME = 1; }
}
message Other { Click click = 1; message Deep { int32 n = 1; } }
message Tree { Tree left = 1; }
"""
_IMPORTS = [
    ("sub/place.proto", 'syntax = "proto3"; package tests; message Place { double x = 1; }')
]


def _schema() -> ProtobufSchema:
    return ProtobufSchema.from_text(_TEXT, _IMPORTS)


def test_rows_survive_the_way_there_and_back() -> None:
    codec = ProtobufColumns(_schema().message())
    row = {
        "id": -7,
        "name": "seven",
        "big": Decimal(2**64 - 1),
        "kind": "SOME",
        "tags": [{"label": "a"}, {"label": ""}],
        "counts": [("x", 1)],
        "at": datetime(2026, 11, 15, 12, 0, 0, 5, tzinfo=UTC),
        "place": {"x": 0.5},
        "text": None,
        "data": b"\0",
    }
    assert codec.decode(codec.encode(row)) == row
    assert codec.decode(b"") == {
        "id": 0,
        "name": None,
        "big": Decimal(0),
        "kind": "NONE",
        "tags": [],
        "counts": [],
        "at": None,
        "place": None,
        "text": None,
        "data": None,
    }
    assert codec.decode(codec.encode({"kind": "9", "counts": {"y": 2}}))["kind"] == "9"


def test_a_column_has_types() -> None:
    assert ProtobufColumns(_schema().message("tests.Click")).column_type() == (
        "struct<`id`: bigint, `name`: string, `big`: decimal(20, 0), `kind`: string,"
        " `tags`: array<struct<`label`: string>>, `counts`: map<string, int>, `at`: timestamp,"
        " `place`: struct<`x`: double>, `text`: string, `data`: binary>"
    )


def test_messages_have_names_and_paths() -> None:
    schema = _schema()
    for name, indexes in (("Click", (0,)), ("tests.Other.Deep", (1, 0)), ("Other", (1,))):
        assert indexes_of(schema.message(name)) == indexes
        assert schema.message_at(indexes).name == schema.message(name).name
    with pytest.raises(BadSchema, match="no message Nothing, but Click, Other, Tree"):
        schema.message("Nothing")
    with pytest.raises(BadPayload, match=r"no message at \[5\]"):
        schema.message_at((5,))


def test_what_does_not_fit_is_said() -> None:
    codec = ProtobufColumns(_schema().message())
    with pytest.raises(BadPayload, match=r"is no tests\.Click"):
        codec.decode(b"\xff")
    with pytest.raises(BadPayload, match="there is no field wrong"):
        codec.encode({"wrong": 1})
    with pytest.raises(BadPayload, match="Kind has no MANY"):
        codec.encode({"kind": "MANY"})
    with pytest.raises(BadSchema, match="Tree contains itself"):
        ProtobufColumns(_schema().message("Tree")).column_type()
    with pytest.raises(BadSchema, match="not a Protobuf schema"):
        ProtobufSchema.from_text("message {")


def test_descriptors_serve_as_well_as_text() -> None:
    import base64

    from google.protobuf import descriptor_pb2, timestamp_pb2

    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="M")
    message.field.add(name="n", number=1, type=5, label=1)
    message.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    text = base64.b64encode(file.SerializeToString()).decode()
    whole = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(whole.file.add())
    whole.file.append(file)
    kind = "struct<`n`: int, `at`: timestamp>"
    assert ProtobufColumns(ProtobufSchema.from_text(text).message()).column_type() == kind
    from_set = ProtobufSchema.from_descriptor_set(whole.SerializeToString())
    assert ProtobufColumns(from_set.message("M")).column_type() == kind


def test_records_are_plain_python() -> None:
    codec = ProtobufCodec(_schema().message())
    record = codec.decode(codec.encode({"big": 2**64 - 1, "counts": {"x": 1}}))
    assert (record["big"], record["counts"]) == (2**64 - 1, {"x": 1})
    message = codec.parse(codec.encode({"id": 3}))
    assert codec.decode(codec.encode(message))["id"] == 3


def test_texts_and_descriptors_import_each_other() -> None:
    import base64

    from google.protobuf import descriptor_pb2

    place = descriptor_pb2.FileDescriptorProto(name="sub/place.proto", package="tests")
    place.message_type.add(name="Place").field.add(name="x", number=1, type=1, label=1)
    compiled = base64.b64encode(place.SerializeToString()).decode()
    from_text = ProtobufSchema.from_text(_TEXT, [("sub/place.proto", compiled)])
    assert from_text.message("Click").fields_by_name["place"].message_type.name == "Place"
    user = descriptor_pb2.FileDescriptorProto(name="u.proto", package="tests")
    user.dependency.append("sub/place.proto")
    user.message_type.add(name="User").field.add(
        name="place", number=1, type=11, label=1, type_name=".tests.Place"
    )
    text = base64.b64encode(user.SerializeToString()).decode()
    assert ProtobufSchema.from_text(text, _IMPORTS).message().name == "User"
