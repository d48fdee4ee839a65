"""Runs a source task: reads ranges, and writes the records and the end of each in one transaction.

1. It initialises a producer with the transactional id that Kafka Connect would use. This fences all
   older producers of the task, so their open transactions cannot be committed any more.
2. It makes sure that the leader has not planned other tasks in the meantime (`plan_check`).
3. It reads the offsets topic to its end, and begins at the offset that it finds.
4. For each range, it writes the records and the new offset, and commits.

So a read_committed consumer gets each record once, wherever the task was killed. A source that does
not return the same records for the same range would break this.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from odradek.client import Producer
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.engine.figures import TaskFigures
from odradek.connect.engine.offset_store import OffsetStore, offset_key, offset_value
from odradek.connect.engine.record_path import Encoded, FailedRecords, RecordPath, when_ready
from odradek.connect.engine.retrying import Retries
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord
from odradek.spark.turns.turns import Turns

T = TypeVar("T")

_MAX_RECORDS: Final = 10_000
_FIRST_PAUSE_S: Final = 0.05
# How long the task works before other tasks on the event loop get their turn.
_MAX_TURN_S: Final = 0.01

PrepareTopic = Callable[[str], Awaitable[None]]


async def _no_preparation(topic: str) -> None:
    return


async def _no_check() -> None:
    return


def transactional_id_of(group_id: str, connector: str, number: int) -> str:
    """Returns the transactional id that Kafka Connect would use for a task. `group_id` is that of
    the workers."""
    return f"{group_id}-{connector}-{number}"


class SourceRunner:
    def __init__(
        self,
        connector: str,
        number: int,
        task: SourceTask,
        *,
        path: RecordPath,
        failed: FailedRecords,
        offsets: OffsetStore,
        producer_properties: Mapping[str, object],
        group_id: str,
        wrote_to: Callable[[str], None],
        retries: Retries | None = None,
        thread: TaskThread | None = None,
        figures: TaskFigures | None = None,
        prepare_topic: PrepareTopic = _no_preparation,
        turns: Turns | None = None,
        check_plan: Callable[[], Awaitable[None]] = _no_check,
    ) -> None:
        """`prepare_topic` is called before the first record of each topic, and may create the
        topic; then `wrote_to` is called. `check_plan` raises if the leader has other plans."""
        self._connector = connector
        self._task = task
        self._path = path.without_blocking()
        self._failed = failed
        self._offsets = offsets
        self._properties = {
            **producer_properties,
            "transactional.id": transactional_id_of(group_id, connector, number),
        }
        self._wrote_to = wrote_to
        self._retries = retries
        self._prepare_topic = prepare_topic
        self._turns = turns or Turns()
        self._check_plan = check_plan
        self._topics: set[str] = set()
        self._thread = thread or TaskThread(f"{connector}-{number}")
        self._figures = figures or TaskFigures()

    async def run(self, on_running: Callable[[], None]) -> None:
        """Runs until it is cancelled or fails. `on_running` is called before it reads."""
        try:
            async with self.producer() as producer:
                start = await self.begin(producer)
                on_running()
                await self._read_on(producer, start)
        finally:
            self.close()

    def close(self) -> None:
        """Closes the task in its thread, after the call that is in progress."""
        self._thread.close(self._task.close)

    def producer(self) -> Producer:
        """Returns a producer whose initialisation fences all others of this task."""
        return Producer(self._properties)

    async def begin(self, producer: Producer) -> Positions:
        """Fences all other producers of this task. Returns the offsets to begin at."""
        await producer.init_transactions()
        await self._check_plan()
        await self._offsets.read_to_end()
        return self._offsets.all_of(self._connector)

    async def reach(self, start: Positions) -> Positions:
        """Returns the end of the range that the task can read now."""
        return await self._call(partial(self._task.reach, start, _MAX_RECORDS))

    async def records(self, start: Positions, end: Positions) -> list[SourceRecord]:
        """Returns the records of a range."""
        found = await self._call(lambda: [*self._task.read(start, end)])
        self._figures.polled += len(found)
        return found

    async def encoded(self, record: SourceRecord) -> Encoded | None:
        """Returns a record as bytes for the producer; None if a transform dropped it, or if it
        failed and the connector tolerates that."""
        try:
            changed = self._path.changed(record)
            if changed is None:
                return None
            encoded = await self._ready(lambda: self._path.encoded(changed))
        except DataError as error:
            await self._failed.note(record, error)
            return None
        if encoded.topic not in self._topics:
            await self._prepare_topic(encoded.topic)
            self._topics.add(encoded.topic)
            self._wrote_to(encoded.topic)
        return encoded

    async def stored(self, end: Positions) -> None:
        """Tells the task that everything before `end` is committed."""
        self._figures.batches += 1
        await self._call(lambda: self._task.stored(end))

    async def _read_on(self, producer: Producer, start: Positions) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._turns.begin()
            end = await self.reach(start)
            if end == start:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._turns.longest_pause_s)
                continue
            pause_s = _FIRST_PAUSE_S
            await self._write(producer, start, end)
            start = end

    async def _write(self, producer: Producer, start: Positions, end: Positions) -> None:
        records = await self.records(start, end)
        async with producer.transaction():
            await self._send_all(producer, records)
            for partition, offset in end.since(start):
                key = offset_key(self._connector, partition)
                await producer.send(self._offsets.topic, offset_value(offset), key)
        await self.stored(end)

    async def _call(self, call: Callable[[], T]) -> T:
        if self._retries is None:
            return await self._thread.call(call)
        return await self._retries.run(lambda: self._thread.call(call))

    async def _ready(self, call: Callable[[], T]) -> T:
        if self._retries is None:
            return await when_ready(call, self._thread.call)
        return await self._retries.run(lambda: when_ready(call, self._thread.call))

    async def _send_all(self, producer: Producer, records: Sequence[SourceRecord]) -> None:
        """Sends records. In between it lets the event loop run the worker's other tasks."""
        loop = asyncio.get_running_loop()
        turn_ends_s = loop.time() + _MAX_TURN_S
        for record in records:
            await self._send(producer, record)
            if loop.time() > turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = loop.time() + _MAX_TURN_S

    async def _send(self, producer: Producer, record: SourceRecord) -> None:
        encoded = await self.encoded(record)
        if encoded is None:
            return
        self._figures.written += 1
        await producer.send(
            encoded.topic,
            encoded.value,
            encoded.key,
            partition=encoded.partition,
            headers=encoded.headers,
            timestamp_ms=encoded.timestamp_ms,
        )
