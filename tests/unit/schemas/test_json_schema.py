import json

import pytest

from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.json_schema import JsonCodec

_CLICK = {
    "type": "object",
    "properties": {
        "user": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "score": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "both": {"type": ["string", "integer"]},
        "place": {"$ref": "place.json"},
        "tree": {"$ref": "#/definitions/tree"},
    },
    "required": ["user"],
    "definitions": {
        "tag": {"type": "object", "properties": {"a b": {"type": "boolean"}}},
        "tree": {"type": "object", "properties": {"left": {"$ref": "#/definitions/tree"}}},
    },
}
_IMPORTS = [("place.json", '{"type": "object", "properties": {"x": {"type": "number"}}}')]


def test_a_column_has_a_type_and_text_where_none_fits() -> None:
    assert JsonCodec(json.dumps(_CLICK), _IMPORTS).column_type() == (
        "struct<`user`: bigint, `name`: string, `score`: double,"
        " `tags`: array<struct<`a b`: boolean>>, `counts`: map<string, bigint>, `any`: string,"
        " `both`: string, `place`: struct<`x`: double>, `tree`: struct<`left`: string>>"
    )


def test_values_are_checked_both_ways() -> None:
    codec = JsonCodec(json.dumps(_CLICK), _IMPORTS)
    value = {"user": 1, "name": "ü", "place": {"x": 0.5}}
    assert codec.decode(codec.encode(value)) == value
    assert codec.encode({"user": 1}) == b'{"user":1}'
    with pytest.raises(BadPayload, match=r"\$\.user: 'x' is not of type 'integer'"):
        codec.decode(b'{"user": "x"}')
    with pytest.raises(BadPayload, match=r"\$\.place\.x"):
        codec.encode({"user": 1, "place": {"x": "far"}})
    with pytest.raises(BadPayload, match="no JSON"):
        codec.decode(b"{")


def test_schemas_are_checked() -> None:
    with pytest.raises(BadSchema, match="no JSON schema"):
        JsonCodec('{"type": 5}')
    with pytest.raises(BadSchema, match="is no JSON"):
        JsonCodec("{")
    with pytest.raises(BadSchema, match="not known"):
        JsonCodec('{"$ref": "other.json"}').column_type()
    with pytest.raises(BadSchema, match="not known"):
        JsonCodec('{"$ref": "other.json"}').decode(b"1")
