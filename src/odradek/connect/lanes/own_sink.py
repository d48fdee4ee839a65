"""A sink in a lane of its own: Spark reads the topics, and its Python workers write.

The rows of a micro-batch are records as they are in the topics. Each partition of the batch is
written by the connector's task in the Python worker that gets it: converters, transforms and the
write run there, so on a cluster they run on all machines. A Python worker keeps its task, with what
that has opened, for the next batches.

When all partitions are written, the offsets after them are committed for the group that Kafka
Connect would use. A query begins at those offsets, with a new checkpoint; so after a failure
records may come again, and none is missed.
"""

# ruff: noqa: N802, N803 - Spark names these methods
import json
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from odradek.client.sync import Admin, LoopThread
from odradek.connect.connector_settings import SinkSettings
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.engine.sink_runner import SinkRunner, group_of
from odradek.connect.errors import ConnectError
from odradek.connect.lanes.handing_over import (
    OPTION,
    HandedOver,
    SilentListener,
    kafka_options,
    within,
)
from odradek.connect.transforms.java_patterns import java_pattern
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark.failures import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_RECORDS: Final = 100_000
_EARLIEST: Final = -2
_LATEST: Final = -1
# Of a consumer, and nothing that the query may have.
_NOT_FOR_SPARK: Final = ("group.id", "auto.offset.reset", "enable.auto.commit")


def rows(spark: SparkSession, given: HandedOver) -> DataFrame:
    """Returns the records after what the group has committed, with a partition for each task."""
    consumer = given.context.clients.consumer(dict(given.tasks[0].properties))
    options = kafka_options(
        {
            name: value
            for name, value in {"isolation.level": "read_committed", **consumer}.items()
            if name not in _NOT_FOR_SPARK
        }
    )
    offsets: dict[str, dict[str, int]] = {}
    for partition, offset in starts(given).items():
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return (
        spark.readStream.format("odradek")
        .options(**options)
        .option("subscribe", ",".join(sorted(offsets)))
        .option("startingOffsets", json.dumps(offsets))
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(_MOST_RECORDS))
        .load()
        .coalesce(int(given.tasks[0].properties.get("tasks.max") or 1))
    )


def starts(given: HandedOver) -> dict[TopicPartition, int]:
    """Returns where to begin in each partition."""
    properties = dict(given.tasks[0].properties)
    settings = SinkSettings.read(properties)
    clients = given.context.clients
    consumer = clients.consumer(properties)
    first = _LATEST if consumer.get("auto.offset.reset") == "latest" else _EARLIEST
    with Admin(clients.admin(properties)) as admin:
        topics = admin.list_topics()
        if settings.topics:
            names = list(settings.topics)
        else:
            pattern = java_pattern(settings.topics_regex)
            names = [name for name in topics if pattern.fullmatch(name)]
        missing = [name for name in names if name not in topics]
        if missing or not names:
            asked = ", ".join(missing) or f"that matches topics.regex={settings.topics_regex}"
            raise ConnectError(f"there is no topic {asked}; a sink in its own lane needs it first")
        found = {
            TopicPartition(name, index): first
            for name in names
            for index in topics[name].partitions
        }
        group = group_of(given.tasks[0].id.connector, consumer)
        for partition, committed in admin.list_group_offsets(group).items():
            if partition in found and not isinstance(committed, KafkaError):
                found[partition] = committed.offset
    return found


class OwnSink(DataSource):
    """The data source that such a query writes to."""

    @classmethod
    def name(cls) -> str:
        return "odradek-connect-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":
        return OwnSinkWriter(self.options[OPTION])


@dataclass
class Written(WriterCommitMessage):
    """The offsets after what a partition of the batch has written."""

    offsets: dict[TopicPartition, int]


class OwnSinkWriter(DataSourceStreamArrowWriter):
    def __init__(self, given: str) -> None:
        self._given = given

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        writer = _writer(self._given)
        offsets: dict[TopicPartition, int] = {}
        for batch in iterator:
            records = [Read.of(row) for row in batch.to_pylist()]
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                offsets[partition] = max(offsets.get(partition, 0), record.offset + 1)
            writer.write(records)
        return Written(offsets)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the offsets: everything before them is written."""
        given = HandedOver.of(self._given)
        properties = dict(given.tasks[0].properties)
        clients = given.context.clients
        offsets: dict[TopicPartition, int] = {}
        for message in messages:
            if isinstance(message, Written):
                offsets.update(message.offsets)
        if not offsets:
            return
        group = group_of(given.tasks[0].id.connector, clients.consumer(properties))
        with Admin(clients.admin(properties)) as admin:
            for answer in admin.alter_group_offsets(group, offsets, may_create=True).values():
                if isinstance(answer, KafkaError):
                    raise answer

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: what is written comes again."""


class Read(NamedTuple):
    """A record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Read":
        return cls(
            row["topic"],
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            int(row["timestamp"].timestamp() * 1000),
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )


class _Writer:
    """The connector's task in a Python worker of Spark's."""

    def __init__(self, given: HandedOver) -> None:
        self._given = given
        self._thread = LoopThread("odradek-connect-sink")
        self._open = AsyncExitStack()
        self._runner = self._thread.call(self._made())

    def write(self, records: list[Read]) -> None:
        self._thread.call(self._put(records))

    def close(self) -> None:
        self._thread.call(self._open.aclose())
        self._thread.stop()

    async def _put(self, records: list[Read]) -> None:
        async with within(self._given.context.hang_timeout_s):
            await self._runner.put(records)
        if self._runner.keeps:
            raise ConnectError(
                "this sink gathers records over several batches, and cannot do that in a lane of"
                " its own, where each batch may have another process; use odradek.lane=shared"
            )

    async def _made(self) -> SinkRunner:
        engine = ProcessEngine(self._given.context, SilentListener())
        runner = await self._open.enter_async_context(engine.runner_of(self._given.tasks[0]))
        assert isinstance(runner, SinkRunner)
        return runner


_writers: Final[dict[str, _Writer]] = {}


def _writer(given: str) -> _Writer:
    if given not in _writers:
        _writers[given] = _Writer(HandedOver.of(given))
    return _writers[given]


def close_writers() -> None:
    """For tests: a process of Spark's ends with its writers open."""
    while _writers:
        _writers.popitem()[1].close()
