"""What the next records of a connector would look like, through its transforms and converters.

Nothing is written: no record, no offset. A source is opened as a task would open it, and read from
the offsets that are committed. A sink's topics are read from the offsets of its group, by a
consumer that is in no group. Code of the connector runs in a thread of its own, within a limit.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from odradek.client import Consumer
from odradek.client.admin.admin import Admin
from odradek.client.admin.group_types import GroupOffset
from odradek.config.redaction import redact
from odradek.connect.connector_settings import SinkSettings
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.engine.context import EngineContext, connector_of, is_source
from odradek.connect.engine.record_path import RecordPath, path_of
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.records import Record
from odradek.connect.transforms.java_patterns import java_pattern
from odradek.protocol.types import TopicPartition

_LIMIT_S: Final = 20.0
_POLL_MS: Final = 500
_QUIET_POLLS: Final = 3


class Preview:
    def __init__(self, context: EngineContext) -> None:
        self._context = context

    async def of(
        self, name: str, properties: Mapping[str, str], count: int
    ) -> list[dict[str, Any]]:
        """Returns up to `count` records. Raises `ConnectError`."""
        path = path_of(properties, self._context.worker)
        try:
            async with asyncio.timeout(_LIMIT_S):
                if is_source(properties):
                    return await self._of_source(name, properties, path, count)
                return await self._of_sink(name, properties, path, count)
        except TimeoutError:
            raise ConnectError(
                f"the connector has shown no record within {_LIMIT_S:.0f} s; is the other side"
                " there?"
            ) from None

    async def _of_source(
        self, name: str, properties: Mapping[str, str], path: RecordPath, count: int
    ) -> list[dict[str, Any]]:
        await self._context.offsets.read_to_end()
        start = self._context.offsets.all_of(name)
        thread = TaskThread(f"preview-{name}")
        task: SourceTask | None = None
        try:
            tasks = await thread.call(lambda: _tasks(properties))
            if not tasks:
                return []
            task = await thread.call(lambda: connector_of(tasks[0]).task())
            records = await thread.call(lambda: _read(task, start, count))
        finally:
            thread.close(None if task is None else task.close)
        return [_shown_for_topic(record, path) for record in records]

    async def _of_sink(
        self, name: str, properties: Mapping[str, str], path: RecordPath, count: int
    ) -> list[dict[str, Any]]:
        options = {
            "isolation.level": "read_committed",
            **self._context.clients.consumer(properties),
            "auto.offset.reset": "earliest",
            "max.poll.records": count,
        }
        options.pop("group.id", None)
        found: list[dict[str, Any]] = []
        async with Consumer(options) as consumer:
            await self._seek(consumer, name, properties)
            async for raw in _next_records(consumer):
                found.append(_shown_for_sink(raw, path))
                if len(found) >= count:
                    break
        return found

    async def _seek(self, consumer: Consumer, name: str, properties: Mapping[str, str]) -> None:
        """Assigns the partitions of a sink, from what its group has committed on."""
        settings = SinkSettings.read(properties)
        async with Admin(self._context.clients.admin(properties)) as admin:
            topics = list(settings.topics)
            if settings.topics_regex:
                pattern = java_pattern(settings.topics_regex)
                topics = [topic for topic in await admin.list_topics() if pattern.fullmatch(topic)]
            offsets = await admin.list_group_offsets(f"connect-{name}")
        partitions = [
            TopicPartition(topic, index)
            for topic in topics
            for index in await consumer.partitions_for(topic)
        ]
        consumer.assign(partitions)
        for tp in partitions:
            at = offsets.get(tp)
            if isinstance(at, GroupOffset) and at.offset >= 0:
                consumer.seek(tp, at.offset)


def _tasks(properties: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the properties of the task to look through."""
    connector = connector_of(properties)
    found: list[dict[str, str]] = connector.task_properties(
        connector.preview_properties(properties), 1
    )
    return found


def _read(task: SourceTask | None, start: Positions, count: int) -> list[Record]:
    """Reads ranges until there are enough records or there is nothing new."""
    assert task is not None
    found: list[Record] = []
    while len(found) < count:
        end = task.reach(start, count - len(found))
        if end == start:
            break
        found += task.read(start, end)
        start = end
    return found[:count]


async def _next_records(consumer: Consumer) -> AsyncIterator[Any]:
    quiet = 0
    while quiet < _QUIET_POLLS:
        polled = await consumer.poll(timeout_ms=_POLL_MS)
        quiet = 0 if polled else quiet + 1
        for records in polled.values():
            for record in records:
                yield record


def _shown_for_topic(record: Record, path: RecordPath) -> dict[str, Any]:
    try:
        changed = path.changed(record)
        if changed is None:
            return {"topic": record.topic, "dropped": True}
        encoded = path.encoded(changed)
    except DataError as error:
        return {"topic": record.topic, "error": redact(str(error))}
    return {
        "topic": encoded.topic,
        "partition": encoded.partition,
        "key": _text(encoded.key),
        "value": _text(encoded.value),
        "headers": {name: _text(value) for name, value in encoded.headers},
        "timestamp": encoded.timestamp_ms,
    }


def _shown_for_sink(raw: Any, path: RecordPath) -> dict[str, Any]:
    where = {"topic": raw.topic, "partition": raw.partition, "offset": raw.offset}
    try:
        changed = path.changed(path.decoded(raw))
    except DataError as error:
        return {**where, "error": redact(str(error))}
    if changed is None:
        return {**where, "dropped": True}
    return {
        **where,
        "topic": changed.topic,
        "key": _json_of(changed.key),
        "value": _json_of(changed.value),
        "headers": {header.name: _json_of(header.value) for header in changed.headers},
        "timestamp": changed.timestamp_ms,
    }


def _text(data: bytes | None) -> str | None:
    """Returns bytes as text, or what is not text in hexadecimal."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _json_of(value: Any) -> Any:
    """Returns a value as JSON shows it."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(bytes(value))
    if isinstance(value, Mapping):
        return {str(name): _json_of(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json_of(one) for one in value]
    return str(value)
