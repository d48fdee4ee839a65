"""How connectors and tasks are, as the records of Kafka Connect's status topic.

    status-connector-NAME               {"state": "RUNNING", "trace": null, "worker_id": "host:1",
    status-task-NAME-N                   "generation": 3, "version": "1.0"}
    status-topic-TOPIC:connector-NAME   {"topic": {"name": ..., "connector": NAME, "task": 0, ...}}

A tombstone removes what is known. A generation counts the times that the group of workers has
shared out its work: what a worker says that was not there any more is skipped.
"""

import json
import logging
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from odradek.connect.engine.engine import TaskId

_log = logging.getLogger("odradek.connect")

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_OF: Final = ":connector-"


class State(Enum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class Status:
    state: State
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None


class StatusRecord(NamedTuple):
    key: bytes
    value: bytes | None


class StatusState:
    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[TaskId, Status] = {}
        self.topics: dict[str, set[str]] = {}

    def tasks_of(self, connector: str) -> dict[int, Status]:
        return {
            task.number: status
            for task, status in sorted(self.tasks.items())
            if task.connector == connector
        }

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode("utf-8", "replace")
        try:
            self._apply(name, None if not value else json.loads(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("the record %r of the status topic is skipped: %r", name, error)

    def _apply(self, key: str, content: Any) -> None:
        if key.startswith(_CONNECTOR):
            _put(self.connectors, key.removeprefix(_CONNECTOR), content)
        elif key.startswith(_TASK):
            name, _, number = key.removeprefix(_TASK).rpartition("-")
            _put(self.tasks, TaskId(name, int(number)), content)
        elif key.startswith(_TOPIC):
            topic, _, connector = key.removeprefix(_TOPIC).partition(_OF)
            if content is None:
                self.topics.get(connector, set()).discard(topic)
            else:
                self.topics.setdefault(connector, set()).add(topic)


def _put(known: dict[Any, Status], name: Any, content: Any) -> None:
    if content is None:
        known.pop(name, None)
        return
    known[name] = Status(
        State(content["state"]),
        content["worker_id"],
        int(content.get("generation") or 0),
        content.get("trace"),
        content.get("version"),
    )


def connector_status(name: str, status: Status | None) -> StatusRecord:
    return StatusRecord(f"{_CONNECTOR}{name}".encode(), _encoded(status))


def task_status(task: TaskId, status: Status | None) -> StatusRecord:
    return StatusRecord(f"{_TASK}{task}".encode(), _encoded(status))


def topic_used(task: TaskId, topic: str, now_ms: int) -> StatusRecord:
    content = {
        "name": topic,
        "connector": task.connector,
        "task": task.number,
        "discoverTimestamp": now_ms,
    }
    key = f"{_TOPIC}{topic}{_OF}{task.connector}".encode()
    return StatusRecord(key, json.dumps({"topic": content}, separators=(",", ":")).encode())


def topic_forgotten(connector: str, topic: str) -> StatusRecord:
    return StatusRecord(f"{_TOPIC}{topic}{_OF}{connector}".encode(), None)


def _encoded(status: Status | None) -> bytes | None:
    if status is None:
        return None
    content = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    if status.version is not None:
        content["version"] = status.version
    return json.dumps(content, separators=(",", ":")).encode()
