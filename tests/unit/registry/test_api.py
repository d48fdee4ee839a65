"""The HTTP surface: what clients of Confluent's registry read from answers."""

import asyncio
import json
from typing import Any

import pytest

from tests.unit.registry.memory_log import MemoryTopic
from tests.unit.registry.service import V1, instance


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_DEFAULT = {**B, "default": ""}


async def test_a_schema_is_registered_found_and_evolved() -> None:
    async with instance() as one:
        first = (await one.register("a/b c%:ü", record(A))).json
        assert (first["id"], first["version"]) == (1, 1)
        again = (await one.register("a/b c%:ü", record(A))).json
        assert again["id"] == 1
        refused = await one.register("a/b c%:ü", record(A, B))
        assert (refused.status, refused.json["error_code"]) == (409, 409)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.json["message"]
        assert "oldSchemaVersion: 1" in refused.json["message"]
        assert (await one.register("a/b c%:ü", record(A, B_DEFAULT))).json["version"] == 2
        path = "/subjects/a%2Fb%20c%25%3A%C3%BC"
        assert (await one.ask("GET", f"{path}/versions")).json == [1, 2]
        found = (await one.ask("POST", path, {"schema": record(A)})).json
        assert (found["version"], found["id"]) == (1, 1)
        latest = (await one.ask("GET", f"{path}/versions/latest/schema")).json
        assert [field["name"] for field in latest["fields"]] == ["a", "b"]
        by_id = (await one.ask("GET", "/schemas/ids/2?fetchMaxId=true")).json
        assert by_id["maxId"] == 2
        by_guid = (await one.ask("GET", f"/schemas/guids/{by_id['guid']}")).json
        assert by_guid["schema"] == by_id["schema"]
        ids = (await one.ask("GET", f"/schemas/guids/{by_id['guid']}/ids")).json
        assert ids == [{"context": ".", "id": 2}]


async def test_a_client_that_names_no_content_type_is_served() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        body = json.dumps({"schema": record(A)}).encode()
        # As the Go client of Landoop looks a schema up.
        found = await one.client.ask("POST", "/subjects/s", body, {})
        assert (found.status, found.json["version"]) == (200, 1)
        of_a_page = await one.client.ask("POST", "/subjects/s", body, {"origin": "null"})
        assert of_a_page.status == 403


async def test_mistakes_of_the_first_hour_are_explained() -> None:
    async with instance() as one:
        said = await one.ask("PUT", "/config/s", {"compatability": "FULL"})
        assert said.status == 422
        assert said.json["message"].endswith("; did you mean compatibility?")
        assert (await one.ask("PUT", "/config/s", {"newer": 1, "alias": "t"})).status == 200
        said = await one.ask("POST", "/subjects/s/versions", {"schema": {"type": "string"}})
        assert said.status == 400
        assert "write it as text in quotation marks" in said.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/subjects/none/versions", None, 404, 40401),
        ("GET", "/subjects/s/versions/9", None, 404, 40402),
        ("GET", "/subjects/s/versions/0", None, 422, 42202),
        ("GET", "/schemas/ids/77", None, 404, 40403),
        ("GET", "/schemas/ids/x", None, 404, 40403),
        ("GET", "/schemas/guids/zz", None, 404, 40403),
        ("DELETE", "/subjects/none", None, 404, 40401),
        ("DELETE", "/subjects/s?permanent=true", None, 404, 40405),
        ("DELETE", "/subjects/s/versions/1?permanent=true", None, 404, 40407),
        ("GET", "/config/none", None, 404, 40408),
        ("GET", "/mode/none", None, 404, 40409),
        ("POST", "/subjects/s/versions", {"schema": "no schema"}, 422, 42201),
        ("POST", "/subjects/new/versions", {}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": "1", "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/s/versions", b"{", 400, 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400, 400),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("PUT", "/mode", {"mode": "SIDEWAYS"}, 422, 42204),
        ("PUT", "/mode", {"mode": "IMPORT"}, 422, 42205),
        ("POST", "/subjects/__EMPTY/versions", {"schema": '"int"'}, 422, 42208),
        ("DELETE", "/contexts/.none", None, 404, 40401),
        ("PATCH", "/config", None, 405, 405),
        ("GET", "/nothing", None, 404, 404),
    ],
)
async def test_errors_have_confluents_codes(
    method: str, path: str, body: Any, status: int, code: int
) -> None:
    async with instance() as one:
        await one.register("s", record(A))
        answer = await one.ask(method, path, body)
        assert (answer.status, answer.json["error_code"]) == (status, code)
        assert answer.headers["content-type"].startswith(V1) or status in {404, 405}


async def test_compatibility_is_asked_for_one_version_and_for_all() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        await one.register("s", record(A, B_DEFAULT))
        path = "/compatibility/subjects/s/versions"
        bad = {"schema": record({"name": "a", "type": "string"})}
        for which in ("", "/latest", "/1"):
            answer = (await one.ask("POST", f"{path}{which}?verbose=true", bad)).json
            assert answer["is_compatible"] is False
            assert "TYPE_MISMATCH" in answer["messages"][0]
            good = (await one.ask("POST", f"{path}{which}", {"schema": record(A)})).json
            assert good == {"is_compatible": True}
        assert (await one.ask("POST", "/compatibility/subjects/new/versions/latest", bad)).json == {
            "is_compatible": True
        }
        assert (await one.ask("POST", f"{path}/7", bad)).json["error_code"] == 40402


async def test_references_keep_what_they_refer_to() -> None:
    async with instance() as one:
        inner = json.dumps({"type": "record", "name": "I", "fields": [A]})
        await one.register("inner", inner)
        outer = record({"name": "i", "type": "I"})
        reference = {"name": "I", "subject": "inner", "version": -1}
        made = await one.register("outer", outer, references=[reference])
        assert made.json["references"] == [{**reference, "version": 1}]
        assert (await one.ask("GET", "/subjects/inner/versions/1/referencedby")).json == [2]
        for path in ("/subjects/inner", "/subjects/inner/versions/1"):
            assert (await one.ask("DELETE", path)).json["error_code"] == 42206
        missing = {**reference, "version": 9}
        answer = await one.register("other", outer, references=[missing])
        assert answer.json["error_code"] == 42201
        assert 'subject "inner" and version 9' in answer.json["message"]


async def test_contexts_are_name_spaces_with_urls_of_their_own() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        made = await one.ask("POST", "/contexts/.c/subjects/s/versions", {"schema": record(B)})
        assert (made.json["id"], made.json["subject"]) == (1, ":.c:s")
        assert (await one.ask("GET", "/contexts")).json == [".", ".c"]
        assert (await one.ask("GET", "/subjects")).json == [":.c:s", "s"]
        assert (await one.ask("GET", "/subjects?subjectPrefix=")).json == ["s"]
        assert (await one.ask("GET", "/contexts/.c/subjects")).json == [":.c:s"]
        found = (await one.ask("GET", "/contexts/.c/schemas/ids/1")).json
        assert json.loads(found["schema"])["fields"][0]["name"] == "b"
        await one.ask("PUT", "/contexts/.c/config", {"compatibility": "NONE"})
        assert (await one.ask("GET", "/config/:.c:")).json == {"compatibilityLevel": "NONE"}
        assert (await one.ask("DELETE", "/contexts/.c")).json["error_code"] == 42211
        for permanent in ("false", "true"):
            await one.ask("DELETE", f"/subjects/:.c:s?permanent={permanent}")
        assert (await one.ask("DELETE", "/contexts/.c")).status == 204
        assert (await one.ask("GET", "/contexts")).json == ["."]


async def test_settings_are_kept_merged_and_removed() -> None:
    async with instance() as one:
        put = {"compatibility": "full", "normalize": True, "compatibilityGroup": "app.version"}
        answer = await one.ask("PUT", "/config/s", put)
        assert answer.json == {**put, "compatibility": "FULL"}
        await one.ask("PUT", "/config/s", {"alias": "t", "compatibilityGroup": None})
        shown = (await one.ask("GET", "/config/s")).json
        assert shown == {"compatibilityLevel": "FULL", "normalize": True, "alias": "t"}
        await one.register("t", record(A))
        assert (await one.ask("GET", "/subjects/s/versions")).json == [1]
        assert (await one.ask("DELETE", "/config/s")).json == shown
        assert (await one.ask("GET", "/config/s?defaultToGlobal=true")).json == {
            "compatibilityLevel": "BACKWARD"
        }
        assert (await one.ask("PUT", "/mode/s", {"mode": "readonly"})).json == {"mode": "READONLY"}
        assert (await one.ask("GET", "/mode/s")).json == {"mode": "READONLY"}
        assert (await one.ask("DELETE", "/mode/s")).json == {"mode": "READONLY"}


async def test_metadata_and_rules_are_taken_over_and_make_another_schema() -> None:
    async with instance() as one:
        metadata = {"properties": {"owner": "ada"}}
        rules = {"domainRules": [{"name": "r", "type": "CEL", "mode": "WRITE", "expr": "true"}]}
        first = (await one.register("s", record(A), metadata=metadata, ruleSet=rules)).json
        assert (first["metadata"], first["ruleSet"]) == (metadata, rules)
        # Registering or looking up the same schema without them finds it.
        assert (await one.register("s", record(A))).json["version"] == 1
        found = (await one.ask("POST", "/subjects/s", {"schema": record(A)})).json
        assert found["version"] == 1
        other = {"properties": {"owner": "bob"}}
        assert (await one.register("s", record(A), metadata=other)).json["version"] == 2
        by = (await one.ask("GET", "/subjects/s/metadata?key=owner&value=ada")).json
        assert by["version"] == 1
        bad = {"domainRules": [{"name": "1", "type": "CEL"}]}
        assert (await one.register("s", record(A), ruleSet=bad)).json["error_code"] == 42210


async def test_a_deleted_schema_comes_back_as_a_new_version_with_its_id() -> None:
    async with instance() as one:
        await one.register("s", record(A))
        assert (await one.ask("DELETE", "/subjects/s")).json == [1]
        assert (await one.ask("GET", "/schemas/ids/1")).status == 200
        assert (await one.ask("GET", "/schemas/ids/1/versions")).json == []
        again = (await one.register("s", record(A))).json
        assert (again["id"], again["version"]) == (1, 2)
        assert (await one.ask("GET", "/subjects/s/versions?deleted=true")).json == [2]


class TestTwoInstances:
    async def test_a_change_is_passed_on_and_read_where_it_was_made(self) -> None:
        topic = MemoryTopic()
        async with instance(topic) as primary, instance(topic, elected=False) as other:
            other.elect(primary)
            made = await other.register("s", record(A))
            assert (made.status, made.json["id"]) == (200, 1)
            assert (await other.ask("GET", "/subjects/s/versions")).json == [1]
            refused = await other.register("s", record(A, B))
            assert refused.json["error_code"] == 409
            assert (await other.ask("DELETE", "/subjects/s")).json == [1]
            assert other.registry.forwarded == 3

    async def test_a_change_waits_for_the_next_primary(self) -> None:
        topic = MemoryTopic()
        async with instance(topic, elected=False) as other:
            async with instance(topic) as primary:
                other.elect(primary)
                await other.register("s", record(A))
            # The primary is gone; nothing listens at its address.
            waiting = asyncio.create_task(other.register("s", record(A, B_DEFAULT)))
            other.elect()
            assert (await waiting).json["version"] == 2

    async def test_two_that_take_each_other_for_the_primary_do_not_go_round(self) -> None:
        topic = MemoryTopic()
        async with instance(topic, elected=False) as a, instance(topic, elected=False) as b:
            a.elect(b)
            b.elect(a)
            answer = await a.register("s", record(A))
            assert (answer.status, answer.json["error_code"]) == (500, 50004)
