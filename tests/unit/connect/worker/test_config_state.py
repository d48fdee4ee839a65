"""The config topic, as Apache Kafka Connect 4.3.1 writes it and as we do."""

import json

from odradek.connect.worker.config_state import (
    ConfigRecord,
    ConfigState,
    LevelRequest,
    RestartRequest,
    TargetState,
    connector_record,
    deletion,
    level_record,
    restart_record,
    target_record,
    task_records,
)

# Records of a cluster of Apache's with one connector, which was paused, and of its other kinds.
OF_APACHE = [
    ("session-key", '{"key":"a2V5","algorithm":"HmacSHA256","creation-timestamp":1763524800000}'),
    ("target-state-lines", '{"state":"PAUSED","state.v2":"PAUSED"}'),
    (
        "connector-lines",
        '{"properties":{"connector.class":"FileStreamSource","topic":"t","key.converter":null}}',
    ),
    (
        "task-lines-0",
        '{"properties":{"file":"/a","task.class":"o.a.k.connect.file.FileStreamSourceTask"}}',
    ),
    ("commit-lines", '{"tasks":1}'),
    ("tasks-fencing-lines", '{"task-count":1}'),
]


def state_of(records: list[tuple[str, str | None]]) -> ConfigState:
    state = ConfigState()
    for key, value in records:
        state.apply(key.encode(), None if value is None else value.encode())
    return state


def applied(state: ConfigState, *records: ConfigRecord) -> list[object]:
    return [state.apply(*record.encoded()) for record in records]


def test_the_topic_of_an_apache_cluster_is_read() -> None:
    state = state_of([*OF_APACHE])
    assert state.connectors == {"lines": {"connector.class": "FileStreamSource", "topic": "t"}}
    assert state.target("lines") is TargetState.PAUSED
    assert [task["file"] for task in state.tasks["lines"]] == ["/a"]
    assert not state.incomplete


def test_target_states_of_older_workers_have_one_word() -> None:
    state = state_of([("target-state-a", '{"state":"PAUSED"}')])
    assert state.target("a") is TargetState.PAUSED
    assert state.target("unknown") is TargetState.STARTED


def test_records_have_the_fields_of_apaches() -> None:
    written = [
        record.encoded()
        for record in (
            connector_record("a", {"x": "1"}),
            *task_records("a", [{"y": "2"}]),
            target_record("a", TargetState.STOPPED),
            restart_record(RestartRequest("a", True, False)),
            *deletion("a"),
        )
    ]
    assert [(key.decode(), value and json.loads(value)) for key, value in written] == [
        ("connector-a", {"properties": {"x": "1"}}),
        ("task-a-0", {"properties": {"y": "2"}}),
        ("commit-a", {"tasks": 1}),
        ("target-state-a", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ("restart-connector-a", {"include-tasks": True, "only-failed": False}),
        ("connector-a", None),
        ("target-state-a", None),
    ]


def test_tasks_count_from_their_commit_on() -> None:
    state = ConfigState()
    applied(state, connector_record("a", {}), *task_records("a", [{"n": "1"}, {"n": "2"}]))
    *tasks, commit = task_records("a", [{"n": "3"}])
    applied(state, *tasks)
    assert [task["n"] for task in state.tasks["a"]] == ["1", "2"]
    applied(state, commit)
    assert [task["n"] for task in state.tasks["a"]] == ["3"]


def test_a_commit_whose_tasks_were_compacted_away_is_planned_again() -> None:
    state = state_of([("connector-a", '{"properties":{}}'), ("commit-a", '{"tasks":2}')])
    assert state.incomplete == {"a"}
    assert state.tasks["a"] == []
    applied(state, *task_records("a", [{}]))
    assert not state.incomplete


def test_names_may_have_dashes() -> None:
    state = ConfigState()
    applied(state, connector_record("a-1", {}), *task_records("a-1", [{"n": "1"}]))
    assert state.tasks == {"a-1": [{"n": "1"}]}


def test_a_deleted_connector_leaves_nothing() -> None:
    state = state_of([*OF_APACHE])
    applied(state, *deletion("lines"))
    assert (state.connectors, state.tasks, state.targets) == ({}, {}, {})


def test_bad_records_are_passed_over() -> None:
    bad = ["", "{", "[]", '{"properties":3}', '{"tasks":"x"}', '{"state":"?"}', "null", "\x00"]
    keys = ["connector-a", "task-a-0", "task-a-x", "commit-a", "target-state-a", "other", ""]
    state = state_of([(key, value) for key in keys for value in bad])
    assert state.connectors == {}
    state.apply(None, b"{}")
    state.apply(b"\xff", b"\xff")
    applied(state, connector_record("a", {"x": "1"}))
    assert state.connectors == {"a": {"x": "1"}}


def test_requests_are_for_workers_and_change_no_state() -> None:
    state = ConfigState()
    restart, level = RestartRequest("a", False, True), LevelRequest("odradek.connect", "DEBUG")
    assert applied(state, restart_record(restart), level_record(level)) == [restart, level]
