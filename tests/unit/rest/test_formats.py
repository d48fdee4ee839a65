"""Values of records in answers: they come from whoever may produce, and must harm no reader."""

from typing import Any

import msgspec
import pytest

from odradek.rest.formats import serialized, shown
from odradek.rest.schema_codecs import Codec, codec_of
from odradek.rest.v2.bodies import Subscription
from odradek.schemas.errors import BadPayload
from odradek.schemas.framing import frame, frame_message, identify
from odradek.schemas.registry_client import Schema
from odradek.web.bodies import decode_json
from odradek.web.problems import Problem
from odradek.web.streaming import event


def read(codec: Codec, value: bytes) -> Any:
    return codec.read(value, identify(value, None, "value"))


PRETTY = b'[\n\n{"forged": 1}\n\n]'


@pytest.mark.parametrize("value", [b'"\xff"', b'{"\xff": 1}', b"[NaN]", b"\xff\xfe{\0}\0"])
def test_a_value_that_is_no_json_is_shown_otherwise(value: bytes) -> None:
    found = shown(value)
    assert found is not None
    assert found["type"] in {"STRING", "BINARY"}
    msgspec.json.decode(msgspec.json.encode(found))


def test_json_as_data_of_another_type_is_told_how_json_is_sent() -> None:
    with pytest.raises(Problem, match=r"type JSON, or .*vnd\.kafka\.json\.v2\+json"):
        serialized("BINARY", msgspec.Raw(b"1"))


def test_line_breaks_in_a_value_do_not_end_an_event() -> None:
    codec = codec_of(Schema("JSON", "{}"))
    for content in (shown(PRETTY), {"data": read(codec, frame(1, PRETTY))}):
        sent = event(msgspec.json.encode(content))
        assert sent.index(b"\n") == len(sent) - 2
        assert msgspec.json.decode(sent.removeprefix(b"data: "))["data"] == [{"forged": 1}]


@pytest.mark.parametrize(
    ("kind", "text", "payload"),
    [
        ("JSON", "{}", b"[NaN]"),
        ("JSON", "{}", '{"a": 1}'.encode("utf-16")),
        ("AVRO", '"double"', b"\0\0\0\0\0\0\xf8\x7f"),
    ],
)
def test_a_value_that_only_python_takes_for_json_is_not_embedded(
    kind: str, text: str, payload: bytes
) -> None:
    codec = codec_of(Schema(kind, text))  # type: ignore[arg-type]  # one of the three
    with pytest.raises(BadPayload, match="an answer can have"):
        read(codec, frame(1, payload))


def test_a_body_with_broken_utf_8_is_refused() -> None:
    with pytest.raises(Problem, match="the body is not JSON") as refused:
        decode_json(b'{"topics": ["\xff"]}', Subscription)
    assert refused.value.status == 400


EVENT = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";
message Event { google.protobuf.Timestamp at = 1; google.protobuf.Any what = 2; }
"""
NESTED = (
    '["null", {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "R"]}]}]'
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("PROTOBUF", EVENT, frame_message(1, (0,), b"\x0a\x0a\x08" + b"\xff" * 8 + b"\x7f")),
        ("PROTOBUF", EVENT, frame_message(1, (0,), b"\x12\x05\x0a\x03abc")),
        ("AVRO", NESTED, frame(1, b"\x02" * 900 + b"\0")),
    ],
    ids=["time", "any", "deep"],
)
def test_a_value_that_has_no_json_is_an_error_of_the_value(
    kind: str, text: str, value: bytes
) -> None:
    codec = codec_of(Schema(kind, text))  # type: ignore[arg-type]  # one of the three
    with pytest.raises(BadPayload, match="has no JSON by its"):
        read(codec, value)


@pytest.mark.parametrize(
    "data", [b"[" * 5000 + b"]" * 5000, b'"\xff"'], ids=["deep", "broken UTF-8"]
)
def test_data_that_cannot_be_read_is_an_error_of_the_data(data: bytes) -> None:
    with pytest.raises(BadPayload):
        codec_of(Schema("JSON", "{}")).write(1, data)
