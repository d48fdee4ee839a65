"""Writes the segment that compaction makes: batches, indexes and aborted transactions.

All files end in `.cleaned`, and recovery removes such files. `finish` makes them durable; only then
may they be renamed.
"""

from collections.abc import Sequence

from odradek.protocol.types import FIRST_OFFSET, Offset
from odradek.storage.compaction.job import Aborted
from odradek.storage.descriptors import seal_file
from odradek.storage.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.segment_indexes import is_index_entry_due
from odradek.storage.transaction_index import AbortedTransaction, AbortedTransactions
from odradek.world.disk import Buffer, Disk

_WRITE_BYTES = 1 << 20


class CleanedSegment:
    __slots__ = (
        "_buffers",
        "_buffers_bytes",
        "_bytes_since_index",
        "_directory",
        "_disk",
        "_file",
        "_index",
        "_index_interval",
        "_time_index",
        "base_offset",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
    )

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, index_interval: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.base_offset = self.next_offset = base_offset
        self._index_interval = index_interval
        self._bytes_since_index = 0
        self._index = OffsetIndex(base_offset)
        self._time_index = TimeIndex(base_offset)
        self.size = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self._buffers: list[Buffer] = []
        self._buffers_bytes = 0
        self._file = disk.open(self._path(LOG_SUFFIX), create=True)
        self._file.truncate(0)

    def _path(self, suffix: str) -> str:
        return offset_file(self._directory, self.base_offset, suffix) + CLEANED_SUFFIX

    def add(self, batch: Buffer, last_offset: Offset, max_timestamp: int) -> None:
        """Adds a batch. The indexes get their entries as in `Segment.add_batch`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if is_index_entry_due(self._bytes_since_index, self._index_interval):
            self._bytes_since_index = 0
            self._index.append(last_offset, self.size)
            self._time_index.append(self.max_timestamp, self.max_timestamp_offset)
        size = len(batch)
        self._bytes_since_index += size
        self.size += size
        self.next_offset = last_offset + 1
        self._buffers.append(batch)
        self._buffers_bytes += size
        if self._buffers_bytes >= _WRITE_BYTES:
            self.write()

    def write(self) -> None:
        """Writes the batches that were added. Their buffers may be reused after that."""
        if self._buffers:
            # One buffer: the system takes a limited number of them in a call.
            self._file.write_at(self.size - self._buffers_bytes, [b"".join(self._buffers)])
            self._buffers.clear()
            self._buffers_bytes = 0

    def finish(self, aborted: Sequence[Aborted]) -> None:
        """Completes the indexes and makes all files durable.

        There is always a transaction index, even without entries: it replaces the index of the
        first segment that is replaced, if that had one.
        """
        self.write()
        self._time_index.append(self.max_timestamp, self.max_timestamp_offset)
        seal_file(self._file, self.size)
        self._file.sync()
        self.close()
        transactions = AbortedTransactions()
        for entry in aborted:
            transactions.add(AbortedTransaction(*entry))
        end = max((entry[2] + 1 for entry in aborted), default=FIRST_OFFSET)
        self._write_index(INDEX_SUFFIX, self._index.unwritten())
        self._write_index(TIME_INDEX_SUFFIX, self._time_index.unwritten())
        self._write_index(TRANSACTION_INDEX_SUFFIX, transactions.encode(FIRST_OFFSET, end))

    def _write_index(self, suffix: str, content: bytes) -> None:
        file = self._disk.open(self._path(suffix), create=True)
        try:
            file.truncate(0)
            if content:
                file.write_at(0, [content])
            file.sync()
        finally:
            file.close()

    def close(self) -> None:
        self._file.close()
