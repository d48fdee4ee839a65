"""The data source `odradek` and its readers for batch queries and streams.

Place: Spark calls this module. `options` and `offsets` decide what to read, `brokers` asks the
cluster, and tasks read their ranges with `RangeReader`.
Invariant: a task reads exactly the offsets of its `Range`. `partitions(start, end)` of a stream is
a pure function of its arguments, so that a replayed batch is split as before.
"""

# ruff: noqa: N802 - Spark names these methods
import logging
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from odradek.spark import clients, data_loss
from odradek.spark.brokers import Brokers, Subscription
from odradek.spark.failures import plain_errors
from odradek.spark.filters import Narrowing
from odradek.spark.halt import is_halting
from odradek.spark.offsets import (
    Offsets,
    OffsetsJson,
    Range,
    Split,
    TopicIds,
    divide,
    from_json,
    ids_of,
    limit,
    plan,
    recreated_topics,
    start_offsets,
    to_json,
)
from odradek.spark.option_names import BadOption, check_names, check_path
from odradek.spark.options import (
    SinkOptions,
    SourceOptions,
    check_options,
)
from odradek.spark.sink import BatchSink, StreamSink
from odradek.spark.worker_daemon import freeze_loaded_objects
from odradek.world.clock import SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("odradek.spark")
_clock = SystemClock()

_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"


class RangePartition(InputPartition):
    """The input of one Spark task: one range."""

    def __init__(self, work: Range) -> None:
        super().__init__(tuple(work))

    @property
    def range(self) -> Range:
        return Range(*self.value)


class OdradekDataSource(DataSource):
    """Reads topics and writes to them, with the options of Spark's own Kafka source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Created again for each micro-batch by the Spark worker that plans the write."""
        super().__init__(options)
        freeze_loaded_objects()

    def __setstate__(self, state: dict[str, object]) -> None:
        """Called in a Spark worker when the data source is unpickled; all modules it needs are
        loaded by then."""
        self.__dict__.update(state)
        freeze_loaded_objects()

    @classmethod
    def name(cls) -> str:
        return "odradek"

    @plain_errors()
    def schema(self) -> str:
        """Called by `load()` to learn the columns, so wrong options are refused there."""
        check_options(self.options)
        with_headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return _SCHEMA + (_HEADERS if with_headers else "")

    @plain_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        check_names(self.options, is_reading=True)
        options = SourceOptions.read(self.options, is_streaming=False)
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            check_names(self.options, is_reading=True)
            return StreamReader(SourceOptions.read(self.options, is_streaming=True))
        except BadOption as error:
            return RefusedReader(error)

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        check_names(self.options, is_reading=False)
        check_path(self.options)
        return BatchSink(SinkOptions.read(self.options, is_streaming=False), schema, overwrite)

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_names(self.options, is_reading=False)
        return StreamSink(SinkOptions.read(self.options, is_streaming=True), schema)


def _read(options: SourceOptions, work: Range) -> "Iterator[pa.RecordBatch]":
    with plain_errors():
        yield from clients.range_reader(options.consumer_settings()).read(
            work.topic_partition,
            work.start,
            work.end,
            with_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
            topic_id=work.expected_id,
        )


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers = Brokers(options)
        self._narrowing = Narrowing()

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        options, narrowing = self._options, self._narrowing
        self._brokers.require_reachable()
        partitions, ids = self._brokers.subscription()
        starts = self._brokers.resolve(options.starting, partitions, is_start=True)
        ends = self._brokers.resolve(options.ending, partitions, is_start=False)
        if narrowing.first_timestamp_ms is not None:
            firsts = self._brokers.first_at(narrowing.first_timestamp_ms, partitions)
            for partition in partitions:
                # If no record is new enough, there is nothing to read.
                starts[partition] = max(starts[partition], firsts.get(partition, ends[partition]))
        ranges = []
        for partition in partitions:
            if narrowing.topics is not None and partition.topic not in narrowing.topics:
                continue
            if narrowing.partitions is not None and partition.partition not in narrowing.partitions:
                continue
            start, end = max(starts[partition], narrowing.first_offset), ends[partition]
            if narrowing.end_offset is not None:
                end = min(end, narrowing.end_offset)
            if start < end:
                ranges.append(Range(*partition, start, end, ids.get(partition.topic, "")))
        split = Split(options.min_partitions or 0, options.max_records_per_partition or 0)
        # Given an empty list, Spark would create a partition of its own type and ask us to read it.
        tasks = divide(ranges, split) or [Range("", 0, 0, 0)]
        return [RangePartition(offset_range) for offset_range in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, RangePartition)
        return _read(self._options, partition.range)


class FilteringReader(BatchReader):
    """A reader that accepts filters, used only if an option asks for it: Spark 4.3 caches the
    narrowed plan with the DataFrame, and a later query without filters on the same DataFrame would
    use it too (docs/spark.md)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Uses filters to read less. All of them are also left to Spark."""
        self._narrowing = Narrowing.by(filters)
        return filters


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a stream with wrong options, and raises its error at the first call. Spark 4.3
    loses an error that is raised while it creates a reader."""

    def __init__(self, error: BadOption) -> None:
        self._error = error

    @plain_errors()
    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> OffsetsJson:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        self._refuse()

    def stop(self) -> None:
        """Does nothing."""


class _Ends(NamedTuple):
    """The end offsets of the topics, and the topics' ids."""

    offsets: Offsets
    ids: TopicIds


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers = Brokers(options)
        self._split = Split(options.min_partitions or 0, options.max_records_per_partition or 0)
        self._target: _Ends | None = None
        self._latest: Offsets | None = None
        self._last_batch_s = _clock.monotonic_s()
        self._has_asked = False

    # Choosing offsets

    @plain_errors()
    def initialOffset(self) -> OffsetsJson:
        partitions, ids = self._subscription()
        starts = self._brokers.resolve(self._options.starting, partitions, is_start=True)
        return to_json(starts, self._split, ids)

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    @plain_errors()
    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        if is_halting():
            return start
        latest, ids = self._target or self._ends()
        self._latest = dict(latest)
        losses = data_loss.lost_since(start, latest, ids)
        data_loss.report(losses, fail_on_data_loss=self._options.fail_on_data_loss)
        begins = start_offsets(start, ids)
        if not isinstance(limit, ReadAllAvailable):
            latest = self._limited(begins, latest)
        if latest == from_json(start) and not recreated_topics(ids_of(start), ids):
            return start
        self._last_batch_s = _clock.monotonic_s()
        return to_json(latest, self._split, ids)

    def _ends(self) -> "_Ends":
        partitions, ids = self._subscription()
        return _Ends(self._brokers.latest(partitions), ids)

    def _subscription(self) -> Subscription:
        """Returns what the brokers say. When the query starts, a refused connection is an error;
        later, the client waits for the brokers."""
        if not self._has_asked:
            self._brokers.require_reachable()
            self._has_asked = True
        return self._brokers.subscription()

    def _limited(self, begins: Offsets, latest: Offsets) -> Offsets:
        options = self._options
        waiting = sum(max(0, end - begins.get(partition, 0)) for partition, end in latest.items())
        least = options.min_offsets_per_trigger
        waited_ms = (_clock.monotonic_s() - self._last_batch_s) * 1000
        if (
            least is not None
            and waiting < least
            and self._target is None
            and waited_ms < options.max_trigger_delay_ms
        ):
            # New partitions wait as well.
            return begins
        most = options.max_offsets_per_trigger
        return latest if most is None else limit(begins, latest, most)

    def reportLatestOffset(self) -> OffsetsJson | None:
        """Returns the end offsets for the query's progress: `latestOffset` minus `endOffset` is the
        lag."""
        return None if self._latest is None else to_json(self._latest)

    # Reading

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        return [RangePartition(offset_range) for offset_range in plan(start, end)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, RangePartition)
        return _read(self._options, partition.range)

    def commit(self, end: OffsetsJson) -> None:
        """Called when all batches up to `end` are done. Commits the offsets if a group is
        configured."""
        if self._options.commit_group is not None:
            self._brokers.commit(self._options.commit_group, from_json(end))

    def stop(self) -> None:
        """Does nothing: connections end with the process that Spark runs this in."""
