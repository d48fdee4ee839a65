"""Connectors, their tasks and their target states, as the records of Kafka Connect's config topic.

    connector-NAME       {"properties": {...}}, or nothing when the connector was deleted
    task-NAME-N          {"properties": {...}} of a task; it counts from the next commit on
    commit-NAME          {"tasks": N}: the tasks that were written since the last commit count now
    target-state-NAME    {"state": "PAUSED", "state.v2": "STOPPED"}: older workers read the first
    tasks-fencing-NAME   {"task-count": N}: the tasks of all earlier plans of a source are fenced,
                         and those of the newest plan, N of them, may start
    restart-connector-NAME, logger-cluster-NAME, session-key

A topic that Apache Kafka Connect has written can be read, and it can read what is written here.
Records are applied in the order of the topic, so all workers have the same state at an offset.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

_log = logging.getLogger("odradek.connect")

_CONNECTOR: Final = "connector-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_TARGET: Final = "target-state-"
_RESTART: Final = "restart-connector-"
_LOGGER: Final = "logger-cluster-"
_FENCING: Final = "tasks-fencing-"
_SESSION_KEY: Final = "session-key"

Properties = Mapping[str, str]


class ConfigRecord(NamedTuple):
    key: str
    value: Mapping[str, Any] | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        value = self.value
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        return self.key.encode(), text


class TargetState(Enum):
    """What a user wants of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Every worker restarts what it runs of the connector, when it reads this."""

    connector: str
    includes_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """Every worker sets the level of a logger."""

    logger: str
    level: str


Request = RestartRequest | LevelRequest


class ConfigState:
    def __init__(self) -> None:
        self.connectors: dict[str, dict[str, str]] = {}
        self.targets: dict[str, TargetState] = {}
        self.tasks: dict[str, list[dict[str, str]]] = {}
        # Tasks whose commit was not read yet, by their number.
        self._written: dict[str, dict[int, dict[str, str]]] = {}
        self.incomplete: set[str] = set()
        """Connectors whose commit counts tasks that are not there: they are planned again."""
        self.unfenced: set[str] = set()
        """Connectors with a plan after which no record says that earlier tasks are fenced. This
        matters for sources only."""
        self.fenced_counts: dict[str, int] = {}
        """How many tasks the newest plan has that was allowed to start. It outlives the connector:
        one of the same name has to fence these tasks too."""

    def target(self, connector: str) -> TargetState:
        return self.targets.get(connector, TargetState.STARTED)

    def apply(self, key: bytes | None, value: bytes | None) -> Request | None:
        """Applies a record; returns what it asks workers to do. A record that cannot be read is
        skipped: one bad record must not stop every worker."""
        name = (key or b"").decode("utf-8", "replace")
        try:
            content = None if not value else json.loads(value)
            return self._apply(name, content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("the record %r of the config topic is skipped: %r", name, error)
            return None

    def _apply(self, key: str, content: Any) -> Request | None:
        if key.startswith(_CONNECTOR):
            self._apply_connector(key.removeprefix(_CONNECTOR), content)
        elif key.startswith(_TASK):
            name, _, number = key.removeprefix(_TASK).rpartition("-")
            if content is not None:
                self._written.setdefault(name, {})[int(number)] = _properties(content)
        elif key.startswith(_COMMIT):
            self._apply_commit(key.removeprefix(_COMMIT), content)
        elif key.startswith(_TARGET):
            self._apply_target(key.removeprefix(_TARGET), content)
        elif key.startswith(_FENCING):
            self._apply_fencing(key.removeprefix(_FENCING), content)
        elif key.startswith((_RESTART, _LOGGER)):
            return None if content is None else _request(key, content)
        elif key != _SESSION_KEY:
            _log.warning("the record %r of the config topic is of no known kind", key)
        return None

    def _apply_connector(self, name: str, content: Any) -> None:
        if content is not None:
            self.connectors[name] = _properties(content)
            return
        for known in (self.connectors, self.targets, self.tasks, self._written):
            known.pop(name, None)
        self.incomplete.discard(name)
        self.unfenced.discard(name)

    def _apply_commit(self, name: str, content: Any) -> None:
        if content is None:
            return
        count = int(content["tasks"])
        self.unfenced.add(name)
        known = dict(enumerate(self.tasks.get(name, ())))
        known.update(self._written.pop(name, {}))
        if all(number in known for number in range(count)):
            self.tasks[name] = [known[number] for number in range(count)]
            self.incomplete.discard(name)
        else:
            # Compaction has removed tasks of an older generation than this commit.
            self.tasks[name] = []
            self.incomplete.add(name)

    def _apply_fencing(self, name: str, content: Any) -> None:
        if content is not None:
            self.fenced_counts[name] = int(content["task-count"])
            self.unfenced.discard(name)

    def _apply_target(self, name: str, content: Any) -> None:
        if content is None:
            self.targets.pop(name, None)
            return
        self.targets[name] = TargetState(content.get("state.v2") or content["state"])


def _request(key: str, content: Any) -> Request:
    if key.startswith(_LOGGER):
        return LevelRequest(key.removeprefix(_LOGGER), str(content["level"]))
    name = key.removeprefix(_RESTART)
    return RestartRequest(name, content["include-tasks"], content["only-failed"])


def _properties(content: Any) -> dict[str, str]:
    return {
        str(name): text if isinstance(text, str) else str(text)
        for name, text in content["properties"].items()
        if text is not None
    }


def connector_record(name: str, properties: Properties) -> ConfigRecord:
    return ConfigRecord(f"{_CONNECTOR}{name}", {"properties": dict(properties)})


def deletion(name: str) -> list[ConfigRecord]:
    return [ConfigRecord(f"{_CONNECTOR}{name}", None), ConfigRecord(f"{_TARGET}{name}", None)]


def task_records(name: str, tasks: Iterable[Properties]) -> list[ConfigRecord]:
    """Returns the records by which a connector has exactly these tasks."""
    records = [
        ConfigRecord(f"{_TASK}{name}-{number}", {"properties": dict(properties)})
        for number, properties in enumerate(tasks)
    ]
    return [*records, ConfigRecord(f"{_COMMIT}{name}", {"tasks": len(records)})]


def fencing_record(name: str, count: int) -> ConfigRecord:
    """Returns the record by which the tasks of a source may start."""
    return ConfigRecord(f"{_FENCING}{name}", {"task-count": count})


def target_record(name: str, target: TargetState) -> ConfigRecord:
    for_older = TargetState.PAUSED if target is TargetState.STOPPED else target
    return ConfigRecord(f"{_TARGET}{name}", {"state": for_older.value, "state.v2": target.value})


def restart_record(request: RestartRequest) -> ConfigRecord:
    return ConfigRecord(
        f"{_RESTART}{request.connector}",
        {"include-tasks": request.includes_tasks, "only-failed": request.only_failed},
    )


def level_record(request: LevelRequest) -> ConfigRecord:
    return ConfigRecord(f"{_LOGGER}{request.logger}", {"level": request.level})
