"""What is called BACKWARD compatible can be read.

Hypothesis makes a schema, changes it at random, and asks for the verdict. If the new schema may
follow the old one, data of the old schema is generated, written with the old schema, and read with
the new one by the library that users have: fastavro, jsonschema, protobuf.

`PAIRS=5000 pytest ...` looks at more of them than the 40 for each format that a normal run does.

The rules of Confluent's registry are wider than that in some places. docs/schema-compatibility.md
lists them; schemas here do not have them.
"""

import io
import json
import os
from typing import Any

import fastavro
import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from odradek.schemas.compatibility import incompatibilities
from odradek.schemas.parsed import parse
from tests.unit.schemas import protobuf_pairs
from tests.unit.schemas.avro_pairs import avro_changes, avro_schemas, avro_values
from tests.unit.schemas.json_pairs import json_changes, json_schemas, json_values

_MANY = settings(
    max_examples=int(os.environ.get("PAIRS", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@_MANY
@given(st.data())
def test_avro(data: st.DataObject) -> None:
    old = data.draw(avro_schemas())
    new = data.draw(avro_changes(old))
    assume(not incompatibilities(_avro(new), _avro(old)))
    value = data.draw(avro_values(old))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_copied(old)), value)
    stream.seek(0)
    read = fastavro.schemaless_reader(
        stream, fastavro.parse_schema(_copied(old)), fastavro.parse_schema(_copied(new))
    )
    assert set(read) == {field["name"] for field in new["fields"]}


def _avro(schema: Any) -> Any:
    return parse("AVRO", json.dumps(schema))


def _copied(schema: Any) -> Any:
    return json.loads(json.dumps(schema))


@_MANY
@given(st.data())
def test_json_schema(data: st.DataObject) -> None:
    old = data.draw(json_schemas())
    new = data.draw(json_changes(old))
    assume(not incompatibilities(parse("JSON", json.dumps(new)), parse("JSON", json.dumps(old))))
    value = data.draw(json_values(old))
    jsonschema.validate(value, old)
    jsonschema.validate(value, new)


@_MANY
@given(st.data())
def test_protobuf(data: st.DataObject) -> None:
    old = data.draw(protobuf_pairs.messages())
    new = data.draw(protobuf_pairs.changes(old))
    old_text, new_text = protobuf_pairs.text_of(old), protobuf_pairs.text_of(new)
    assume(not incompatibilities(parse("PROTOBUF", new_text), parse("PROTOBUF", old_text)))
    value = data.draw(protobuf_pairs.values(old))
    read = protobuf_pairs.class_of(new_text)()
    read.ParseFromString(protobuf_pairs.written(old_text, value))
    protobuf_pairs.check_read(old, new, value, read)
