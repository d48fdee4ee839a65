"""Runs a sink task: reads topics in the group that Kafka Connect would use, writes, then commits.

Offsets are committed when the task says that the records are safe: when `write` returns, or when
they are not among those that it keeps (`SinkTask.unsafe`). After a failure records may
come again, and none is missed. By default only committed records are read, because the sources of
this platform write in transactions.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.client import Consumer
from odradek.client.errors import CommitFailed
from odradek.client.group.assignment import RebalanceListener
from odradek.connect.connector_settings import SinkSettings
from odradek.connect.connectors.connector import FailedRecord, SinkTask
from odradek.connect.engine.failures import FailedAt, Place, Stage
from odradek.connect.engine.figures import TaskFigures
from odradek.connect.engine.former_member import client_id_of, remove_former_member
from odradek.connect.engine.record_path import (
    FailedRecords,
    RecordPath,
    as_read,
    when_ready,
)
from odradek.connect.engine.retrying import Retries
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord
from odradek.connect.transforms.java_patterns import java_pattern
from odradek.protocol.types import TopicPartition
from odradek.spark.turns.turns import Turns

_log = logging.getLogger("odradek.connect")
_POLL_MS: Final = 1_000
_MAX_RECORDS: Final = 20_000

LONGEST_RETRY_S: Final = 120.0
"""Retries of a write end well before the group takes the partitions away (max.poll.interval.ms)."""


class _Losses(RebalanceListener):
    """Tells a task which partitions it has no more."""

    def __init__(self, tell: Callable[[list[TopicPartition]], Awaitable[None]]) -> None:
        self._tell = tell

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None]:
        return self._tell(partitions)


def group_of(connector: str, consumer_properties: Mapping[str, object]) -> str:
    """Returns the group whose offsets say how far a sink has written."""
    return str(consumer_properties.get("group.id") or f"connect-{connector}")


class _Ready(NamedTuple):
    """A record for the task, and as the consumer has returned it."""

    read: Any
    converted: SinkRecord


class SinkRunner:
    def __init__(
        self,
        connector: str,
        number: int,
        task: SinkTask,
        *,
        settings: SinkSettings,
        path: RecordPath,
        failed: FailedRecords,
        consumer_properties: Mapping[str, object],
        read_from: Callable[[str], None],
        retries: Retries | None = None,
        thread: TaskThread | None = None,
        figures: TaskFigures | None = None,
        class_name: str = "",
        turns: Turns | None = None,
    ) -> None:
        """`read_from` is told each topic at its first record. `class_name` is that of the
        connector, for what is said of records that it refuses."""
        self._task = task
        self._settings = settings
        self._path = path.without_blocking()
        self._failed = failed
        self._properties = {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # Each poll is one write and one commit, so many records at once cost less.
            "max.poll.records": _MAX_RECORDS,
            "client.id": client_id_of(connector, number),
            **{name: text for name, text in consumer_properties.items() if name != "client.id"},
            "group.id": group_of(connector, consumer_properties),
            "enable.auto.commit": "false",
        }
        self._read_from = read_from
        self._topics: set[str] = set()
        # The offset after the last record that was read of each partition.
        self._ends: dict[TopicPartition, int] = {}
        self._retries = retries
        self._turns = turns or Turns()
        self._thread = thread or TaskThread(f"{connector}-{number}")
        self._figures = figures or TaskFigures()
        self._put = Place(Stage.TASK_PUT, class_name)

    async def run(self, on_running: Callable[[], None]) -> None:
        """Runs until it is cancelled or fails. `on_running` is called when it reads."""
        try:
            await remove_former_member(
                self._properties,
                str(self._properties["group.id"]),
                str(self._properties["client.id"]),
            )
            async with Consumer(self._properties) as consumer:
                listener = _Losses(self._lost)
                if self._settings.topics:
                    consumer.subscribe(list(self._settings.topics), listener=listener)
                else:
                    pattern = java_pattern(self._settings.topics_regex).pattern
                    consumer.subscribe(pattern=pattern, listener=listener)
                on_running()
                await self._read_on(consumer)
        finally:
            self.close()

    def close(self) -> None:
        """Lets the task close what it has opened, after the call that is under way."""
        self._thread.close(self._task.close)

    async def _read_on(self, consumer: Consumer) -> None:
        while True:
            await self._turns.begin()
            polled = await consumer.poll(timeout_ms=_POLL_MS)
            keeps = self.keeps
            await self.put(record for taken in polled.values() for record in taken)
            self._ends.update({tp: taken[-1].offset + 1 for tp, taken in polled.items() if taken})
            if polled or keeps:
                await self._commit(consumer)

    @property
    def keeps(self) -> bool:
        """Whether the task keeps records that it has not written yet."""
        return bool(self._task.unsafe())

    async def put(self, records: Iterable[Any]) -> None:
        """Writes records as a consumer returns them. Afterwards they are safe, but for those that
        the task keeps."""
        ready: list[_Ready] = []
        for record in records:
            converted = await self._converted(record)
            if converted is not None:
                ready.append(converted)
        if ready or self.keeps:
            await self._write(ready)

    async def _lost(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._ends.pop(partition, None)
        names = [(partition.topic, partition.partition) for partition in partitions]
        await self._thread.call(lambda: self._task.lost(names))

    async def _commit(self, consumer: Consumer) -> None:
        unsafe = self._task.unsafe()
        safe = {
            partition: min(end, unsafe.get((partition.topic, partition.partition), end))
            for partition, end in self._ends.items()
        }
        try:
            # The positions are more than that: they skip what has no records.
            await consumer.commit(safe if unsafe else None)
        except CommitFailed as error:
            # The group has given the partitions to another task, which reads the records again.
            _log.info("offsets were not committed: %s", error)

    async def _write(self, ready: list[_Ready]) -> None:
        records = [one.converted for one in ready]
        failed = await self._call(lambda: self._task.write(records))
        self._figures.batches += 1
        self._figures.written += len(records) - len(failed)
        if not failed:
            return
        read = {id(one.converted): one.read for one in ready}
        for record, error in failed:
            await self._failed.note(as_read(read[id(record)]), self._at_put(error))

    async def _call(
        self, call: "Callable[[], Any]"
    ) -> "list[FailedRecord] | tuple[FailedRecord, ...]":
        if self._retries is None:
            return await self._thread.call(call)
        return await self._retries.run(lambda: self._thread.call(call))

    async def _ready(self, call: Callable[[], SinkRecord]) -> SinkRecord:
        if self._retries is None:
            return await when_ready(call, self._thread.call)
        return await self._retries.run(lambda: when_ready(call, self._thread.call))

    def _at_put(self, error: DataError) -> DataError:
        if isinstance(error, FailedAt):
            return error
        found = FailedAt(self._put, error)
        found.__cause__ = error
        return found

    async def _converted(self, record: Any) -> _Ready | None:
        """Returns the record for the task; None if it was dropped or skipped."""
        if record.topic not in self._topics:
            self._topics.add(record.topic)
            self._read_from(record.topic)
        self._figures.polled += 1
        try:
            changed = self._path.changed(await self._ready(lambda: self._path.decoded(record)))
        except DataError as error:
            await self._failed.note(as_read(record), error)
            return None
        return None if changed is None else _Ready(record, changed)
