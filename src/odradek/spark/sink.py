"""Writes DataFrames with the columns key, value, headers, topic, partition and timestamp to topics.

Spark creates a writer also in processes that only plan or commit. numba takes half a second to
load, so only the processes that write import it.

By default a batch query writes at least once: rows that a failed task has written stay, and its
retry writes them again. By default a stream writes exactly once, with one transaction for each
task; the module `odradek.spark.exactly_once` explains how a repeated task is recognised. The option
deliveryGuarantee changes the default: a stream may write at least once, and a batch write within
foreachBatch exactly once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from odradek.spark.arrow.accepted import ACCEPTED, BadColumn
from odradek.spark.exactly_once import write_once
from odradek.spark.failures import plain_errors
from odradek.spark.markers import TaskWrite
from odradek.spark.option_names import BadOption
from odradek.spark.options import SinkOptions
from odradek.spark.reachability import require_reachable
from odradek.spark.replays import TaskReport, abort_batch, commit_batch
from odradek.world.clock import SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark.arrow.encoding import RecordColumns
    from odradek.spark.arrow.producer import BatchProducer

# The local properties of Spark's tasks that identify a write.
QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
# A stream's job group is the id of its run.
_JOB_GROUP_PROPERTY = "spark.jobGroup.id"
_EXECUTION_ID_PROPERTY = "spark.sql.execution.id"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Stands for the topic in a task's name if rows name their topics. It is not a valid topic name.
_TOPICS_OF_ROWS = "*"
_ADAPTIVE_PROPERTY = "spark.sql.adaptive.enabled"
_ADAPTIVE_STREAMS_PROPERTY = "spark.sql.adaptive.streaming.stateless.enabled"

_clock = SystemClock()


@dataclass
class TaskResult(WriterCommitMessage):
    """The result of a task, which Spark passes to `commit` or `abort` on the driver. `report` is
    set if the task writes exactly once."""

    rows: int
    was_done_before: bool = False
    report: TaskReport | None = None


def _reports(messages: list[WriterCommitMessage | None]) -> list[TaskReport]:
    """Returns the reports of the tasks. Failed tasks have none."""
    return [
        message.report
        for message in messages
        if isinstance(message, TaskResult) and message.report is not None
    ]


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raises `BadColumn` or `BadOption` if the columns cannot be written. Called when the query
    starts, so that it fails at once and not in each of its tasks."""
    kinds: dict[str, DataType] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name not in ACCEPTED:
            continue
        if name in kinds:
            raise BadColumn(f"there are two columns {name}: drop or rename one")
        kinds[name] = field.dataType
    if "value" not in kinds:
        raise BadColumn(
            "no column value: rows need one, string or binary; key, headers, topic, partition and"
            " timestamp are optional"
        )
    for name, kind in kinds.items():
        if not _FITS[name](kind) and not isinstance(kind, NullType):
            raise BadColumn(f"column {name} is {kind.simpleString()}, but must be {ACCEPTED[name]}")
    if topic is None and "topic" not in kinds:
        raise BadOption("no topic: set option('topic', ...) or give rows a topic column")


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_string(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_whole_number(kind: DataType) -> bool:
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType)


def _is_timestamp(kind: DataType) -> bool:
    return isinstance(kind, TimestampType)


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name.lower(): field.dataType for field in kind.elementType.fields}
    return (
        len(kind.elementType.fields) == 2
        and set(fields) == {"key", "value"}
        and _is_string(fields["key"])
        and _is_bytes(fields["value"])
    )


_FITS = {
    "key": _is_bytes,
    "value": _is_bytes,
    "headers": _are_headers,
    "topic": _is_string,
    "partition": _is_whole_number,
    "timestamp": _is_timestamp,
}


def send_all(
    options: SinkOptions, producer: "BatchProducer", columns: "Iterator[RecordColumns]"
) -> tuple[int, set[str]]:
    """Sends all rows and waits until they are acknowledged. Returns how many there were, and their
    topics."""
    from odradek.spark.arrow.encoding import ArrowEncoder  # noqa: PLC0415

    counts: dict[str, int] = {}

    def partition_count_of(topic: str) -> int:
        if topic not in counts:
            counts[topic] = producer.partition_count(topic)
        return counts[topic]

    settings = options.producer_settings()
    encoder = ArrowEncoder(
        options.topic,
        partition_count_of,
        codec=settings.codec,
        level=settings.compression_level,
        batch_bytes=options.batch_bytes,
        first_partition=_task_partition(),
    )
    rows = 0
    for chunk in columns:
        rows += chunk.row_count
        for encoded in encoder.encode(chunk):
            producer.send(encoded.topic, encoded.partition, encoded.batch)
    producer.flush()
    return rows, set(counts)


def _write(options: SinkOptions, iterator: "Iterator[pa.RecordBatch]") -> TaskResult:
    if _is_first_write():
        require_reachable(options.admin_settings())
    columns = columns_of(iterator)
    if not options.exactly_once:
        return TaskResult(_write_at_least_once(options, columns))
    return _write_exactly_once(options, columns)


def _write_at_least_once(options: SinkOptions, columns: "Iterator[RecordColumns]") -> int:
    from odradek.spark.arrow.producer import BatchProducer  # noqa: PLC0415

    with BatchProducer(options.producer_settings()) as producer:
        rows, _ = send_all(options, producer, columns)
    return rows


def _write_exactly_once(options: SinkOptions, columns: "Iterator[RecordColumns]") -> TaskResult:
    task = _task_identity(options)

    def send(producer: "BatchProducer", columns: "Iterator[RecordColumns]") -> tuple[int, set[str]]:
        return send_all(options, producer, columns)

    outcome = write_once(task, options, columns, send=send)
    report = TaskReport(task, outcome.rows, outcome.was_done_before, outcome.pending)
    return TaskResult(outcome.rows, outcome.was_done_before, report)


def _is_first_write() -> bool:
    """Returns whether this is a batch query or the first batch of a stream: then brokers that
    refuse connections are an error at once. Later a stream waits for them."""
    context = TaskContext.get()
    batch_id = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
    return batch_id in {None, "0"}


def _task_partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def columns_of(batches: "Iterator[pa.RecordBatch]") -> "Iterator[RecordColumns]":
    from odradek.spark.arrow.encoding import record_columns  # noqa: PLC0415

    for batch in batches:
        if not batch.num_rows:
            continue
        columns = record_columns(batch, _clock.now_ms())
        earliest_ms = int(columns.timestamps_ms.min())
        if earliest_ms < 0:
            raise BadColumn(
                f"column timestamp: a row has {earliest_ms} ms, but a record's time cannot be"
                " before 1970"
            )
        yield columns


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadOption("a topic cannot be overwritten: use mode('append')")
        check_schema(schema, options.topic)
        self._options = options

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskResult:
        # A batch write within foreachBatch may be exactly-once: its tasks inherit the properties of
        # the stream's tasks.
        return _write(self._options, iterator)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the open transactions of a replayed micro-batch. Otherwise there are none."""
        commit_batch(self._options, _reports(messages))

    @plain_errors()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_batch(self._options, _reports(messages))


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options.topic)
        self._options = options

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskResult:
        return _write(self._options, iterator)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits the open transactions of a replayed micro-batch. Otherwise there are none."""
        commit_batch(self._options, _reports(messages))

    @plain_errors()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Aborts the open transactions of a replayed micro-batch. Failed tasks have aborted theirs
        already; tasks that have committed are not undone."""
        abort_batch(self._options, _reports(messages))


def _task_identity(options: SinkOptions) -> TaskWrite:
    """Returns the identity of this task's write. Raises `BadOption` outside of a stream, and for
    settings under which rows could be lost."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
    batch_id = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
    if context is None or query_id is None or batch_id is None:
        raise BadOption(
            "exactly-once works only in streaming queries (also within foreachBatch): a repeated"
            " batch write cannot be distinguished from a new one; set"
            " option('deliveryGuarantee', 'at-least-once')"
        )
    if not _is_off(context, _ADAPTIVE_PROPERTY) and not _is_off(
        context, _ADAPTIVE_STREAMS_PROPERTY
    ):
        raise BadOption(
            f"adaptive execution may split a replayed batch in another way, which would lose rows:"
            f" set {_ADAPTIVE_STREAMS_PROPERTY}=false (odradek.spark.register(session) does), or"
            " option('deliveryGuarantee', 'at-least-once')"
        )
    partition = context.partitionId()
    name = f"{options.id_prefix}-{query_id}-{options.topic or _TOPICS_OF_ROWS}-{partition}"
    return TaskWrite(name, int(batch_id), _run_id(context), _write_id(context))


def _run_id(context: TaskContext) -> str:
    """Returns the id of the query's run, or "" if code in foreachBatch has set its own job
    group."""
    group = context.getLocalProperty(_JOB_GROUP_PROPERTY) or ""
    return group if _UUID.fullmatch(group) else ""


def _write_id(context: TaskContext) -> str:
    """Returns Spark's execution id of the write, which is the same for all attempts at its
    tasks."""
    return context.getLocalProperty(_EXECUTION_ID_PROPERTY) or ""


def _is_off(context: TaskContext, name: str) -> bool:
    return (context.getLocalProperty(name) or "").lower() == "false"
