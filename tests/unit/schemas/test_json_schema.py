import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

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
    with pytest.raises(BadPayload, match=r'\$\.user: "x" is not of type "integer"'):
        codec.decode(b'{"user": "x"}')
    with pytest.raises(BadPayload, match=r"\$\.place\.x"):
        codec.encode({"user": 1, "place": {"x": "far"}})
    with pytest.raises(BadPayload, match="not JSON"):
        codec.decode(b"{")


def test_schemas_are_checked() -> None:
    with pytest.raises(BadSchema, match="not a JSON schema"):
        JsonCodec('{"type": 5}')
    with pytest.raises(BadSchema, match="is not JSON"):
        JsonCodec("{")
    with pytest.raises(BadSchema, match="not known"):
        JsonCodec('{"$ref": "other.json"}').column_type()
    with pytest.raises(BadSchema, match="not known"):
        JsonCodec('{"$ref": "other.json"}').decode(b"1")


@pytest.mark.parametrize(
    "schema",
    [
        r'{"\u0024ref": "URL/a.json"}',
        '{"$schema": "URL/json-schema.org/x", "type": "integer"}',
        '{"$id": "URL/", "$ref": "a.json"}',
    ],
)
def test_a_schema_cannot_make_its_reader_fetch_anything(schema: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        checking = threading.Thread(target=_check, args=(schema.replace("URL", url),), daemon=True)
        checking.start()
        server.settimeout(0.5)
        with pytest.raises(TimeoutError):
            server.accept()
        checking.join(10)
        assert not checking.is_alive()


def _check(schema: str) -> None:
    with contextlib.suppress(BadSchema):
        JsonCodec(schema).decode(b"1")


def test_a_schema_cannot_look_into_files(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"type": "integer"}')
    reference = f"file://{tmp_path}/secret.json"
    codec = JsonCodec(json.dumps({"$ref": reference}).replace("$", r"\u0024"))
    with pytest.raises(BadSchema, match="not known"):
        codec.decode(b"1")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        (
            {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
            {"a" * 40 + "!": 1},
        ),
        (
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "patternProperties": {"^(a+)+$": {}},
                "unevaluatedProperties": False,
            },
            {"a" * 40 + "!": 1},
        ),
        (
            {
                "$ref": "#/definitions/30",
                "definitions": {"0": {"type": "integer"}}
                | {
                    str(index): {"allOf": [{"$ref": f"#/definitions/{index - 1}"}] * 2}
                    for index in range(1, 31)
                },
            },
            "x",
        ),
    ],
)
def test_a_hostile_schema_takes_little_time(schema: Any, value: Any) -> None:
    """Each of them took years with `jsonschema`, which held the interpreter meanwhile."""
    source = (
        "import json, sys; from odradek.schemas.json_schema import JsonCodec;"
        "JsonCodec(sys.argv[1]).decode(sys.argv[2].encode())"
    )
    # In a process of its own: a thread that holds the interpreter cannot be ended.
    command = [sys.executable, "-c", source, json.dumps(schema), json.dumps(value)]
    done = subprocess.run(command, timeout=30, capture_output=True, text=True, check=False)
    assert "does not fit its JSON schema" in done.stderr


def test_what_is_only_described_is_not_checked() -> None:
    schema = {"format": "date", "contentEncoding": "base64", "contentMediaType": "image/png"}
    assert JsonCodec(json.dumps(schema)).decode(b'"?"') == "?"


def test_values_that_are_nested_deeply() -> None:
    codec = JsonCodec('{"items": {"$ref": "#"}}')
    assert codec.decode(b"[" * 300 + b"]" * 300)
    with pytest.raises(BadPayload, match="nested too deeply"):
        codec.decode(b"[" * 100_000 + b"]" * 100_000)
