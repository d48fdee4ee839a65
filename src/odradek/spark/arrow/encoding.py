"""Encodes Arrow columns as record batches, ready to be sent.

Rows are grouped by topic and partition, keep their order within each partition, and are encoded
into batches of a bounded size. A row goes to the partition in its column `partition`, else to the
partition that murmur2 chooses for its key. Rows of an Arrow batch with neither a partition nor a
key go to one partition together, and the next Arrow batch uses the next partition.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from odradek.client.errors import RecordTooLarge
from odradek.protocol.compression import Codec, compress
from odradek.protocol.records import HEADER_SIZE, BatchBuilder
from odradek.spark.arrow.accepted import BadColumn
from odradek.spark.arrow.columns import NO_HEADERS, RecordColumns, record_columns
from odradek.spark.arrow.kernels import (
    HEADER_OVERHEAD,
    RECORD_OVERHEAD,
    Bytes,
    Longs,
    choose_partitions,
    encode_records,
    group_rows,
)
from odradek.spark.arrow.sizes import DEFAULT_BATCH_BYTES
from odradek.wording import counted

__all__ = ["ArrowEncoder", "EncodedBatch", "PartitionBatch", "RecordColumns", "record_columns"]

_MAX_RECORD_BYTES: Final = 1 << 30


class EncodedBatch(BatchBuilder):
    """A record batch whose records are already encoded, in one bytes object."""

    __slots__ = ()

    def __init__(
        self,
        records: bytes,
        count: int,
        *,
        first_ms: int = -1,
        max_ms: int = -1,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> None:
        super().__init__(codec, level)
        self._payload = compress(codec, records, level)
        self._base_timestamp = first_ms
        self._max_timestamp = max_ms
        self.record_count = count
        self.size_bytes = HEADER_SIZE + len(self._payload)


class PartitionBatch(NamedTuple):
    """A batch, and the topic and partition to which it is sent."""

    topic: str
    partition: int
    batch: EncodedBatch


class ArrowEncoder:
    """Encodes Arrow batches as record batches, for one topic or for the topics in the rows' column
    `topic`."""

    def __init__(
        self,
        topic: str | None,
        partition_count_of: Callable[[str], int],
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        first_partition: int = 0,
    ) -> None:
        """`partition_count_of` returns a topic's number of partitions. Rows of the first Arrow
        batch that have neither a partition nor a key go to `first_partition`."""
        self._topic = topic
        self._partition_count_of = partition_count_of
        self._codec = codec
        self._level = level
        self._buffer = np.empty(batch_bytes, np.uint8)
        # For rows without partition and key, modulo the topic's number of partitions.
        self._next_partition = first_partition

    def encode(self, columns: RecordColumns) -> Iterator[PartitionBatch]:
        """Yields the batches that hold the rows. Within a partition they keep the order of the
        rows."""
        default_partition = self._next_partition
        self._next_partition += 1
        for topic, rows in self._by_topic(columns):
            count = self._partition_count_of(topic)
            chosen: Longs = np.empty(columns.row_count, np.int64)
            choose_partitions(
                columns.partitions, columns.keys, count, default_partition % count, chosen
            )
            highest = int(chosen[rows].max(initial=-1))
            if highest >= count:
                raise BadColumn(
                    f"a row names partition {highest}, but topic {topic} has"
                    f" {counted(count, 'partition')}"
                )
            order, begins = group_rows(chosen[rows], count)
            ordered = rows[order]
            for partition in range(count):
                partition_rows = ordered[begins[partition] : begins[partition + 1]]
                for batch in self._encode_batches(columns, partition_rows):
                    yield PartitionBatch(topic, partition, batch)

    def _by_topic(self, columns: RecordColumns) -> Iterator[tuple[str, Longs]]:
        if self._topic is not None:
            yield self._topic, np.arange(columns.row_count, dtype=np.int64)
            return
        if columns.topics is None:
            raise BadColumn("no topic: set option('topic', ...) or give rows a topic column")
        if columns.topics.null_count:
            raise BadColumn("the topic of a row is null: set option('topic', ...) for all rows")
        coded = columns.topics.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
        order, begins = group_rows(codes, len(coded.dictionary))
        for code, topic in enumerate(coded.dictionary.to_pylist()):
            yield topic, order[begins[code] : begins[code + 1]]

    def _encode_batches(self, columns: RecordColumns, rows: Longs) -> Iterator[EncodedBatch]:
        first, last = 0, len(rows)
        while first < last:
            reached, batch = self._encode_batch(columns, rows, first, last, self._buffer)
            if batch is None:
                # A record larger than a batch gets a buffer of its own. The rows after it fill
                # batches as before.
                buffer: Bytes = np.empty(_max_size_of(columns, int(rows[first])), np.uint8)
                reached, batch = self._encode_batch(columns, rows, first, first + 1, buffer)
                assert batch is not None, "the buffer is large enough for the record"
            yield batch
            first = reached

    def _encode_batch(
        self, columns: RecordColumns, rows: Longs, first: int, last: int, buffer: Bytes
    ) -> tuple[int, EncodedBatch | None]:
        """Encodes as many of the rows as fit into the buffer. Returns the index after the last
        encoded row and the batch, or None instead of the batch if not even the first row fits."""
        reached, size_bytes, max_ms = encode_records(
            rows,
            first,
            last,
            columns.timestamps_ms,
            columns.keys,
            columns.values,
            columns.headers or NO_HEADERS,
            columns.headers is not None,
            buffer,
        )
        if reached == first:
            return first, None
        batch = EncodedBatch(
            buffer[:size_bytes].tobytes(),
            reached - first,
            first_ms=int(columns.timestamps_ms[rows[first]]),
            max_ms=int(max_ms),
            codec=self._codec,
            level=self._level,
        )
        return reached, batch


def _max_size_of(columns: RecordColumns, row: int) -> int:
    """Returns an upper bound of the bytes that a record takes. Raises `RecordTooLarge` above
    1 GiB."""
    needed = RECORD_OVERHEAD + HEADER_OVERHEAD
    pairs = [(columns.keys, row, row + 1), (columns.values, row, row + 1)]
    if columns.headers is not None:
        ends = columns.headers.list_ends
        begin, end = int(ends[row]), int(ends[row + 1])
        pairs += [(columns.headers.names, begin, end), (columns.headers.contents, begin, end)]
    for column, begin, end in pairs:
        needed += int(column.ends[end]) - int(column.ends[begin])
        needed += HEADER_OVERHEAD * (end - begin)
    if needed > _MAX_RECORD_BYTES:
        raise RecordTooLarge(f"a record of about {needed} bytes is larger than the limit of 1 GiB")
    return needed
