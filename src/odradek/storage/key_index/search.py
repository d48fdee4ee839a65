"""Finds the newest visible record of a key: at an offset from an index, or by reading the log.

The key is always compared with that of the record in the log, and the checksum of the batch is
checked. So a wrong index makes a look-up slow, but never returns a wrong record.

A compressed batch may be much larger inside than in the log. A batch that takes long to decompress
is decompressed in a worker thread; a batch that would take too much memory is refused.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.compression import Codec
from odradek.protocol.record_keys import decompress_payload, newest_of_key, record_at
from odradek.protocol.records import (
    HEADER_SIZE,
    MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    DecompressedBatchTooLarge,
    MalformedRecords,
    Record,
    crc_is_valid,
    read_header,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.descriptors import Slice
from odradek.storage.errors import BatchTooLargeToDecompress, CorruptLog
from odradek.storage.segment import Segment
from odradek.world import Workers

if TYPE_CHECKING:
    from odradek.storage.log import Log

# So much is read at a time from an entry of the offset index to the batch.
_WALK_BYTES: Final = 2048
# So much is scanned at a time: it takes less than a millisecond.
_CHUNK_BYTES: Final = 1 << 20
# Batches up to these limits are decompressed on the event loop, in a few milliseconds.
_MAX_BYTES_ON_EVENT_LOOP: Final = 256 << 10
_MAX_RECORDS_ON_EVENT_LOOP: Final = 5_000


class FoundRecord(NamedTuple):
    record: Record
    leader_epoch: LeaderEpoch
    is_log_append_time: bool


class BytesRead:
    """Counts the bytes that a look-up reads from files."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class Chunk(NamedTuple):
    """Some batches of one segment, to be scanned."""

    batches: Slice
    # The scan continues below this offset.
    first_offset: Offset


class _Batch(NamedTuple):
    position: int
    header: BatchHeader
    content: memoryview


class Search:
    """The search for one key in one log, below `end_offset`."""

    __slots__ = ("_batch_reader", "_committed_only", "_end_offset", "_key", "_log", "read")

    def __init__(
        self,
        log: "Log",
        key: bytes,
        *,
        end_offset: Offset,
        committed_only: bool,
        read: BytesRead,
        batch_reader: "BatchReader",
    ) -> None:
        self._log = log
        self._batch_reader = batch_reader
        self._key = key
        self._end_offset = end_offset
        self._committed_only = committed_only
        self.read = read

    def _is_visible(self, header: BatchHeader) -> bool:
        """Returns whether a client may see the records of a batch: not those of markers, and with
        read_committed not those of aborted transactions."""
        if header.is_control:
            return False
        if not self._committed_only or not header.is_transactional:
            return True
        aborted = self._log.aborted.overlapping(header.base_offset, header.next_offset)
        return all(entry.producer_id != header.producer_id for entry in aborted)

    # At an offset

    async def find_at(self, offset: Offset) -> FoundRecord | None:
        """The record at this offset if it has the key and is visible."""
        segment = segment_of(self._log.segments, offset)
        batch = None if segment is None else self._batch_with(segment, offset)
        if segment is None or batch is None or not self._is_visible(batch.header):
            return None
        header = batch.header
        look = partial(record_at, header=header, offset=offset)
        record = await self._batch_reader.look_into(batch.content, header, look)
        if record is None or record.key != self._key:
            return None
        return _checked(segment.file.path, batch, record)

    def _batch_with(self, segment: Segment, offset: Offset) -> _Batch | None:
        """The batch that contains an offset."""
        position = segment.index.floor(offset)
        handle = segment.file.pin()
        try:
            while position < segment.size:
                buffer = handle.read_at(position, min(_WALK_BYTES, segment.size - position))
                self.read.total += len(buffer)
                start, header = _walk(segment.file.path, position, buffer, offset)
                position += start
                if header is None:
                    continue
                if header.base_offset > offset:
                    return None
                end = start + header.size_bytes
                if end <= len(buffer):
                    return _Batch(position, header, memoryview(buffer)[start:end])
                rest = handle.read_at(position - start + len(buffer), end - len(buffer))
                self.read.total += len(rest)
                return _Batch(position, header, memoryview(buffer[start:] + rest))
            return None
        finally:
            segment.file.unpin()

    # By reading

    def chunk_below(self, upper: Offset, lower: Offset) -> Chunk | Offset:
        """The last batches between two offsets. If there are none: the offset to continue below."""
        segment = segment_of(self._log.segments, Offset(upper - 1))
        if segment is None:
            return lower
        end = segment.locate(upper)
        start = segment.index.batch_start_below(max(end - _CHUNK_BYTES, 0))
        if lower > segment.base_offset:
            start = max(start, segment.locate(lower))
        if start >= end:
            return max(lower, segment.base_offset)
        first_offset = segment.offset_at(start) if start else segment.base_offset
        assert first_offset is not None  # `start` lies before the end of the segment
        return Chunk(Slice(segment.file, start, end - start), max(first_offset, lower))

    async def among(self, chunk: Chunk, content: bytes) -> FoundRecord | None:
        """The newest record of the key in a chunk."""
        path, key = chunk.batches.file.path, self._key
        self.read.total += len(content)
        try:
            batches = split_batches(content)
        except MalformedRecords as error:
            raise CorruptLog(path, chunk.batches.position, str(error)) from error
        for start, header in reversed(batches):
            end = start + header.size_bytes
            if not self._is_visible(header):
                continue
            if header.codec is Codec.NONE and content.find(key, start + HEADER_SIZE, end) < 0:
                continue
            view = memoryview(content)[start:end]
            look = partial(
                newest_of_key,
                header=header,
                key=key,
                first_offset=self._log.log_start_offset,
                end_offset=self._end_offset,
            )
            record = await self._batch_reader.look_into(view, header, look)
            if record is not None:
                position = chunk.batches.position + start
                return _checked(path, _Batch(position, header, view), record)
        return None


class BatchReader:
    """Decompresses batches: on the event loop if that is quick, else in a worker thread."""

    __slots__ = ("_workers",)

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def look_into(
        self, batch: memoryview, header: BatchHeader, look: Callable[[bytes], Record | None]
    ) -> Record | None:
        """Returns what `look` finds in the records of a batch; None if they are malformed, which a
        valid checksum does not exclude."""
        try:
            if header.record_count <= _MAX_RECORDS_ON_EVENT_LOOP:
                try:
                    return look(
                        decompress_payload(batch, header, max_bytes=_MAX_BYTES_ON_EVENT_LOOP)
                    )
                except DecompressedBatchTooLarge:
                    pass
            return await self._workers.compute(partial(_look, batch, header, look))
        except DecompressedBatchTooLarge:
            raise BatchTooLargeToDecompress(header.base_offset, MAX_DECOMPRESSED_BYTES) from None
        except MalformedRecords:
            return None


def _look(
    batch: memoryview, header: BatchHeader, look: Callable[[bytes], Record | None]
) -> Record | None:
    return look(decompress_payload(batch, header, max_bytes=MAX_DECOMPRESSED_BYTES))


def segment_of(segments: Sequence[Segment], offset: Offset) -> Segment | None:
    number = bisect_right(segments, offset, key=_base_offset) - 1
    return segments[number] if number >= 0 else None


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset


def _walk(
    path: str, position: int, buffer: bytes, offset: Offset
) -> tuple[int, BatchHeader | None]:
    """Returns the position in the buffer of the first batch that reaches an offset, and its header.

    The header is None if the batch is not in the buffer: then reading continues at the position.
    """
    start = 0
    while start + HEADER_SIZE <= len(buffer):
        try:
            header = read_header(buffer, start)
        except MalformedRecords as error:
            raise CorruptLog(path, position + start, str(error)) from error
        if header.last_offset >= offset:
            return start, header
        start += header.size_bytes
    if not start:
        raise CorruptLog(path, position, "the batch header is cut short")
    return start, None


def _checked(path: str, batch: _Batch, record: Record) -> FoundRecord:
    header = batch.header
    if not crc_is_valid(batch.content, 0, header):
        raise CorruptLog(path, batch.position, "the batch fails its checksum")
    return FoundRecord(record, header.leader_epoch, header.is_log_append_time)
