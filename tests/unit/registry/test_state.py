"""Records in Confluent's format make the state; a replay of a compacted topic the same."""

import json
from typing import Any

import pytest

from odradek.registry.records import Reference, Version, max_ids, written
from odradek.registry.state import RegistryState, guid
from odradek.statemachine.machine import LogRecord


def put(state: RegistryState, key: dict[str, Any], value: Any) -> str | None:
    return state.apply(
        json.dumps(key).encode(), None if value is None else json.dumps(value).encode(), 5
    )


def schema(
    state: RegistryState, subject: str, version: int, schema_id: int, text: str, **more: Any
) -> str | None:
    return put(
        state,
        {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1},
        {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": False}
        | more,
    )


class TestConfluentsRecords:
    def test_a_version_is_found_by_subject_id_and_guid(self) -> None:
        state = RegistryState()
        assert schema(state, "s", 1, 7, '"string"') is None
        (version,) = state.versions("s")
        assert (version.id, version.schema, version.schema_type) == (7, '"string"', "AVRO")
        assert state.places(".", 7) == [version]
        # The hash that Confluent's registry makes of this schema.
        assert guid(version) == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
        assert state.max_id(".") == 7

    def test_deletes_and_tombstones(self) -> None:
        state = RegistryState()
        for number in (1, 2, 3):
            schema(state, "s", number, number, f'{{"v":{number}}}')
        put(state, {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0},
            {"subject": "s", "version": 2})  # fmt: skip
        assert [one.version for one in state.versions("s")] == [3]
        assert [one.version for one in state.versions("s", deleted=True)] == [1, 2, 3]
        put(state, {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, None)
        assert state.places(".", 1) == []
        put(state, {"keytype": "CLEAR_SUBJECT", "subject": "s", "magic": 0}, {"subject": "s"})
        assert [one.version for one in state.versions("s", deleted=True)] == [3]
        assert state.max_id(".") == 3

    def test_settings_fall_back_to_context_and_registry(self) -> None:
        state = RegistryState()
        assert state.config_in_scope("s")["compatibilityLevel"] == "BACKWARD"
        put(state, {"keytype": "CONFIG", "subject": None, "magic": 0},
            {"compatibilityLevel": "FULL"})  # fmt: skip
        put(state, {"keytype": "CONFIG", "subject": ":.c:", "magic": 0},
            {"subject": ":.c:", "compatibilityLevel": "NONE"})  # fmt: skip
        put(state, {"keytype": "MODE", "magic": 0}, {"mode": "READONLY"})
        put(state, {"keytype": "MODE", "subject": "w", "magic": 0}, {"mode": "READWRITE"})
        assert state.config_in_scope("s")["compatibilityLevel"] == "FULL"
        assert state.config_in_scope(":.c:s")["compatibilityLevel"] == "NONE"
        assert state.config_in_scope(":.d:s")["compatibilityLevel"] == "BACKWARD"
        assert (state.mode_in_scope("s"), state.mode_in_scope("w")) == ("READONLY", "READWRITE")
        assert state.mode_in_scope(":.c:s") == "READWRITE"
        put(state, {"keytype": "MODE", "magic": 0}, None)
        assert state.mode_in_scope("s") == "READWRITE"

    def test_each_context_has_ids_of_its_own(self) -> None:
        state = RegistryState()
        schema(state, "s", 1, 1, '"int"')
        schema(state, ":.c:s", 1, 1, '"long"')
        assert state.places(".", 1)[0].schema == '"int"'
        assert state.places(".c", 1)[0].schema == '"long"'
        assert state.contexts() == [".", ".c"]


class TestForeignRecords:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, b"{}"),
            (b"", b"{}"),
            (b"garbage", None),
            (b"[1]", None),
            (b"{}", None),
            (b'{"keytype":"UNHEARD_OF"}', b"{}"),
            (b'{"keytype":"SCHEMA","subject":"s","version":1}', b"\xff"),
            (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":"x","schema":"y"}'),
            (b'{"keytype":"SCHEMA","subject":"s","version":0}', b"{}"),
            (b'{"keytype":"SCHEMA","subject":5,"version":1}', b"{}"),
            (b'{"keytype":"CONTEXT"}', b"{}"),
            (b"[" * 100_000, None),
        ],
    )
    def test_they_change_nothing_and_are_named(self, key: bytes | None, value: bytes) -> None:
        state = RegistryState()
        assert state.apply(key, value, 1)
        assert state.counts() == dict.fromkeys(state.counts(), 0)

    def test_an_id_never_gets_another_meaning(self) -> None:
        state = RegistryState()
        schema(state, "a", 1, 3, '"int"')
        problem = schema(state, "b", 1, 3, '"long"')
        assert problem is not None
        assert "already means" in problem
        assert not state.has_subject("b")
        assert state.places(".", 3)[0].schema == '"int"'

    def test_another_registry_may_print_a_schema_in_another_way(self) -> None:
        """Karapace does, when it marks a version as deleted."""
        state = RegistryState()
        schema(state, "a", 1, 3, '{"type":"array","items":"int"}')
        karapaces = '{"items": "int", "type": "array"}'
        assert schema(state, "b", 1, 3, karapaces) is None
        assert schema(state, "a", 1, 3, karapaces, deleted=True) is None
        assert not state.has_subject("a")
        assert state.places(".", 3)[0].schema == '{"type":"array","items":"int"}'

    def test_a_highest_id_that_was_kept_is_not_given_again(self) -> None:
        state = RegistryState()
        record = max_ids({".": 41, ".c": 2})
        assert state.apply(record.key, record.value, 1) is None
        assert (state.max_id("."), state.max_id(".c")) == (41, 2)


def test_what_is_written_is_read_back_equal() -> None:
    version = Version(
        ":.c:s", 2, 9, 'syntax = "proto3";', "PROTOBUF", (Reference("a.proto", "a", 1),),
        {"properties": {"owner": "ada"}}, {"domainRules": [{"name": "r", "type": "CEL"}]}, True, 5,
    )  # fmt: skip
    state = RegistryState()
    record = written(version)
    assert isinstance(record, LogRecord)
    assert record.key == b'{"keytype":"SCHEMA","subject":":.c:s","version":2,"magic":1}'
    assert state.apply(record.key, record.value, 5) is None
    assert state.version(":.c:s", 2, deleted=True) == version
    assert [one.version for one in state.referrers(":.c:a", 1)] == [2]
