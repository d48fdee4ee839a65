"""A query with a lane of its own: its records go through Spark.

Spark reads the topics with the data source `odradek`, one task for each partition that has new
records, on all processors or all machines that it has. Each task hands its records to the reference
executor, in their order, and writes the results. That is for queries without state: each record is
handled by itself, wherever its task runs.

A task writes its results and the offset after its records in one transaction. The name of the
transactional id is the query's and the partition's. An attempt at a task

1. initialises the transactional id: attempts before it are fenced from here on;
2. reads the offset that the query's group has committed for the partition, and leaves out the
   records before it;
3. writes the results of the others with the offset after them, and commits.

So a record's results are there if and only if the offset says so, however often Spark repeats a
batch, and whoever else runs the query: the later attempt begins where the earlier one has
committed. No offset and no checkpoint of Spark's counts; each start begins at the group's offsets.

What would break it: offsets of the group that expire or are changed by hand.
"""

# ruff: noqa: N802, N803 - Spark names these methods
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import StructType

from odradek.client.group.offsets import OffsetAndMetadata
from odradek.client.sync import Admin
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.failures import plain_errors
from odradek.spark.options import SinkOptions
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord
from odradek.streams.spark.given import GivenQuery
from odradek.world.clock import SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark.arrow.producer import BatchProducer

OPTION: Final = "querysecret"
"""Spark hides options with this word in their names."""

_MOST_RECORDS: Final = 200_000
_EARLIEST: Final = -2
_LATEST: Final = -1
_clock: Final = SystemClock()


def writer(spark: SparkSession, order: Mapping[str, Any]) -> DataStreamWriter:
    """Returns the query. `spark.turns.driver` calls it."""
    given = GivenQuery.of(order["given"])
    spark.dataSource.register(QuerySink)
    plan = given.make_plan()
    rows = (
        spark.readStream.format("odradek")
        .options(**_options(given, "isolation.level", "read_committed"))
        .option("subscribe", ",".join(sorted(plan.source_topics)))
        .option("startingOffsets", json.dumps(_starts(given)))
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(_MOST_RECORDS))
        .load()
    )
    return rows.writeStream.format(QuerySink.name()).option(OPTION, order["given"])


def _options(given: GivenQuery, *more: str) -> dict[str, str]:
    """Returns the properties of the client as options of the data source `odradek`."""
    properties = {**given.client, **dict(zip(more[::2], more[1::2], strict=True))}
    return {
        f"kafka.{name}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
    }


def _starts(given: GivenQuery) -> dict[str, dict[str, int]]:
    """Returns where to begin in each partition: what the group has committed, else what was fixed
    when the query was made, else what its source says."""
    plan = given.make_plan()
    admin = clients.admin(_sink_options(given).admin_settings())
    committed = admin.list_group_offsets(given.application_id)
    found: dict[str, dict[str, int]] = {}
    for topic, count in _counts(admin, plan.source_topics).items():
        fixed = given.start.get(topic)
        for number in range(count):
            known = committed.get(TopicPartition(topic, number))
            if known is not None and not isinstance(known, KafkaError):
                offset = int(known.offset)
            elif fixed is not None and number < len(fixed):
                offset = fixed[number]
            else:
                is_latest = fixed is None and topic in plan.latest_topics
                offset = _LATEST if is_latest else _EARLIEST
            found.setdefault(topic, {})[str(number)] = offset
    return found


def _sink_options(given: GivenQuery) -> SinkOptions:
    return SinkOptions.read(_options(given), is_streaming=True)


def _counts(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Returns how many partitions topics have. Raises `KafkaError` if there is no such topic."""
    counts: dict[str, int] = {}
    for name, found in admin.describe_topics(sorted(topics)).items():
        if isinstance(found, KafkaError):
            raise found
        counts[str(name)] = len(found.partitions)
    return counts


class QuerySink(DataSource):
    """The data source that such a query writes to."""

    @classmethod
    def name(cls) -> str:
        return "odradek-streams-query"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":
        return QueryWriter(self.options[OPTION])


@dataclass
class Written(WriterCommitMessage):
    records: int


class QueryWriter(DataSourceStreamArrowWriter):
    def __init__(self, given: str) -> None:
        self._given = given

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return Written(0)
        return Written(_worker(self._given).write(chain((first,), batches)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: each task has committed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: what a task has committed stays, and is left out when it comes again."""


class _Results:
    """Takes what the executor makes of the records of a task."""

    def __init__(self) -> None:
        self.records: list[OutputRecord] = []

    def write(self, record: OutputRecord) -> None:
        self.records.append(record)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        raise AssertionError("a query in its own lane has no state")


class _Worker:
    """Runs a query in a Python worker of Spark's, which keeps it for the next tasks."""

    def __init__(self, given: GivenQuery) -> None:
        self._given = given
        self._options = _sink_options(given)
        self._results = _Results()
        plan = given.make_plan()
        self._admin = clients.admin(self._options.admin_settings())
        topics = {*plan.source_topics, *(sink.topic for sink in plan.sinks)}
        self._executor = Executor(
            plan, _counts(self._admin, topics), self._results,
            on_bad_record=given.on_bad_record, on_bad_result=given.on_bad_result,
        )  # fmt: skip

    def write(self, batches: "Iterator[pa.RecordBatch]") -> int:
        """Writes the results of the records of one partition, in one transaction."""
        from odradek.spark.arrow.producer import BatchProducer  # noqa: PLC0415 - numba

        first = next(batches)
        partition = TopicPartition(
            first.column("topic")[0].as_py(), first.column("partition")[0].as_py()
        )
        name = f"{self._given.application_id}-{partition.topic}-{partition.partition}"
        with BatchProducer(self._options.producer_settings(name)) as producer:
            producer.init_transactions()
            begin = self._committed(partition)
            count, end = 0, begin
            self._results.records.clear()
            self._executor.context.now_ms = _clock.now_ms()
            for batch in chain((first,), batches):
                for record in _records(batch):
                    if record.offset >= begin:
                        self._executor.deliver(record)
                        count, end = count + 1, record.offset + 1
            if end > begin:
                self._commit(producer, partition, end)
        return count

    def _commit(self, producer: "BatchProducer", partition: TopicPartition, end: int) -> None:
        from odradek.spark.sink import columns_of, send_all  # noqa: PLC0415 - numba

        producer.begin_transaction()
        send_all(self._options, producer, columns_of(_batches(self._results.records)))
        producer.send_offsets({partition: OffsetAndMetadata(end)}, self._given.application_id)
        producer.commit_transaction()

    def _committed(self, partition: TopicPartition) -> int:
        """Returns the offset before which all records are handled; 0 if none is."""
        found = self._admin.list_group_offsets(
            self._given.application_id, [partition], require_stable=True
        )
        known = found.get(partition)
        if isinstance(known, KafkaError):
            raise known
        return 0 if known is None else int(known.offset)


def _records(batch: "pa.RecordBatch") -> Iterator[InputRecord]:
    import pyarrow as pa  # noqa: PLC0415 - only who writes needs it

    times_ms = batch.column("timestamp").cast(pa.int64()).to_pylist()
    columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
    topic = batch.column("topic")[0].as_py()
    partition = batch.column("partition")[0].as_py()
    for time_us, offset, key, value, headers in zip(times_ms, *columns, strict=True):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield InputRecord(topic, partition, offset, time_us // 1000, key, value, pairs)


def _batches(records: list[OutputRecord]) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415 - only who writes needs it

    if records:
        topics, partitions, times_ms, keys, values = zip(*records, strict=True)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(topics, pa.string()),
                pa.array(partitions, pa.int32()),
                pa.array(times_ms, pa.timestamp("ms", "UTC")),
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
            ],
            ["topic", "partition", "timestamp", "key", "value"],
        )


_workers: Final[dict[str, _Worker]] = {}


def _worker(given: str) -> _Worker:
    if given not in _workers:
        _workers[given] = _Worker(GivenQuery.of(given))
    return _workers[given]
