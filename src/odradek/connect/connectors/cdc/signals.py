"""What users ask of a connector while it runs.

A signal is a row of the table `signal.data.collection` (id, type, data), which the connector sees
in the log of its source, or a record of a topic, whose key is `topic.prefix` and whose value is
`{"id": ..., "type": ..., "data": {...}}`. Types are those of Debezium:

    execute-snapshot   {"data-collections": ["public.orders"], "type": "incremental",
                        "additional-conditions": [{"data-collection": ..., "filter": ...}]}
    stop-snapshot      {"data-collections": [...], "type": "incremental"}; all tables without names
    pause-snapshot, resume-snapshot
    log                {"message": "..."}

A signal that is wrong is named in the log and skipped: it must not stop the stream.
"""

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.client import Consumer
from odradek.connect.connectors.cdc.chunks import TableToRead
from odradek.connect.connectors.cdc.filters import patterns
from odradek.connect.errors import InvalidConfig
from odradek.protocol.errors import KafkaError

_log = logging.getLogger("odradek.connect")
_BLOCKING: Final = "blocking"
_POLL_MS: Final = 200
_RETRY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Signal:
    id: str
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """`tables` are patterns of the full names of tables."""

    id: str
    tables: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...] = ()
    surrogate_key: tuple[str, ...] | None = None
    is_blocking: bool = False

    def of(self, captured: Iterable[str]) -> list[TableToRead]:
        """Returns the captured tables that are meant, in the order of the signal."""
        captured = list(captured)
        found: dict[str, TableToRead] = {}
        for text in self.tables:
            for name in captured:
                if name not in found and _matches(text, name):
                    found[name] = TableToRead(
                        name,
                        self._condition(name),
                        self.surrogate_key,
                        self.id,
                        self.is_blocking,
                    )
        return list(found.values())

    def _condition(self, table: str) -> str | None:
        for text, condition in self.conditions:
            if _matches(text, table):
                return condition
        return None


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """`tables` are patterns; None stands for everything that is waiting."""

    id: str
    tables: tuple[str, ...] | None

    def of(self, waiting: Iterable[str]) -> list[str] | None:
        if self.tables is None:
            return None
        return [name for name in waiting if any(_matches(text, name) for text in self.tables)]


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    id: str


@dataclass(frozen=True, slots=True)
class WriteLog:
    id: str
    message: str


Action = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | WriteLog


def signal_of(row: Mapping[str, Any]) -> Signal | None:
    """Returns the signal of a row or a record, which has `id`, `type` and `data`; None if it is
    none, which the log says."""
    name, kind, data = row.get("id"), row.get("type"), row.get("data")
    if not isinstance(kind, str):
        _log.warning("a signal has no type, and is skipped: id %s", name)
        return None
    try:
        found = json.loads(data) if isinstance(data, str) and data else data or {}
    except ValueError:
        _log.warning("signal %s has data that is not JSON, and is skipped: %s", name, data)
        return None
    if not isinstance(found, dict):
        _log.warning("signal %s has data that is not a JSON object, and is skipped", name)
        return None
    return Signal(str(name), kind, found)


def action_of(signal: Signal, *, takes_blocking: bool = False) -> Action | None:
    """Returns what is to be done; None if the signal is wrong, which the log says."""
    try:
        return _action(signal, takes_blocking=takes_blocking)
    except (InvalidConfig, KeyError, TypeError, ValueError) as error:
        _log.warning("signal %s (%s) is skipped: %s", signal.id, signal.type, error)
        return None


def _action(signal: Signal, *, takes_blocking: bool) -> Action:
    data = signal.data
    match signal.type:
        case "execute-snapshot":
            is_blocking = takes_blocking and _kind(data) == _BLOCKING
            if not is_blocking:
                _only_incremental(data)
            tables = _names(data)
            if not tables:
                raise InvalidConfig("it names no tables in `data-collections`")
            return ExecuteSnapshot(
                signal.id,
                tables,
                tuple(
                    (str(entry["data-collection"]), str(entry["filter"]))
                    for entry in data.get("additional-conditions") or ()
                ),
                _surrogate(data.get("surrogate-key")),
                is_blocking,
            )
        case "stop-snapshot":
            _only_incremental(data)
            return StopSnapshot(signal.id, _names(data))
        case "pause-snapshot":
            return PauseSnapshot(signal.id)
        case "resume-snapshot":
            return ResumeSnapshot(signal.id)
        case "log":
            return WriteLog(signal.id, str(data["message"]))
    raise InvalidConfig("there is no signal of this type")


def _kind(data: Mapping[str, Any]) -> str:
    return str(data.get("type") or "incremental").lower()


def _only_incremental(data: Mapping[str, Any]) -> None:
    kind = _kind(data)
    if kind != "incremental":
        raise InvalidConfig(f"snapshots by signals are incremental, and this one is {kind}")


def _names(data: Mapping[str, Any]) -> tuple[str, ...] | None:
    found = data.get("data-collections")
    if not found:
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidConfig("`data-collections` is a list of names")
    for name in found:
        patterns(name)  # Raises what is wrong with it.
    return tuple(name.strip() for name in found)


def _surrogate(text: Any) -> tuple[str, ...] | None:
    return (str(text).strip(),) if text else None


def _matches(text: str, name: str) -> bool:
    plain = text.replace('"', "")
    return plain == name or any(pattern.fullmatch(name) for pattern in patterns(text))


class KafkaSignals:
    """Reads signals from a topic, in a thread with an event loop of its own, because a source task
    is not asynchronous. The group's offset is committed when the task says that what it has taken
    is stored; a signal that came before that comes again after a restart."""

    def __init__(self, topic: str, properties: Mapping[str, object], key: str) -> None:
        """`key` is that of the records that are meant for this connector."""
        self._topic = topic
        self._properties = dict(properties)
        self._key = key
        self._found: deque[Signal] = deque()
        self._is_closed = threading.Event()
        self._is_stored = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name=f"signals-{key}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def take(self) -> list[Signal]:
        """Returns the signals that have come since the last call."""
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def stored(self) -> None:
        """What the taken signals have asked for is stored in the offsets of the connector."""
        self._is_stored.set()

    def close(self) -> None:
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    async def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                await self._read()
            except (KafkaError, OSError) as error:
                _log.warning("signals of topic %s cannot be read: %s", self._topic, error)
                await asyncio.sleep(_RETRY_S)

    async def _read(self) -> None:
        options = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **self._properties,
        }
        async with Consumer(options) as consumer:
            consumer.subscribe([self._topic])
            while not self._is_closed.is_set():
                polled = await consumer.poll(timeout_ms=_POLL_MS)
                for records in polled.values():
                    for record in records:
                        self._note(record.key, record.value)
                if self._is_stored.is_set() and not self._found:
                    self._is_stored.clear()
                    await consumer.commit()

    def _note(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or key.decode("utf-8", "replace") != self._key or not value:
            return
        try:
            found = json.loads(value)
            signal = signal_of(found)
        except (ValueError, AttributeError):
            _log.warning("topic %s has a record that is not a signal; it is skipped", self._topic)
            return
        if signal is not None:
            self._found.append(signal)
