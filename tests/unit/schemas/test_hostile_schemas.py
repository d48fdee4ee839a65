"""Schemas that are made to take long, or much memory, or to end the process.

Each ends in a parsed schema or one line of error, in a time that does not grow with tricks. The
limit is generous, because machines are busy; without the protection each case takes minutes.
"""

import base64
import json
import time
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from odradek.schemas.compatibility import incompatibilities
from odradek.schemas.errors import InvalidSchema
from odradek.schemas.parsed import SchemaType, parse

_LIMIT_S = 30


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _chain(length: int, **field: Any) -> str:
    """Records of which each has two fields of the type before it."""
    records = [_record("R0")]
    for index in range(1, length):
        kind = f"R{index - 1}"
        records.append(_record(f"R{index}", *({"name": n, "type": kind, **field} for n in "ab")))
    return json.dumps(records)


_TYPES = [f"T{index}" for index in range(14)]


def _recursive(kind: str) -> str:
    """Types that all refer to one another, in alternatives."""
    anyone = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in _TYPES]}
    types = {
        name: {
            "type": "object",
            "properties": {"id": {"type": kind if name == "T0" else "null"}, "of": anyone},
        }
        for name in _TYPES
    }
    return json.dumps({"type": "object", "properties": {"x": anyone}, "definitions": types})


_PATTERN = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}}
_LONG_NAME = _PATTERN | {"properties": {"a" * 5_000 + "b": {"type": "null"}}}
_ENTRY = FileDescriptorProto(name="x", syntax="proto3")
_message = _ENTRY.message_type.add(name="E")
_message.options.map_entry = True
_message.field.add(name="value", number=2, type=11, label=1, type_name=".E")
_ENTRY.message_type.add(name="M").field.add(name="a", number=1, type=11, label=3, type_name=".E")

ACCEPTED: list[tuple[SchemaType, str, str]] = [
    ("AVRO", "a chain of records", _chain(1_500)),
    ("AVRO", "defaults that fill each other", _chain(60, default={})),
    (
        "AVRO",
        "10,000 fields",
        json.dumps(_record("R", *({"name": f"f{i}", "type": "int"} for i in range(10_000)))),
    ),
    ("AVRO", "a record of itself", json.dumps(_record("R", {"name": "a", "type": "R"}))),
    ("JSON", "10,000 properties", json.dumps({"properties": {f"p{i}": {} for i in range(10_000)}})),
    ("JSON", "a reference to itself", '{"$ref": "#"}'),
    (
        "JSON",
        "a cycle",
        '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}',
    ),
    (
        "JSON",
        "a chain of references",
        json.dumps(
            {
                "$ref": "#/definitions/d0",
                "definitions": {
                    f"d{i}": {"properties": {"a": {"$ref": f"#/definitions/d{i + 1}"}}}
                    for i in range(2_000)
                }
                | {"d2000": {}},
            }
        ),
    ),
    (
        "PROTOBUF",
        "10,000 fields",
        "message M {"
        + "".join(f"optional int32 f{i} = {i + 20_000};" for i in range(10_000))
        + "}",
    ),
    ("PROTOBUF", "a map entry of itself", base64.b64encode(_ENTRY.SerializeToString()).decode()),
]
REFUSED: list[tuple[SchemaType, str, str, str]] = [
    (
        "AVRO",
        "1,000 levels",
        '{"type":"array","items":' * 1_000 + '"int"' + "}" * 1_000,
        "nested deeper than 200",
    ),
    ("AVRO", "brackets", "[" * 100_000, "nested deeper than 200"),
    (
        "AVRO",
        "a chain that is printed deeply",
        json.dumps(
            [_record(f"R{i}", {"name": "a", "type": f"R{i + 1}"}) for i in range(500)]
            + [_record("R500")]
        ),
        "nested",
    ),
    (
        "AVRO",
        "a default without end",
        json.dumps(_record("R", {"name": "a", "type": "R", "default": {}})),
        "has the default {}",
    ),
    (
        "AVRO",
        "a number of 100,000 digits",
        '{"type":"fixed","name":"F","size":' + "9" * 100_000 + "}",
        "this is not JSON",
    ),
    ("JSON", "1,000 levels", '{"not":' * 1_000 + "{}" + "}" * 1_000, "nested deeper than 200"),
    ("JSON", "a number out of range", '{"multipleOf": 1e999999999}', "out of range"),
    (
        "JSON",
        "a pattern of brackets",
        json.dumps({"pattern": "(" * 50_000 + ")" * 50_000}),
        "not a regular expression",
    ),
    ("JSON", "a file", '{"$ref": "file:///etc/passwd"}', "which is not known"),
    ("JSON", "another host", '{"$ref": "http://example.com/x.json"}', "which is not known"),
    ("PROTOBUF", "1,000 levels", "message M {" * 1_000 + "}" * 1_000, "nested deeper than 100"),
    (
        "PROTOBUF",
        "an option of 5,000 levels",
        "option (a) = " + "{a:" * 5_000,
        "nested deeper than 100",
    ),
    (
        "PROTOBUF",
        "a number twice",
        "message M { optional int32 a = 1; optional int32 b = 1; }",
        "number 1 for several",
    ),
    (
        "PROTOBUF",
        "a huge number",
        "message M { optional int32 a = " + "9" * 100_000 + "; }",
        "a whole number",
    ),
    ("PROTOBUF", "an edition", 'edition = "2023"; message M {}', "editions are not supported"),
]


@pytest.mark.parametrize(("kind", "name", "text"), ACCEPTED, ids=lambda value: str(value)[:30])
def test_they_are_parsed_and_compared_in_time(kind: SchemaType, name: str, text: str) -> None:
    began = time.monotonic()
    schema = parse(kind, text)
    assert schema.is_same(parse(kind, schema.text))
    schema.normalized()
    incompatibilities(parse(kind, text), schema)
    assert time.monotonic() - began < _LIMIT_S


@pytest.mark.parametrize(
    ("kind", "name", "text", "said"), REFUSED, ids=lambda value: str(value)[:30]
)
def test_they_are_refused_in_one_line(kind: SchemaType, name: str, text: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidSchema) as refused:
        parse(kind, text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert time.monotonic() - began < _LIMIT_S


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"$ref": "http://[bad"}', "is not a URI"),
        ('{"$id": "http://[bad", "$ref": "#"}', "is not a URI"),
    ],
)
def test_what_is_no_uri_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidSchema, match=said):
        parse("JSON", text)


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_the_schemas_of_schemas_are_known(uri: str) -> None:
    schema = parse("JSON", json.dumps({"$schema": uri, "$ref": uri}))
    assert incompatibilities(schema, parse("JSON", schema.text)) == []


@pytest.mark.parametrize("reserved", ["3", "1 to 9", "8 to max, 2 to 4", '"a"'])
def test_reserved_names_and_numbers_are_refused(reserved: str) -> None:
    with pytest.raises(InvalidSchema, match="is reserved in M"):
        parse("PROTOBUF", f"message M {{ reserved {reserved}; optional int32 a = 3; }}")
    parse(
        "PROTOBUF",
        f"message M {{ reserved {reserved}; optional int32 b = 6; }}".replace("1 to 9", "1"),
    )


def test_patterns_are_matched_in_bounded_time() -> None:
    began = time.monotonic()
    old, new = parse("JSON", json.dumps(_PATTERN)), parse("JSON", json.dumps(_LONG_NAME))
    assert incompatibilities(new, old) == []
    assert time.monotonic() - began < _LIMIT_S


def test_many_alternatives_have_an_answer() -> None:
    old, new = (
        parse("JSON", json.dumps({"oneOf": [{"const": f"{word}{i}"} for i in range(1_000)]}))
        for word in ("old", "new")
    )
    assert [one.type for one in incompatibilities(new, old)] == ["SCHEMA_TOO_COMPLEX"]
    unions = [json.dumps([_record(f"{word}{i}") for i in range(1_000)]) for word in ("A", "B")]
    found = incompatibilities(parse("AVRO", unions[0]), parse("AVRO", unions[1]))
    assert [one.type for one in found] == ["SCHEMA_TOO_COMPLEX"]


def test_types_that_all_refer_to_one_another_are_compared() -> None:
    old, same, new = (parse("JSON", _recursive(kind)) for kind in ("string", "string", "integer"))
    assert incompatibilities(same, old) == []
    assert incompatibilities(new, old) != []
