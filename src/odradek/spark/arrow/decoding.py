"""Turns fetched batches into Arrow columns, without making a Python object for each record.

The columns are those of Spark's own Kafka source, so that a query sees no difference: key, value,
topic, partition, offset, timestamp, timestampType and, if asked for, headers. Control batches and
aborted transactions are skipped by the same code as for the consumer (`FetchedBatches`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from odradek.client.consumer.fetched_batches import FetchedBatches
from odradek.client.errors import CorruptRecords
from odradek.protocol.compression import Codec, MalformedCompression, decompress
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    MalformedRecords,
    read_header,
)
from odradek.protocol.types import Offset, TopicPartition
from odradek.spark.arrow.kernels import (
    Bytes,
    Column,
    Ends,
    HeaderColumns,
    Rows,
    decode_batch,
    read_only,
)

# About how many rows an Arrow batch has. Record batches are decoded whole, so it may be more.
ROWS_WANTED: Final = 100_000
_BYTES_WANTED: Final = 32 << 20
_MIN_RECORD_BYTES: Final = 7

_HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
_FIELDS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA: Final = pa.schema(_FIELDS)
# The list's entry is named as Spark names it.
SCHEMA_WITH_HEADERS: Final = pa.schema(
    [*_FIELDS, pa.field("headers", pa.list_(pa.field("element", _HEADER_TYPE)))]
)


class _Piece(NamedTuple):
    """The records of one batch, decompressed: their position in the buffer, and the batch's
    header."""

    header: BatchHeader
    data: Bytes
    position: int
    end: int


class _VisibleBatches(FetchedBatches):
    """Yields the batches of a fetch response that a reader may see, checked and decompressed."""

    __slots__ = ()

    def pieces(self) -> Iterator[_Piece]:
        buffer, position = self._buffer, 0
        whole = read_only(np.frombuffer(buffer, np.uint8))
        while position < self._end:
            try:
                header = read_header(buffer, position)
                self._check(buffer, position, header)
                if self._is_visible(buffer, position, header) and header.record_count:
                    yield _piece(whole, position, header)
            except MalformedRecords as error:
                raise _corrupt(self.partition, position, str(error)) from error
            position += header.size_bytes


def _piece(whole: Bytes, position: int, header: BatchHeader) -> _Piece:
    begin, end = position + HEADER_SIZE, position + header.size_bytes
    data = whole
    if header.codec != Codec.NONE:
        try:
            # A memoryview: cramjam does not take arrays.
            plain = decompress(header.codec, memoryview(whole.data)[begin:end])
        except MalformedCompression as error:
            raise MalformedRecords(str(error)) from error
        data, begin, end = read_only(np.frombuffer(plain, np.uint8)), 0, len(plain)
    if header.record_count * _MIN_RECORD_BYTES > end - begin:
        raise MalformedRecords(f"{header.record_count} records in {end - begin} bytes")
    return _Piece(header, data, begin, end)


def _corrupt(partition: TopicPartition, position: int, why: str) -> CorruptRecords:
    return CorruptRecords(f"{partition}: the batch at byte {position} of an answer: {why}")


class ArrowDecoder:
    """Decodes the fetch responses of one partition, one response at a time."""

    def __init__(
        self,
        partition: TopicPartition,
        *,
        with_headers: bool = False,
        read_committed: bool = False,
        check_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.schema = SCHEMA_WITH_HEADERS if with_headers else SCHEMA
        self._with_headers = with_headers
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._constants: tuple[pa.Array, pa.Array, pa.Array, pa.Array] | None = None

    def decode(
        self,
        buffer: Buffer,
        first_offset: int,
        end_offset: int,
        aborted: list[AbortedTransaction] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Returns the records of a fetch response whose offsets are in [first_offset,
        end_offset)."""
        batches = _VisibleBatches(
            self.partition,
            buffer,
            Offset(first_offset),
            aborted=aborted,
            read_committed=self._read_committed,
            check_crcs=self._check_crcs,
        )
        waiting: list[_Piece] = []
        records = size_bytes = 0
        for piece in batches.pieces():
            if piece.header.last_offset < first_offset:
                continue
            if piece.header.base_offset >= end_offset:
                break
            waiting.append(piece)
            records += piece.header.record_count
            size_bytes += piece.end - piece.position
            if records >= ROWS_WANTED or size_bytes >= _BYTES_WANTED:
                yield from self._columns(waiting, first_offset, end_offset)
                waiting, records, size_bytes = [], 0, 0
        if waiting:
            yield from self._columns(waiting, first_offset, end_offset)

    def _columns(
        self, pieces: Sequence[_Piece], first_offset: int, end_offset: int
    ) -> Iterator[pa.RecordBatch]:
        rows = _room_for(pieces, with_headers=self._with_headers)
        log_append_rows: list[tuple[int, int]] = []
        row = 0
        for piece in pieces:
            header, before = piece.header, row
            row = decode_batch(
                piece.data,
                piece.position,
                piece.end,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else -1,
                first_offset,
                end_offset,
                self._with_headers,
                row,
                rows,
            )
            if row < 0:
                raise CorruptRecords(
                    f"{self.partition}: the batch at offset {header.base_offset} is malformed"
                )
            if header.is_log_append_time:
                log_append_rows.append((before, row))
        if row:
            yield self._record_batch(rows, row, log_append_rows)

    def _record_batch(
        self, rows: Rows, count: int, log_append_rows: list[tuple[int, int]]
    ) -> pa.RecordBatch:
        topics, partitions, create_times, append_times = self._constant_columns(count)
        if not log_append_rows:
            kinds = create_times
        elif log_append_rows[0] == (0, count):
            kinds = append_times
        else:
            marks = np.zeros(count, np.int32)
            for begin, end in log_append_rows:
                marks[begin:end] = 1
            kinds = pa.array(marks)
        columns = [
            binary_array(rows.keys, count),
            binary_array(rows.values, count),
            topics.slice(0, count),
            partitions.slice(0, count),
            pa.array(rows.offsets[:count]),
            pa.Array.from_buffers(
                SCHEMA.field("timestamp").type, count, [None, pa.py_buffer(rows.timestamps_us)]
            ),
            kinds.slice(0, count),
        ]
        if self._with_headers:
            columns.append(_header_array(rows.headers, count))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _constant_columns(self, count: int) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        """Returns topic, partition and timestamp type as columns. They are made once and sliced
        later."""
        if self._constants is None or len(self._constants[0]) < count:
            count = max(count, ROWS_WANTED)
            name = self.partition.topic.encode()
            ends = np.arange(count + 1, dtype=np.int32) * len(name)
            topics = pa.Array.from_buffers(
                pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(name * count)]
            )
            partitions = pa.array(np.full(count, self.partition.partition, np.int32))
            create_times = pa.array(np.zeros(count, np.int32))
            append_times = pa.array(np.ones(count, np.int32))
            self._constants = topics, partitions, create_times, append_times
        return self._constants


def _room_for(pieces: Sequence[_Piece], *, with_headers: bool) -> Rows:
    """Allocates arrays for the largest possible number of records and bytes. The operating system
    gives them memory only where they are filled."""
    records = sum(piece.header.record_count for piece in pieces)
    size_bytes = sum(piece.end - piece.position for piece in pieces)
    headers, header_bytes = (size_bytes // 2, size_bytes) if with_headers else (0, 0)
    return Rows(
        np.empty(records, np.int64),
        np.empty(records, np.int64),
        _empty_column(records, size_bytes),
        _empty_column(records, size_bytes),
        HeaderColumns(
            _ends(records),
            _empty_column(headers, header_bytes),
            _empty_column(headers, header_bytes),
        ),
    )


def _empty_column(rows: int, size_bytes: int) -> Column:
    return Column(_ends(rows), np.empty(size_bytes, np.uint8), np.empty(rows, np.uint8))


def _ends(rows: int) -> Ends:
    ends: Ends = np.empty(rows + 1, np.int32)
    ends[0] = 0
    return ends


def bitmap_of(is_valid: NDArray[Any]) -> tuple[pa.Buffer | None, int]:
    """Returns Arrow's validity bitmap of a column and its number of nulls; (None, 0) without
    nulls."""
    nulls = len(is_valid) - int(np.count_nonzero(is_valid))
    if not nulls:
        return None, 0
    return pa.py_buffer(np.packbits(is_valid, bitorder="little")), nulls


def binary_array(column: Column, count: int) -> pa.Array:
    """Returns the first `count` rows of a filled column as an Arrow array over the same memory."""
    bitmap, nulls = bitmap_of(column.is_valid[:count])
    used = int(column.ends[count])
    # If most of the buffer was not filled, the filled part is copied, so that the unused memory is
    # neither kept alive nor sent to Spark.
    data = column.data[:used]
    if used < len(column.data) // 4:
        data = data.copy()
    buffers = [bitmap, pa.py_buffer(column.ends[: count + 1]), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


def _header_names(column: Column, count: int) -> pa.Array:
    """Returns names as strings. What is not UTF-8 in a name is replaced, as by the consumer: a
    producer may write any bytes, and Spark could not read the column."""
    names = binary_array(column, count)
    try:
        return names.cast(pa.string())  # It checks the bytes, and copies nothing.
    except pa.ArrowInvalid:
        decoded = [
            None if name is None else name.decode(errors="replace") for name in names.to_pylist()
        ]
        return pa.array(decoded, pa.string())


def _header_array(headers: HeaderColumns, count: int) -> pa.Array:
    """Returns a column of header lists. A record without headers has null, as in Spark's own
    source."""
    total = int(headers.list_ends[count])
    entries = pa.StructArray.from_arrays(
        [_header_names(headers.names, total), binary_array(headers.contents, total)],
        fields=list(_HEADER_TYPE),
    )
    ends = headers.list_ends[: count + 1]
    bitmap, nulls = bitmap_of(np.diff(ends) > 0)
    kind = SCHEMA_WITH_HEADERS.field("headers").type
    buffers = [bitmap, pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, count, buffers, nulls, children=[entries])
