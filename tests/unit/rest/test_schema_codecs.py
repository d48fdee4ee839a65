"""How a request for a key or value names its schema, and what the answer says of it."""

import json
from uuid import UUID

import msgspec
import pytest

from odradek.rest.schema_codecs import write
from odradek.rest.schema_formats import CallerFormats, SchemaOf
from odradek.schemas.framing import guid_header, message_path
from odradek.schemas.registry_client import RegistryClient
from odradek.web.problems import Problem
from tests.unit.schemas.registries import Registry, registry

PROTO = 'syntax = "proto3"; message First {} message Second { string n = 1; }'
USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "n", "type": "string"}]})


def written(known: Registry, wanted: SchemaOf, data: bytes = b'{"n": "x"}') -> dict[str, object]:
    with RegistryClient(known.url) as client:
        return write(client, "clicks", wanted, data, False).described


def test_a_schema_by_its_id_is_described_with_subject_and_version() -> None:
    with registry() as known:
        known.add("clicks-value", {"schema": '"string"'})
        schema_id = known.add("clicks-value", {"schema": USER})
        described = {"subject": "clicks-value", "schema_id": schema_id, "schema_version": 2}
        assert written(known, SchemaOf(None, schema_id=schema_id)) == described
        known.add("User", {"schema": USER})
        by_record = SchemaOf(None, strategy="RECORD_NAME", schema_id=schema_id)
        assert written(known, by_record) == {**described, "subject": "User", "schema_version": 1}


def test_an_id_of_another_subject_is_written_with_and_no_version_is_invented() -> None:
    with registry() as known:
        schema_id = known.add("other", {"schema": USER})
        assert written(known, SchemaOf(None, schema_id=schema_id)) == {"schema_id": schema_id}


def test_a_version_that_does_not_exist_is_a_bad_request() -> None:
    with registry() as known, pytest.raises(Problem, match="clicks-value, version: 7") as refused:
        written(known, SchemaOf(None, version=7))
    assert refused.value.code == 400


def test_a_strategy_by_record_needs_a_schema() -> None:
    with registry() as known:
        known.add("clicks-value", {"schema": USER})
        with pytest.raises(Problem, match="RECORD_NAME") as refused:
            written(known, SchemaOf(None, strategy="RECORD_NAME"))
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("kind", "text", "payload", "path", "data"),
    [
        ("AVRO", USER, b"\x02x", b"", {"n": "x"}),
        ("JSON", "{}", b'{"n": 1}', b"", {"n": 1}),
        ("PROTOBUF", PROTO, b"\x0a\x01x", message_path((1,)), {"n": "x"}),
    ],
)
async def test_a_record_whose_header_names_the_schema(
    kind: str, text: str, payload: bytes, path: bytes, data: object
) -> None:
    with registry() as known, RegistryClient(known.url) as client:
        schema_id = known.add("s", {"schema": text, "schemaType": kind})
        guid = str(known.guid(schema_id))
        formats = CallerFormats(client)
        for part in ("key", "value"):
            headers = [(f"__{part}_schema_id", guid_header(UUID(guid).bytes, path))]
            found = await formats.shown(payload, headers, part)
            assert found is not None
            assert found["schema_guid"] == guid
            assert json.loads(msgspec.json.encode(found["data"])) == data
            other = await formats.shown(payload, headers, "value" if part == "key" else "key")
            assert other is not None
            assert "schema_guid" not in other
