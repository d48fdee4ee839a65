"""A source in a lane of its own: one process reads, and the records go through Spark as rows.

The tasks of the connector live in the process that plans the query, because a source may keep
something between two ranges: an open file, a cursor, a connection. They read a range each; its
records, transformed and converted, become rows. Then each task's rows are written in one
transaction by a Python worker, with the offset as a row among them, by compiled loops and in whole
batches.

Why that is exactly once, whoever is killed:

1. When the query starts, it initialises the transactional ids that Kafka Connect would use. What
   was open is aborted. Then it reads the topic of offsets to its end, and begins there.
2. A writer initialises the id of its task, makes sure that the leader has not planned other tasks
   meanwhile, reads the topic of offsets to its end, and compares: if the committed offset is the
   end of its range, an earlier attempt has written it, and nothing is left to do. If it is not the
   start either, the batch is of another time, and is refused.
3. It writes the records and the new offset in one transaction.

Only one writer can be between 2 and 3 for a task: initialising fences all others. So an attempt
that was thought dead and comes back either finds the offset moved, or is the one that moves it.
"""

# ruff: noqa: N802, N803 - Spark names these methods
import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from odradek.client.sync import LoopThread
from odradek.connect.connectors.positions import Positions
from odradek.connect.engine.offset_store import OffsetStore, offset_key, offset_value
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.engine.record_path import Encoded
from odradek.connect.engine.source_runner import SourceRunner, transactional_id_of
from odradek.connect.errors import ConnectError
from odradek.connect.lanes.handing_over import (
    OPTION,
    HandedOver,
    SilentListener,
    kafka_options,
    within,
)
from odradek.spark.failures import plain_errors
from odradek.spark.options import SinkOptions
from odradek.world.clock import SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA: Final = (
    "task int, range string, topic string, partition int, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>, timestamp timestamp"
)
# Of a batch and a task: a batch ends at the first of them.
_MOST_RECORDS: Final = 100_000
_LONGEST_S: Final = 0.5
_IDLE_S: Final = 0.3
_PAUSE_S: Final = 0.02
_clock: Final = SystemClock()

Row = tuple[Any, ...]
Offset = dict[str, Any]


def rows(spark: SparkSession, given: HandedOver) -> DataFrame:
    return spark.readStream.format(OwnSource.name()).option(OPTION, given.to_text()).load()


class Range(NamedTuple):
    """What a task has read in a batch. Both have only the partitions that have moved."""

    start: Positions
    end: Positions

    def to_json(self) -> str:
        return json.dumps([[*self.start], [*self.end]])

    @classmethod
    def of_json(cls, text: str) -> "Range":
        start, end = json.loads(text)
        return cls(Positions(start), Positions(end))


class OwnSource(DataSource):
    """The data source that such a query reads, and the one that it writes to."""

    @classmethod
    def name(cls) -> str:
        return "odradek-connect-source"

    def schema(self) -> str:
        return _SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return OwnSourceReader(self.options[OPTION])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return OwnSourceWriter(self.options[OPTION])


class OwnSourceReader(SimpleDataSourceStreamReader):
    def __init__(self, given: str) -> None:
        self._given = given
        self._tasks: _Tasks | None = None
        self._batch = 0

    def initialOffset(self) -> Offset:
        return {"batch": 0}

    @plain_errors()
    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """Reads a range of each task. Where to begin says the topic of offsets, not `start`."""
        if self._tasks is None:
            self._tasks = _Tasks(HandedOver.of(self._given))
        found = self._tasks.next_rows()
        if not found:
            return iter(()), start
        self._batch = start["batch"] + 1
        return iter(found), {"batch": self._batch}

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:
        """Called for a batch of a query that went before; a query here begins with none."""
        raise ConnectError("a batch was to be read again; the connector has to start again")

    @plain_errors()
    def commit(self, end: Offset) -> None:
        if self._tasks is not None and end["batch"] == self._batch:
            self._tasks.stored()

    def close(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
            self._tasks = None


class _Task:
    def __init__(self, number: int, runner: SourceRunner, position: Positions) -> None:
        self.number = number
        self.runner = runner
        self.position = position
        self.unstored: Positions | None = None


class _Tasks:
    """All tasks of the connector, in the process that plans the query."""

    def __init__(self, given: HandedOver) -> None:
        self._given = given
        self._thread = LoopThread("odradek-connect-source")
        self._open = AsyncExitStack()
        self._tasks = self._thread.call(self._made())

    def next_rows(self) -> list[Row]:
        return self._thread.call(self._next_rows())

    def stored(self) -> None:
        self._thread.call(self._stored())

    def close(self) -> None:
        """Spark never asks for it: its process ends with everything that is open."""
        self._thread.call(self._open.aclose())
        self._thread.stop()

    async def _made(self) -> list[_Task]:
        """Fences whatever was there before, and begins at what is committed."""
        context = self._given.context
        self._reading = [
            asyncio.create_task(context.offsets.run()),
            asyncio.create_task(context.plans.run()),
        ]
        engine = ProcessEngine(context, SilentListener())
        tasks = []
        for task in self._given.tasks:
            runner = await self._open.enter_async_context(engine.runner_of(task))
            assert isinstance(runner, SourceRunner)
            async with runner.producer() as producer:
                position = await runner.begin(producer)
            tasks.append(_Task(task.id.number, runner, position))
        return tasks

    async def _next_rows(self) -> list[Row]:
        """Waits for a while if there is nothing new. Returns no rows if there is still nothing."""
        deadline_s = _clock.monotonic_s() + _IDLE_S
        while True:
            found = [row for task in self._tasks for row in await self._rows_of(task)]
            if found or _clock.monotonic_s() > deadline_s:
                return found
            await asyncio.sleep(_PAUSE_S)

    async def _rows_of(self, task: _Task) -> list[Row]:
        deadline_s = _clock.monotonic_s() + _LONGEST_S
        found: list[Row] = []
        start = task.position
        while len(found) < _MOST_RECORDS and _clock.monotonic_s() < deadline_s:
            async with within(self._given.context.hang_timeout_s):
                end = await task.runner.reach(task.position)
                if end == task.position:
                    break
                records = await task.runner.records(task.position, end)
            for record in records:
                encoded = await task.runner.encoded(record)
                if encoded is not None:
                    found.append(_row(task.number, encoded))
            task.position = end
        if task.position == start:
            return []
        task.unstored = task.position
        moved = task.position.since(start)
        before = Positions(
            (partition, offset)
            for partition, _ in moved
            if (offset := start.of(partition)) is not None
        )
        return [
            (task.number, Range(before, moved).to_json(), *[None] * 6),
            *found,
            *self._offset_rows(task.number, moved),
        ]

    def _offset_rows(self, number: int, moved: Positions) -> Iterator[Row]:
        connector = self._given.tasks[0].id.connector
        topic = self._given.context.offsets.topic
        for partition, offset in moved:
            key, value = offset_key(connector, partition), offset_value(offset)
            yield _row(number, Encoded(topic, None, key, value, [], None))

    async def _stored(self) -> None:
        for task in self._tasks:
            if task.unstored is not None:
                async with within(self._given.context.hang_timeout_s):
                    await task.runner.stored(task.unstored)
                task.unstored = None


def _row(number: int, record: Encoded) -> Row:
    topic, partition, key, value, headers, timestamp_ms = record
    time = None if timestamp_ms is None else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return number, None, topic, partition, key, value, headers or None, time


# Writing


@dataclass
class Written(WriterCommitMessage):
    rows: int


class OwnSourceWriter(DataSourceStreamArrowWriter):
    def __init__(self, given: str) -> None:
        self._given = given

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        writer = _writer(self._given)
        rows = 0
        for number, pieces in groupby(_pieces(iterator), key=lambda piece: piece[0]):
            rows += writer.write(number, (piece for _, piece in pieces))
        return Written(rows)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: each task has committed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: what a task has committed stays, and is found when it begins again."""


def _pieces(batches: "Iterator[pa.RecordBatch]") -> "Iterator[tuple[int, pa.RecordBatch]]":
    """Yields the rows of one task after the other, by its number."""
    for batch in batches:
        first = 0
        for number, members in groupby(batch.column("task").to_pylist()):
            count = sum(1 for _ in members)
            yield number, batch.slice(first, count)
            first += count


class _Writer:
    """Writes the ranges of a connector in a Python worker of Spark's."""

    def __init__(self, given: HandedOver) -> None:
        self._given = given
        self._specs = {task.id.number: task for task in given.tasks}
        self._thread = LoopThread("odradek-connect-offsets")
        self._offsets: OffsetStore = given.context.offsets
        self._plans = given.context.plans
        self._reading = self._thread.call(self._begun())
        clients = given.context.clients.producer(dict(given.tasks[0].properties))
        self._options = SinkOptions.read(kafka_options(clients), is_streaming=True)

    async def _begun(self) -> "list[asyncio.Task[None]]":
        return [
            asyncio.create_task(self._offsets.run()),
            asyncio.create_task(self._plans.run()),
        ]

    def close(self) -> None:
        self._thread.stop()

    def write(self, number: int, pieces: "Iterator[pa.RecordBatch]") -> int:
        """Writes the range of a task in a transaction, unless it is written."""
        from odradek.spark.arrow.producer import BatchProducer  # noqa: PLC0415 - numba
        from odradek.spark.sink import columns_of, send_all  # noqa: PLC0415

        first = next(pieces)
        work = Range.of_json(first.column("range")[0].as_py())
        slices = chain((first.slice(1),), pieces)
        connector = self._given.tasks[0].id.connector
        name = transactional_id_of(self._given.context.group_id, connector, number)
        with BatchProducer(self._options.producer_settings(name)) as producer:
            producer.init_transactions()
            self._thread.call(self._plans.check(self._specs[number]))
            if self._is_written(connector, work):
                for _ in slices:
                    pass
                return 0
            producer.begin_transaction()
            rows, _ = send_all(self._options, producer, columns_of(slices))
            producer.commit_transaction()
        return rows

    def _is_written(self, connector: str, work: Range) -> bool:
        self._thread.call(self._offsets.read_to_end())
        committed = self._offsets.all_of(connector)
        if all(committed.of(partition) == offset for partition, offset in work.end):
            return True
        if any(committed.of(partition) != work.start.of(partition) for partition, _ in work.end):
            raise ConnectError(
                "its offsets have moved since this range was read: it runs somewhere else too, or"
                " its offsets were changed; it goes on from those"
            )
        return False


_writers: Final[dict[str, _Writer]] = {}


def _writer(given: str) -> _Writer:
    if given not in _writers:
        _writers[given] = _Writer(HandedOver.of(given))
    return _writers[given]


def close_writers() -> None:
    """For tests: a process of Spark's ends with its writers open."""
    while _writers:
        _writers.popitem()[1].close()
