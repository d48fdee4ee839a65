"""The status topic, as Apache Kafka Connect 4.3.1 writes it and as we do."""

import json

from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.status_state import (
    State,
    Status,
    StatusState,
    connector_status,
    task_status,
    topic_forgotten,
    topic_used,
)

RUNNING = '{"state":"RUNNING","trace":null,"worker_id":"a:8083","generation":3,"version":"4.3.1"}'


def test_statuses_of_apache_are_read() -> None:
    state = StatusState()
    state.apply(b"status-connector-x", RUNNING.encode())
    state.apply(b"status-task-x-1-2", RUNNING.encode())
    topic = '{"topic":{"name":"t","connector":"x","task":0,"discoverTimestamp":1}}'
    state.apply(b"status-topic-t:connector-x", topic.encode())
    known = Status(State.RUNNING, "a:8083", 3, None, "4.3.1")
    assert state.connectors == {"x": known}
    assert state.tasks == {TaskId("x-1", 2): known}
    assert state.topics == {"x": {"t"}}


def test_statuses_are_written_as_apache_reads_them() -> None:
    key, value = task_status(TaskId("x", 0), Status(State.FAILED, "b:1", 2, "why", "1.0"))
    assert key == b"status-task-x-0"
    assert json.loads(value or b"") == {
        "state": "FAILED", "trace": "why", "worker_id": "b:1", "generation": 2, "version": "1.0",
    }  # fmt: skip
    key, value = topic_used(TaskId("x", 0), "t", 7)
    assert key == b"status-topic-t:connector-x"
    assert json.loads(value or b"")["topic"]["discoverTimestamp"] == 7


def test_tombstones_remove() -> None:
    state = StatusState()
    state.apply(b"status-connector-x", RUNNING.encode())
    state.apply(*topic_used(TaskId("x", 0), "t", 7))
    state.apply(*connector_status("x", None))
    state.apply(*topic_forgotten("x", "t"))
    assert state.connectors == {}
    assert state.topics == {"x": set()}


def test_bad_records_are_passed_over() -> None:
    state = StatusState()
    for key in (b"status-connector-x", b"status-task-x", b"status-topic-", b"?", None):
        for value in (b"{", b"[]", b'{"state":"NEW"}', b"7", None):
            state.apply(key, value)
    assert state.connectors == {}
    assert state.tasks == {}
