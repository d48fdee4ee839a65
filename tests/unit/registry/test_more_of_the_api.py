"""What Confluent's registry documents beyond the first steps: tags, modes, checks, aliases."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from odradek.schemas.errors import BadSchema
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.serializers import AvroSerializer, MessageField, SerializationContext
from tests.unit.registry.service import instance
from tests.unit.registry.test_api import B_DEFAULT, A, B, record

TAGS = [{"schemaEntity": {"entityPath": "R", "entityType": "sr_record"}, "tags": ["T1", "T2"]}]
BAD_DEFAULT = record({**A, "default": "x"})


async def test_inline_tags_make_a_version_and_are_listed() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        second = (await one.register("s", record(A), schemaTagsToAdd=TAGS)).json
        assert (second["id"], second["version"]) == (2, 2)
        assert json.loads(second["schema"])["confluent:tags"] == ["T1", "T2"]
        latest = (await one.ask("GET", "/subjects/s/versions/latest?findTags=*")).json
        assert latest["schemaTags"] == TAGS
        assert latest["metadata"] == {"properties": {"confluent:version": "2"}}
        gone = [{**TAGS[0], "tags": ["T2"]}]
        path = "/subjects/s/versions/latest/tags"
        third = (await one.ask("POST", path, {"tagsToRemove": gone})).json
        assert json.loads(third["schema"])["confluent:tags"] == ["T1"]
        # A new version takes the tags over where it is asked to.
        more = record(A, {**B_DEFAULT, "confluent:tags": ["T3"]})
        fourth = (await one.register("s", more, propagateSchemaTags=True)).json
        assert json.loads(fourth["schema"])["confluent:tags"] == ["T1"]
        by_id = f"/schemas/ids/{fourth['id']}?findTags=T1&findTags=T3"
        places = [
            (found["schemaEntity"]["entityPath"], found["tags"])
            for found in (await one.ask("GET", by_id)).json["schemaTags"]
        ]
        assert places == [("R", ["T1"]), ("R.b", ["T3"])]
        wrong = [{"schemaEntity": {"entityPath": "R.z", "entityType": "sr_field"}, "tags": ["T"]}]
        refused = await one.register("s", record(A), schemaTagsToAdd=wrong)
        assert refused.json["error_code"] == 42201


async def test_what_is_registered_is_answered_in_every_mode() -> None:
    async with instance() as one:
        first = (await one.register("s", record(A))).json["id"]
        for mode in ("READONLY", "READONLY_OVERRIDE", "IMPORT"):
            await one.ask("PUT", "/mode?force=true", {"mode": mode})
            assert (await one.register("s", record(A))).json["id"] == first
            assert (await one.register("s", record(A, B_DEFAULT))).json["error_code"] == 42205


async def test_a_schema_that_says_its_version_is_found_by_it() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        second = (await one.register("s", record(A), version=2)).json
        assert second["metadata"] == {"properties": {"confluent:version": "2"}}
        # -1 is the newest: the same schema needs no further version.
        assert (await one.register("s", record(A), version=-1)).json["version"] == 2
        assert (await one.register("s", record(A), version=2)).json["error_code"] == 42201

        async def found(metadata: Any) -> int:
            body = {"schema": record(A), "metadata": metadata}
            return int((await one.ask("POST", "/subjects/s", body)).json["version"])

        assert await found(None) == 1
        assert await found({"properties": {"confluent:version": "1"}}) == 1
        assert await found({"properties": {"confluent:version": "2"}}) == 2
        old = {"properties": {"confluent:version": "2"}}
        assert (await one.register("s", record(A), metadata=old)).json["id"] == second["id"]


async def test_what_is_imported_keeps_its_form_and_its_id() -> None:
    unsorted = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","z":1,"b":2}]}'
    async with instance() as one:
        await one.ask("PUT", "/mode/s", {"mode": "IMPORT"})
        await one.ask("PUT", "/config/s", {"normalize": True})
        await one.register("s", unsorted, id=7, version=3)
        assert (await one.ask("GET", "/schemas/ids/7")).json["schema"] == unsorted
        assert (await one.ask("GET", "/subjects/s/versions")).json == [3]
        await one.ask("PUT", "/mode/s", {"mode": "READWRITE"})
        assert (await one.register("s", unsorted)).json["id"] == 7
        later = (await one.register("s", record(A, B_DEFAULT))).json
        assert (later["id"], later["version"]) == (8, 4)


async def test_an_incompatible_schema_can_be_forced() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        assert (await one.register("s", record(A, B))).status == 409
        body = {"schema": record(A, B)}
        forced = await one.ask("POST", "/subjects/s/versions?force=true", body)
        assert forced.json["version"] == 2


async def test_wrong_defaults_count_unless_validation_is_switched_off() -> None:
    async with instance() as one:
        assert (await one.register("s", BAD_DEFAULT)).json["error_code"] == 42201
        await one.ask("PUT", "/config/s", {"validateNewSchemas": False})
        assert (await one.register("s", BAD_DEFAULT)).status == 200
        # An old schema that would be refused today does not keep the subject from going on.
        await one.ask("DELETE", "/config/s")
        later = record({**A, "default": 1}, B_DEFAULT)
        assert (await one.register("s", later)).json["version"] == 2
        named = '{"type":"record","name":"R","namespace":"a-b","fields":[]}'
        assert (await one.register("t", named)).json["error_code"] == 42201
        await one.ask("PUT", "/config/t", {"validateNewSchemas": False})
        assert (await one.register("t", named)).status == 200


async def test_fields_that_metadata_reserve_are_refused_where_that_is_asked_for() -> None:
    async with instance() as one:
        reserved = {"properties": {"confluent:reserved": "b, c"}}
        await one.register("s", record(A), metadata=reserved)
        again = await one.register("t", record(A, B_DEFAULT), metadata=reserved)
        assert again.status == 200
        await one.ask("PUT", "/config", {"validateFields": True})
        refused = await one.register("s", record(A, B_DEFAULT))
        assert refused.status == 409
        assert "conflicts with the reserved field b" in refused.json["message"]
        assert "validateFields: 'true'" in refused.json["message"]
        none = {"properties": {"confluent:reserved": "c"}}
        refused = await one.register("s", record(A, B_DEFAULT), metadata=none)
        assert "reserved field b removed" in refused.json["message"]
        dollars = '{"type":"object","properties":{"$$a":{"type":"string"}}}'
        assert (await one.register("u", dollars, "JSON")).json["error_code"] == 42201


async def test_who_asks_for_all_reasons_hears_of_an_invalid_schema_too() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        path, body = "/compatibility/subjects/s/versions/latest", {"schema": '{"type":"nonsense"}'}
        assert (await one.ask("POST", path, body)).json["error_code"] == 42201
        answer = await one.ask("POST", f"{path}?verbose=true", body)
        assert answer.json["is_compatible"] is False
        assert "Invalid schema" in answer.json["messages"][0]


async def test_reasons_have_the_notation_of_their_format() -> None:
    """Programs look for the type and, in Avro, for the name of the field."""
    dated = '{"type":"object","properties":{"a":{"type":"string"}}%s}'
    proto = 'syntax = "proto3"; message M { %s a = 1; }'
    async with instance() as one:
        await one.register("s", record(A))
        said = (await one.register("s", record(A, B))).json["message"]
        assert "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'" in said
        assert "additionalInfo:'b'}" in said
        await one.register("j", dated % "", "JSON")
        said = (await one.register("j", dated % ',"required":["a"]', "JSON")).json["message"]
        assert '{errorType:"REQUIRED_ATTRIBUTE_ADDED", description:"' in said
        await one.register("p", proto % "int32", "PROTOBUF")
        said = (await one.register("p", proto % "string", "PROTOBUF")).json["message"]
        assert '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"' in said


async def test_schemas_are_listed_by_rule_and_by_alias() -> None:
    async with instance() as one:
        rules = {"domainRules": [{"name": "r", "type": "CEL", "mode": "WRITE", "expr": "true"}]}
        await one.register("s", record(A), ruleSet=rules)
        await one.register("other", record(B))
        await one.ask("PUT", "/config/name-of-s", {"alias": "s"})

        async def listed(query: str) -> list[tuple[str, Any]]:
            answer = (await one.ask("GET", f"/schemas?{query}")).json
            return [(found["subject"], found.get("aliases")) for found in answer]

        assert await listed("ruleType=CEL") == [("s", None)]
        assert await listed("ruleType=JSONATA") == []
        assert await listed("subjectPrefix=name") == []
        assert await listed("subjectPrefix=name&aliases=true") == [("s", ["name-of-s"])]
        assert await listed("aliases=true") == [("other", None), ("s", ["name-of-s"])]


async def test_references_of_another_context_are_shown_in_full() -> None:
    async with instance() as one:
        await one.register(":.c:base", record(A))
        used = [{"name": "R", "subject": "base", "version": 1}]
        parent = '{"type":"record","name":"P","fields":[{"name":"r","type":"R"}]}'
        made = (await one.register(":.c:s", parent, references=used)).json
        path = f"/schemas/ids/{made['id']}?subject=:.c:s"
        assert (await one.ask("GET", path)).json["references"] == used
        assert (await one.ask("GET", "/schemas")).json == []
        assert len((await one.ask("GET", "/schemas?subjectPrefix=:*:")).json) == 2
        full = (await one.ask("GET", f"{path}&referenceFormat=qualified")).json
        assert full["references"] == [{**used[0], "subject": ":.c:base"}]


async def test_a_name_of_a_type_may_stand_in_an_object() -> None:
    async with instance() as one:
        used = record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
                      {"name": "again", "type": {"type": "E"}})  # fmt: skip
        stored = (await one.register("s", used)).json["schema"]
        assert json.loads(stored)["fields"][1]["type"] == "E"
        misspelt = record({"name": "e", "type": {"type": "strin"}})
        assert (await one.register("s", misspelt)).json["error_code"] == 42201


async def test_a_new_schema_may_not_refer_to_what_is_deleted() -> None:
    async with instance() as one:
        first = (await one.register("base", record(A))).json["id"]
        used = [{"name": "R", "subject": "base", "version": 1}]
        parent = '{"type":"record","name":"P","fields":[{"name":"r","type":"R"}]}'
        made = (await one.register("s", parent, references=used)).json["id"]
        await one.ask("DELETE", "/subjects/s")
        await one.ask("DELETE", "/subjects/base")
        refused = await one.register("t", parent, references=used)
        assert refused.json["error_code"] == 42201
        # What was registered before can be read and found.
        assert (await one.ask("GET", f"/schemas/ids/{first}")).json["deleted"] is True
        assert (await one.ask("GET", f"/schemas/ids/{made}?format=resolved")).status == 200
        body = {"schema": parent, "references": used}
        assert (await one.ask("POST", "/subjects/s?deleted=true", body)).json["id"] == made


async def test_a_serializer_does_not_write_past_a_rule() -> None:
    """A value that should be encrypted is not sent in plain because a client knows no rules."""
    rule = {"name": "pii", "type": "ENCRYPT", "mode": "WRITEREAD", "kind": "TRANSFORM"}
    read = {"name": "r", "type": "CEL", "mode": "READ", "kind": "CONDITION", "expr": "true"}
    async with instance() as one:
        await one.register("t-value", record(A), ruleSet={"domainRules": [rule]})
        await one.register("u-value", record(A), ruleSet={"domainRules": [read]})
        context = SerializationContext("t", MessageField.VALUE)
        url = f"http://127.0.0.1:{one.identity.port}"

        def write(schema: str | None, conf: dict[str, Any], context: Any = context) -> Any:
            with RegistryClient(url) as client:
                return AvroSerializer(client, schema, None, conf)({"a": 1}, context)

        # The second is new, and takes the rules over when it is registered.
        for schema, conf in (
            (record(A), {}),
            (record(A, B_DEFAULT), {}),
            (record(A), {"auto.register.schemas": False}),
            (None, {"use.latest.version": True}),
            (None, {"use.schema.id": 1}),
        ):
            with pytest.raises(BadSchema, match="pii"):
                await asyncio.to_thread(write, schema, conf)
        assert await asyncio.to_thread(write, record(A), {"odradek.ignore.rules": True})
        other = SerializationContext("u", MessageField.VALUE)
        assert await asyncio.to_thread(write, record(A), {}, other)


async def test_a_registry_that_is_read_only_overrides_the_modes_of_subjects() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        for name in ("s", ":.ctx:s"):
            path = f"/mode/{quote(name, safe='')}"
            assert (await one.ask("PUT", path, {"mode": "READWRITE"})).status == 200
        assert (await one.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})).status == 200
        assert (await one.ask("GET", "/mode/s?defaultToGlobal=true")).json == {
            "mode": "READONLY_OVERRIDE"
        }
        for name in ("s", ":.ctx:s"):
            refused = await one.register(name, record(A, B_DEFAULT))
            assert refused.json["error_code"] == 42205, name
        assert (await one.ask("DELETE", "/subjects/s")).json["error_code"] == 42205
        await one.ask("PUT", "/mode", {"mode": "READONLY"})
        assert (await one.register("s", record(A, B_DEFAULT))).status == 200
        assert (await one.ask("PUT", "/mode/s", {"mode": "READONLY_OVERRIDE"})).status == 200
        assert (await one.register("s", record(A))).status == 200
        assert (await one.register("s", '"string"')).json["error_code"] == 42205


async def test_the_newest_version_is_never_a_deleted_one() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        await one.ask("DELETE", "/subjects/s")
        for method, query in (("GET", "deleted=true"), ("DELETE", "permanent=true")):
            answer = await one.ask(method, f"/subjects/s/versions/latest?{query}")
            assert answer.json["error_code"] == 40402, method
        assert (await one.ask("GET", "/subjects/s/versions/1?deleted=true")).json["deleted"]


async def test_lists_without_a_limit() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        await one.register("s", record(A, B_DEFAULT))
        for limit in (0, -1, -7, 2, 9):
            found = await one.ask("GET", f"/subjects/s/versions?limit={limit}")
            assert found.json == [1, 2], limit
        await one.ask("DELETE", "/subjects/s/versions/1")
        path = "/subjects/s/versions?deletedOnly=true&deletedAsNegative=true"
        assert (await one.ask("GET", path)).json == [-1, 2]


async def test_rules_are_added_to_those_of_the_version_before() -> None:
    def rules(*names: str) -> dict[str, Any]:
        return {
            "domainRules": [
                {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
                for name in names
            ]
        }

    def names(answer: Any) -> list[str]:
        return [rule["name"] for rule in answer.json["ruleSet"]["domainRules"]]

    async with instance() as one:
        await one.register("s", record(A), ruleSet=rules("a"))
        path = "/subjects/s/versions/1/tags"
        second = await one.ask("POST", path, {"rulesToMerge": rules("b")})
        assert names(second) == ["a", "b"]
        third = await one.ask("POST", path, {"rulesToMerge": rules("c"), "rulesToRemove": ["a"]})
        assert names(third) == ["b", "c"]
        fourth = await one.ask("POST", path, {"newVersion": 4, "rulesToRemove": ["c"]})
        assert names(fourth) == ["b"]


async def test_avro_without_references() -> None:
    base = json.dumps({"type": "record", "name": "n.Base", "fields": [B_DEFAULT]})
    fields = [{"name": "one", "type": "n.Base"}, {"name": "two", "type": "n.Base"}]
    async with instance() as one:
        await one.register("base", base)
        references = [{"name": "n.Base", "subject": "base", "version": 1}]
        top = (await one.register("top", record(*fields), references=references)).json
        for path in (f"/schemas/ids/{top['id']}", "/subjects/top/versions/1"):
            found = json.loads((await one.ask("GET", f"{path}?format=resolved")).json["schema"])
            assert found["fields"][0]["type"]["name"] == "Base"
            assert found["fields"][1]["type"] == "n.Base"
            plain = (await one.ask("GET", f"{path}?format=unheard-of")).json["schema"]
            assert json.loads(plain)["fields"] == fields


async def test_protobuf_without_extensions() -> None:
    text = """syntax = "proto2";
import "confluent/meta.proto";
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { optional string own = 50000; }
message M {
  option (other) = true;
  required string s = 1 [(own) = "x", deprecated = true];
  optional string t = 2 [(confluent.field_meta).doc = "kept"];
  oneof o { string u = 3 [(own) = "x"]; }
  extensions 100 to 199;
  message N { optional E e = 1 [(own) = "x"]; }
  enum E { A = 0 [(own) = "x"]; }
}
service S { rpc Call(M) returns (M) { option (own) = "x"; } }
"""
    async with instance() as one:
        made = (await one.register("p", text, "PROTOBUF")).json
        path = f"/schemas/ids/{made['id']}?format=ignore_extensions"
        found = (await one.ask("GET", path)).json["schema"]
        for gone in ("extend", "own", "other"):
            assert gone not in found, gone
        assert "deprecated = true" in found
        assert "(confluent.field_meta)" in found
        assert "rpc Call (M) returns (M);" in found


async def test_the_global_context_has_the_defaults() -> None:
    async with instance() as one:
        path = quote(":.__GLOBAL:", safe="")
        assert (await one.ask("GET", f"/config/{path}")).json == {"compatibilityLevel": "BACKWARD"}
        assert (await one.ask("GET", f"/mode/{path}")).json == {"mode": "READWRITE"}
        await one.ask("PUT", f"/config/{path}", {"compatibility": "FULL", "aliasForDeks": "d"})
        found = {"compatibilityLevel": "FULL", "aliasForDeks": "d"}
        assert (await one.ask("GET", f"/config/{path}")).json == found


async def test_a_subject_that_is_asked_for_is_in_the_answer_even_if_it_is_empty() -> None:
    async with instance() as one:
        made = (await one.register("s", record(A))).json["id"]
        assert "subject" not in (await one.ask("GET", f"/schemas/ids/{made}")).json
        found = (await one.ask("GET", f"/schemas/ids/{made}?subject=")).json
        assert (found["subject"], found["version"]) == ("s", 1)


async def test_a_change_needs_a_body() -> None:
    async with instance() as one:
        for method, path in (
            ("POST", "/subjects/s/versions"),
            ("PUT", "/config"),
            ("PUT", "/mode"),
        ):
            assert (await one.ask(method, path, b"")).status == 422, path


async def test_what_was_deleted_is_told_with_the_words_of_other_registries() -> None:
    words = "was soft deleted.Set permanent=true to delete permanently"
    async with instance() as one:
        await one.register("s", record(A))
        await one.register("s", record(A, B_DEFAULT))
        await one.ask("DELETE", "/subjects/s/versions/1")
        again = await one.ask("DELETE", "/subjects/s/versions/1")
        assert again.json == {"error_code": 40406, "message": f"Subject 's' Version 1 {words}"}
        await one.ask("DELETE", "/subjects/s")
        again = await one.ask("DELETE", "/subjects/s")
        assert again.json == {"error_code": 40404, "message": f"Subject 's' {words}"}
