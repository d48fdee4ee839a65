"""Reads intervals of archived offsets from local disks, in the tasks that send them.

Place: used on local disks instead of the code in `restoring`, by which Spark reads files on any
filesystem; `local_files` has the reasons. Hours of a topic interleave, so several files may have to
be read at the same time.
Invariant: records come in the order of their offsets, each once, and at most one row group of each
file is in memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from odradek.spark.archive.local_files import read_batches
from odradek.spark.archive.plans import Interval
from odradek.spark.archive.sending import Work, restore
from odradek.spark.options import SinkOptions


class LocalFile(NamedTuple):
    """A file that may hold records of an interval, and its first offset."""

    first_offset: int
    path: str


class Sending(NamedTuple):
    """The work of a task that sends the records of an interval in one transaction. A time of None
    means no limit."""

    work: Work
    options: SinkOptions
    interval: Interval
    files: list[LocalFile]
    since_ms: int | None
    until_ms: int | None


def send(session: SparkSession, tasks: list[Sending]) -> None:
    session.sparkContext.parallelize(tasks, len(tasks)).foreach(_send)


def _send(task: Sending) -> None:
    batches = in_order(task.files, task.interval)
    restore(task.work, task.options, _filter_by_time(batches, task.since_ms, task.until_ms))


def _filter_by_time(
    batches: Iterator[pa.RecordBatch], since_ms: int | None, until_ms: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        times_ms = np.asarray(batch.column("timestamp").cast(pa.int64())) // 1000
        is_within = np.ones(batch.num_rows, np.bool_)
        if since_ms is not None:
            is_within &= times_ms >= since_ms
        if until_ms is not None:
            is_within &= times_ms < until_ms
        yield batch if is_within.all() else batch.filter(pa.array(is_within))


def in_order(files: list[LocalFile], interval: Interval) -> Iterator[pa.RecordBatch]:
    """Yields the records of an interval from the files of its partition, in order."""
    waiting = sorted(files, reverse=True)
    running: list[_Cursor] = []
    while waiting or running:
        if not running:
            _open(waiting, running, interval)
            continue
        # The batches that are read contain all records up to this offset, if no further file begins
        # before it.
        limit = min(cursor.last_offset for cursor in running)
        if waiting and waiting[-1].first_offset <= limit:
            _open(waiting, running, interval)
            continue
        yield _merged([cursor.take(limit) for cursor in running])
        running = [cursor for cursor in running if cursor.advance()]


def _open(waiting: list[LocalFile], running: "list[_Cursor]", interval: Interval) -> None:
    cursor = _Cursor(waiting.pop().path, interval)
    if cursor.advance():
        running.append(cursor)


def _merged(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [part for part in parts if part.num_rows]
    if len(filled) == 1:
        return filled[0]
    (batch,) = pa.Table.from_batches(filled).combine_chunks().to_batches()
    return batch.take(pc.sort_indices(batch.column("offset")))


class _Cursor:
    """A position in a file: the batch that was read last, and how much of it is used."""

    __slots__ = ("_batch", "_batches", "_offsets", "_taken")

    def __init__(self, path: str, interval: Interval) -> None:
        self._batches = _batches_of(path, interval)
        self._batch: pa.RecordBatch | None = None
        self._offsets = np.empty(0, np.int64)
        self._taken = 0

    def advance(self) -> bool:
        """Reads the next batch if the current one is used up; returns False at the end of the
        file."""
        if self._taken == len(self._offsets):
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._offsets, self._taken = np.asarray(self._batch.column("offset")), 0
        return True

    @property
    def last_offset(self) -> int:
        return int(self._offsets[-1])

    def take(self, limit: int) -> pa.RecordBatch:
        """Takes the rows of the current batch up to an offset, inclusive."""
        assert self._batch is not None
        begin = self._taken
        self._taken = int(np.searchsorted(self._offsets, limit, side="right"))
        return self._batch.slice(begin, self._taken - begin)


def _batches_of(path: str, interval: Interval) -> Iterator[pa.RecordBatch]:
    """Yields the records of a file that lie in an interval, in batches that are not empty."""
    for batch in read_batches(path, lambda rows: _may_hold(rows, interval)):
        partitions = np.asarray(batch.column("partition"))
        if bool((partitions != interval.partition).any()):
            raise ValueError(f"{path} holds records of other partitions than {interval.partition}")
        offsets = np.asarray(batch.column("offset"))
        begin, end = np.searchsorted(offsets, (interval.start, interval.end)).tolist()
        if begin < end:
            yield batch.slice(begin, end - begin)


def _may_hold(rows: pq.RowGroupMetaData, interval: Interval) -> bool:
    for index in range(rows.num_columns):
        column = rows.column(index)
        if column.path_in_schema == "offset" and column.is_stats_set:
            statistics = column.statistics
            return not statistics.has_min_max or (
                statistics.min < interval.end and statistics.max >= interval.start
            )
    return True
