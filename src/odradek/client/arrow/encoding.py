"""Arrow columns as record batches, ready to be sent.

Rows are grouped by topic and partition, kept in their order within each, and packed into batches
of a bounded size. A row's partition is the one it names, else that of its key by Kafka's hash;
rows with neither go to one partition together, another one for each Arrow batch.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.arrow.kernels import (
    HEADER_OVERHEAD,
    RECORD_OVERHEAD,
    Bytes,
    Column,
    Ends,
    HeaderColumns,
    Longs,
    choose_partitions,
    encode_records,
    fingerprint,
    group_rows,
    sealed,
)
from odradek.client.arrow.sizes import DEFAULT_BATCH_BYTES
from odradek.client.errors import RecordTooLarge
from odradek.protocol.compression import Codec, compress
from odradek.protocol.records import HEADER_SIZE, BatchBuilder

_NO_BYTES: Bytes = sealed(np.empty(0, np.uint8))
_NO_ENDS: Ends = sealed(np.zeros(1, np.int32))
_NO_HEADERS = HeaderColumns(
    _NO_ENDS, Column(_NO_ENDS, _NO_BYTES, _NO_BYTES), Column(_NO_ENDS, _NO_BYTES, _NO_BYTES)
)


class PackedRecords(BatchBuilder):
    """A batch whose records are there already, as one piece of bytes."""

    __slots__ = ()

    def __init__(
        self,
        records: bytes,
        count: int,
        *,
        first_ms: int = -1,
        most_ms: int = -1,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> None:
        super().__init__(codec, level)
        self._payload = compress(codec, records, level)
        self._base_timestamp = first_ms
        self._max_timestamp = most_ms
        self.record_count = count
        self.size_bytes = HEADER_SIZE + len(self._payload)


class Packed(NamedTuple):
    """A batch and where it goes."""

    topic: str
    partition: int
    records: PackedRecords


class RecordColumns(NamedTuple):
    """An Arrow batch as records are made of it; `topic` is None where the sink's own serves."""

    keys: Column
    values: Column
    headers: HeaderColumns | None
    topics: pa.Array | None
    partitions: Longs
    timestamps_ms: Longs

    @property
    def row_count(self) -> int:
        return len(self.partitions)

    def fingerprint(self) -> int:
        """A number that two sets of the same rows share, in whichever order they come."""
        return int(
            fingerprint(
                self.keys,
                self.values,
                self.headers or _NO_HEADERS,
                self.headers is not None,
                _bytes_column(self.topics, self.row_count),
                self.partitions,
            )
        )


def record_columns(batch: pa.RecordBatch, now_ms: int) -> RecordColumns:
    """Takes the columns key, value, headers, topic, partition, timestamp; only value must be."""
    count = batch.num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    partitions: Longs = np.full(count, -1, np.int64)
    if "partition" in columns:
        partitions = _numbers(columns["partition"].cast(pa.int64()), -1)
    timestamps_ms: Longs = np.full(count, now_ms, np.int64)
    if "timestamp" in columns:
        given = columns["timestamp"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        timestamps_ms = np.where(
            np.asarray(given.is_valid()), _numbers(given, 0) // 1000, now_ms
        ).astype(np.int64)
    return RecordColumns(
        _bytes_column(columns.get("key"), count),
        _bytes_column(columns["value"], count),
        _header_columns(columns["headers"]) if "headers" in columns else None,
        columns.get("topic"),
        sealed(partitions),
        sealed(timestamps_ms),
    )


def _numbers(column: pa.Array, null: int) -> Longs:
    filled: Longs = np.asarray(column.fill_null(null))
    return filled


def _bytes_column(column: pa.Array | None, count: int) -> Column:
    if column is None:
        no_ends: Ends = np.zeros(count + 1, np.int32)
        return Column(sealed(no_ends), _NO_BYTES, sealed(np.zeros(count, np.uint8)))
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, ends_buffer, data_buffer = column.buffers()
    begin = column.offset
    ends: Ends = np.frombuffer(ends_buffer, np.int32)[begin : begin + len(column) + 1]
    data = _NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Column(sealed(ends), sealed(data), sealed(_validity(column)))


def _validity(column: pa.Array) -> Bytes:
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    return np.asarray(column.is_valid()).astype(np.uint8)


def _header_columns(column: pa.Array) -> HeaderColumns:
    # Where a list is null its ends may still span entries: filled with empty ones, none do.
    if column.null_count:
        column = pc.fill_null(column, pa.scalar([], column.type))
    begin = column.offset
    ends: Ends = np.frombuffer(column.buffers()[1], np.int32)[begin : begin + len(column) + 1]
    entries = column.values
    return HeaderColumns(
        sealed(ends),
        _bytes_column(entries.field(0), len(entries)),
        _bytes_column(entries.field(1), len(entries)),
    )


class ArrowEncoder:
    """Packs Arrow batches into record batches for a topic, or for the topics that rows name."""

    def __init__(
        self,
        topic: str | None,
        partitions_of: Callable[[str], int],
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        first_partition: int = 0,
    ) -> None:
        """`partitions_of` says how many a topic has; `first_partition` is for rows without key."""
        self._topic = topic
        self._partitions_of = partitions_of
        self._codec = codec
        self._level = level
        self._buffer = np.empty(batch_bytes, np.uint8)
        self._turn = first_partition

    def pack(self, columns: RecordColumns) -> Iterator[Packed]:
        """The batches that hold the rows, of each partition in the order of its rows."""
        self._turn += 1
        for topic, rows in self._by_topic(columns):
            count = self._partitions_of(topic)
            chosen: Longs = np.empty(columns.row_count, np.int64)
            choose_partitions(columns.partitions, columns.keys, count, self._turn % count, chosen)
            beyond = int(chosen[rows].max(initial=-1))
            if beyond >= count:
                raise ValueError(
                    f"a row names partition {beyond}, but topic {topic} has {count} partitions"
                )
            order, begins = group_rows(chosen[rows], count)
            ordered = rows[order]
            for partition in range(count):
                yield from self._pack(
                    Packed(topic, partition, _NOTHING),
                    columns,
                    ordered[begins[partition] : begins[partition + 1]],
                )

    def _by_topic(self, columns: RecordColumns) -> Iterator[tuple[str, Longs]]:
        if self._topic is not None:
            yield self._topic, np.arange(columns.row_count, dtype=np.int64)
            return
        if columns.topics is None:
            raise ValueError("no topic: set option('topic', ...) or give rows a topic column")
        if columns.topics.null_count:
            raise ValueError("the topic of a row is null: set option('topic', ...) for all rows")
        coded = columns.topics.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
        order, begins = group_rows(codes, len(coded.dictionary))
        for code, topic in enumerate(coded.dictionary.to_pylist()):
            yield topic, order[begins[code] : begins[code + 1]]

    def _pack(self, place: Packed, columns: RecordColumns, rows: Longs) -> Iterator[Packed]:
        first, last = 0, len(rows)
        while first < last:
            reached, size_bytes, most_ms = encode_records(
                rows,
                first,
                last,
                columns.timestamps_ms,
                columns.keys,
                columns.values,
                columns.headers or _NO_HEADERS,
                columns.headers is not None,
                self._buffer,
            )
            if reached == first:
                self._grow(columns, int(rows[first]))
                continue
            records = PackedRecords(
                self._buffer[:size_bytes].tobytes(),
                reached - first,
                first_ms=int(columns.timestamps_ms[rows[first]]),
                most_ms=int(most_ms),
                codec=self._codec,
                level=self._level,
            )
            yield place._replace(records=records)
            first = reached

    def _grow(self, columns: RecordColumns, row: int) -> None:
        """Makes room for one record that is larger than a batch is meant to be."""
        needed = RECORD_OVERHEAD + HEADER_OVERHEAD
        pairs = [(columns.keys, row, row + 1), (columns.values, row, row + 1)]
        if columns.headers is not None:
            ends = columns.headers.list_ends
            begin, end = int(ends[row]), int(ends[row + 1])
            pairs += [(columns.headers.names, begin, end), (columns.headers.contents, begin, end)]
        for column, begin, end in pairs:
            needed += int(column.ends[end]) - int(column.ends[begin])
            needed += HEADER_OVERHEAD * (end - begin)
        if needed <= len(self._buffer) or needed > 1 << 30:
            raise RecordTooLarge(f"a record of {needed} bytes cannot be sent")
        self._buffer = np.empty(needed, np.uint8)


_NOTHING = PackedRecords(b"", 0)
