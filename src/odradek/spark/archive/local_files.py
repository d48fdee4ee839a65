"""Parquet files on local disks, written by the tasks themselves from Arrow columns.

Place: used on local disks instead of `parquet`, by which Spark writes files on any filesystem. Here
the fetched columns go into files without becoming rows and without passing through Java, which
takes a sixth of the CPU.
Invariant: a file holds records of one partition and one hour, sorted by offset. Only the files that
a task returns count. Files of a failed attempt stay in the staging directory, and no entry names
them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.archive.entries import DataFile
from odradek.spark.archive.plans import Merge
from odradek.spark.offsets import Range, Split, divide
from odradek.spark.options import SourceOptions
from odradek.world.disk import OsDisk

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", _HEADER))),
    ]
)
_NUMBERS: Final = ["offset", "timestamp"]
_REPEATED: Final = ["partition", "timestampType", "key", "headers.list.element.key"]
# The size at which a row group is written, and the limit for all open files of a task together.
_ROW_GROUP_BYTES: Final = 32 << 20
_WAITING_BYTES: Final = 128 << 20
# Timestamps need not be in order. A task has at most this many files open.
_OPEN_FILES: Final = 64
_ROWS_AT_ONCE: Final = 20_000
_HOUR_US: Final = 3_600_000_000
# Arrow's names of codecs that Spark and our flags name differently.
_CODECS: Final = {"lz4_raw": "lz4", "uncompressed": "none"}


class _Filing(NamedTuple):
    """The work of a task that writes a range of a topic into files below a directory."""

    options: SourceOptions
    work: Range
    directory: str
    codec: str


class _Merging(NamedTuple):
    """The work of a task that merges some files into one."""

    paths: list[str]
    into: DataFile
    directory: str
    codec: str


def append(
    session: SparkSession, options: SourceOptions, ranges: list[Range], directory: str, codec: str
) -> list[DataFile]:
    """Writes files of ranges of topics into `directory`, a path of the local disk."""
    context = session.sparkContext
    tasks = [
        _Filing(options, work, directory, codec)
        for work in divide(ranges, Split(min_partitions=context.defaultParallelism))
    ]
    return _run(session, _file, tasks)


def merge(
    session: SparkSession, root: str, merges: list[Merge], directory: str, codec: str
) -> list[DataFile]:
    """Merges files below `root`, each group into one file."""
    tasks = [
        _Merging([f"{root}/{file.path}" for file in merge.files], merge.files[0], directory, codec)
        for merge in merges
    ]
    return _run(session, _merge, tasks)


def _run(session: SparkSession, function: Any, tasks: list[Any]) -> list[DataFile]:
    if not tasks:
        return []
    files: list[DataFile] = (
        session.sparkContext.parallelize(tasks, len(tasks)).flatMap(function).collect()
    )
    return sorted(files, key=lambda file: (file.topic, file.partition, file.first_offset))


def _file(task: _Filing) -> list[DataFile]:
    topic_partition = task.work.topic_partition
    reader = clients.range_reader(task.options.consumer_settings())
    batches = reader.read(
        topic_partition,
        task.work.start,
        task.work.end,
        with_headers=True,
        topic_id=task.work.expected_id,
    )
    hours = Hours(topic_partition, task.directory, task.codec)
    for batch in batches:
        hours.add(batch.select(SCHEMA.names))
    return hours.close()


def _merge(task: _Merging) -> list[DataFile]:
    into = task.into
    file = HourFile(into.topic_partition, (into.date, into.hour), task.directory, task.codec)
    for path in task.paths:
        for batch in read_batches(path):
            file.add(batch)
    return [file.close()]


def read_batches(
    path: str, is_selected: Callable[[pq.RowGroupMetaData], bool] = lambda _: True
) -> Iterator[pa.RecordBatch]:
    """Yields a file's records in small batches, whether Spark or this module wrote it. `wanted`
    selects the row groups."""
    # Reads are buffered and row groups are read one at a time, because records may be large.
    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        for index in range(file.num_row_groups):
            if not is_selected(file.metadata.row_group(index)):
                continue
            for batch in file.iter_batches(_ROWS_AT_ONCE, [index], SCHEMA.names):
                table = pa.Table.from_batches([batch]).select(SCHEMA.names)
                yield from table.cast(SCHEMA).to_batches()


class Hours:
    """The files of one range: one for each hour, or more if many hours alternate."""

    def __init__(self, topic_partition: TopicPartition, directory: str, codec: str) -> None:
        self._topic_partition = topic_partition
        self._directory = directory
        self._codec = codec
        self._open: dict[int, HourFile] = {}
        self._done: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        hours = np.asarray(batch.column("timestamp").cast(pa.int64())) // _HOUR_US
        for hour in np.unique(hours).tolist():
            rows = np.flatnonzero(hours == hour)
            first, last = int(rows[0]), int(rows[-1])
            is_maximum = 2 * len(rows) > len(hours)
            if is_maximum and last - first + 1 == len(rows):
                part = batch.slice(first, len(rows))
            else:
                # Copied, because a slice would keep the whole batch in memory.
                part = batch.take(pa.array(rows))
            self._file(hour).add(part)
        while sum(file.waiting_bytes for file in self._open.values()) > _WAITING_BYTES:
            max(self._open.values(), key=lambda file: file.waiting_bytes).flush()

    def _file(self, hour: int) -> "HourFile":
        """Returns the open file of an hour. It becomes the last in the dictionary, so that the
        first one is the least recently used."""
        file = self._open.pop(hour, None)
        if file is None:
            if len(self._open) == _OPEN_FILES:
                oldest = next(iter(self._open))
                self._done.append(self._open.pop(oldest).close())
            file = HourFile(self._topic_partition, _filed_under(hour), self._directory, self._codec)
        self._open[hour] = file
        return file

    def close(self) -> list[DataFile]:
        return [*self._done, *(file.close() for file in self._open.values())]


def _filed_under(hour: int) -> tuple[str, str]:
    """Returns date and hour of a number of hours since 1970."""
    return str(np.datetime64(hour // 24, "D")), f"{hour % 24:02d}"


class HourFile:
    """A file that is being written; `close` returns its description."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        filed_under: tuple[str, str],
        directory: str,
        codec: str,
    ) -> None:
        self._topic_partition = topic_partition
        self._filed_under = filed_under
        self._name = f"{uuid4().hex}.parquet"
        OsDisk().make_directories(directory)
        self._path = f"{directory}/{self._name}"
        self._writer = pq.ParquetWriter(
            self._path,
            SCHEMA,
            compression=_CODECS.get(codec, codec),
            use_dictionary=_REPEATED,
            column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
            write_statistics=["partition", *_NUMBERS],
        )
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self._rows = 0
        self._first_offset = self._last_offset = -1
        self._times_us: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        offsets = np.asarray(batch.column("offset"))
        partitions = np.asarray(batch.column("partition"))
        if offsets[0] <= self._last_offset or bool((np.diff(offsets) <= 0).any()):
            raise ValueError(f"records of {self._topic_partition} come out of order, or twice")
        if bool((partitions != self._topic_partition.partition).any()):
            raise ValueError(
                f"records of {self._topic_partition} come with those of another partition"
            )
        if not self._rows:
            self._first_offset = int(offsets[0])
        self._last_offset = int(offsets[-1])
        self._rows += batch.num_rows
        times_us = np.asarray(batch.column("timestamp").cast(pa.int64()))
        times = [*self._times_us, int(times_us.min()), int(times_us.max())]
        self._times_us = [min(times), max(times)]
        self._waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        if self.waiting_bytes >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the buffered records as a row group."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, SCHEMA)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self.waiting_bytes = [], 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        size_bytes = self._sync()
        date, hour = self._filed_under
        first_us, last_us = self._times_us
        return DataFile(
            topic=self._topic_partition.topic,
            partition=self._topic_partition.partition,
            date=date,
            hour=hour,
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            rows=self._rows,
            size_bytes=size_bytes,
            first_ms=first_us // 1000,
            last_ms=last_us // 1000,
            name=self._name,
        )

    def _sync(self) -> int:
        """Syncs the file to disk before an entry names it. Returns its size."""
        file = OsDisk().open(self._path)
        try:
            file.sync()
            return file.size()
        finally:
            file.close()
