"""One segment of a log: a `.log` file of batches, its indexes, and the ends of its last batches.

The ends of the last batches that were appended are kept in memory: `tail_offsets[i]` and
`tail_positions[i]` mean that every batch before this position lies below this offset, and that the
batch which starts at this position, if any, has this offset or the next higher one. So a read at
the end of the log, as most consumers do it, takes two bisections and does not read the file.

For older offsets, the offset index gives a position near the batch, and the headers are read from
there. The position at which a slice ended is remembered, because a consumer asks for it next.

Invariant: every byte below `size` belongs to a whole, valid batch, and offsets rise.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from odradek.protocol.records import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    MalformedRecords,
    read_header,
)
from odradek.protocol.types import Offset
from odradek.storage.descriptors import SegmentFile, is_encrypted, seal_file
from odradek.storage.errors import CorruptLog
from odradek.storage.file_names import LOG_SUFFIX, offset_file
from odradek.storage.index import OffsetIndex, TimeIndex, is_rising
from odradek.storage.segment_indexes import SegmentIndexes, SegmentStores, is_index_entry_due
from odradek.storage.staged_batch import StagedBatch
from odradek.world.disk import Buffer, File

# How many boundaries are kept for reads at the end; then the older half is dropped.
_MAX_BOUNDARIES = 512
# How many ends of slices are remembered for a segment.
_MAX_RESUME_POINTS = 64

# Enough for the headers between two index entries, unless batches are large.
_SCAN_BYTES = 8192

# Base offset, length and last offset delta: the fields of a header that a search needs.
_SEARCHED = struct.Struct(">qi11xi")
_MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD


class Segment:
    __slots__ = (
        "_disk",
        "_resume",
        "_takes_appends",
        "_write_handle",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "indexes",
        "is_active",
        "is_dirty",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_early_ms",
        "size",
        "stage",
        "tail_offsets",
        "tail_positions",
    )

    def __init__(
        self,
        directory: str,
        base_offset: Offset,
        stores: SegmentStores,
        *,
        created_ms: int,
        size: int = 0,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.is_active = True
        self.file = SegmentFile(offset_file(directory, base_offset, LOG_SUFFIX), stores.descriptors)
        self.bytes_since_index = 0
        self.indexes = SegmentIndexes(directory, base_offset, stores)
        # The first batch's highest timestamp decides when the segment is old enough to roll.
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        # The segment rolls so much earlier than `segment.ms`, so that not all logs roll at once.
        self.roll_early_ms = 0
        self.tail_offsets: list[Offset] = [base_offset]
        self.tail_positions: list[int] = [0]
        self._disk = stores.disk
        self._takes_appends = stores.takes_appends
        self._resume: dict[Offset, int] | None = None
        # None until the first append, and while a large batch is staged.
        self._write_handle: File | None = None
        self.stage: StagedBatch | None = None
        # Whether the index files lack entries or the highest timestamp.
        self.is_dirty = False

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, size={self.size})"

    @property
    def next_offset(self) -> Offset:
        """The offset after the last batch. It is known for the active segment, and for segments
        that were closed by this process."""
        return self.tail_offsets[-1]

    def reset(self) -> None:
        """Empties the segment in memory, because it is new or is about to be recovered."""
        self.indexes.reset()
        self.size = 0
        self.set_end(self.base_offset)
        self.is_dirty = True

    # Appending

    def write(
        self, buffers: Sequence[Buffer], size: int, index_interval: int, *, is_staged: bool = False
    ) -> None:
        """Writes batches at the end; the caller calls `add_batch` for each of them afterwards. Of a
        batch that `is_staged` only the first buffer is written: the rest is in the file already.

        Indexes that get an entry are read first. If `add_batch` failed to read them, for want of a
        file descriptor for instance, the segment would end behind the log.
        """
        if is_index_entry_due(self.bytes_since_index + size, index_interval):
            self.indexes.load(self.size)
        handle = self._write_handle
        if handle is None:
            is_staged = is_staged and self.stage is not None and self.stage.writes_ahead
            handle = self._prepare(is_staged=is_staged)
        if is_staged:
            buffers = buffers[:1]
        try:
            handle.write_at(self.size, buffers)
        except OSError:
            # Part of a batch may be written. The file should end with a whole batch.
            self.indexes.is_full = self._takes_appends is not None
            handle.truncate(self.size)
            raise

    def _prepare(self, *, is_staged: bool = False) -> File:
        """Opens the file for appends, and loads the timestamps that appends compare with."""
        if self.stage is not None:
            return self.drop_stage(truncates=not is_staged)
        handle = self.file.pin(create=True)
        self.load_max_timestamp()
        self.load_first_timestamp()
        self._write_handle = handle
        self.is_dirty = True
        return handle

    def begin_stage(self, records: Buffer) -> StagedBatch:
        """Returns a place beyond the end where a thread may write a batch (see `staging`)."""
        handle = self._write_handle or self._prepare()
        self._write_handle = None
        writes_ahead = not is_encrypted(handle)
        self.stage = StagedBatch(handle, self.size, records, writes_ahead=writes_ahead)
        return self.stage

    def drop_stage(self, *, truncates: bool = True) -> File:
        """Cancels a staged batch, and truncates the file unless the batch is being appended or the
        file is not used any more (`truncates`)."""
        stage, self.stage = self.stage, None
        assert stage is not None
        # Nothing was appended since: every append drops the staged batch first.
        assert stage.position == self.size, f"{stage.position} was staged, {self.size} is the end"
        stage.cancel()
        self._write_handle = stage.handle
        if truncates:
            stage.handle.truncate(self.size)
        return stage.handle

    def add_batch(
        self, size: int, last_offset: Offset, max_timestamp: int, index_interval: int
    ) -> None:
        """Updates the end, timestamps and indexes by one batch that was written at the end."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if not position:
            self.first_timestamp = max_timestamp
        self.size = end = position + size
        offsets = self.tail_offsets
        offsets.append(last_offset + 1)
        self.tail_positions.append(end)
        if is_index_entry_due(self.bytes_since_index, index_interval):
            self.bytes_since_index = size
            self._add_index_entry(last_offset, position)
        else:
            self.bytes_since_index += size
        if len(offsets) > _MAX_BOUNDARIES:
            del offsets[: _MAX_BOUNDARIES // 2]
            del self.tail_positions[: _MAX_BOUNDARIES // 2]

    def _add_index_entry(self, last_offset: Offset, position: int) -> None:
        index, time_index = self.index, self.time_index
        index.append(last_offset, position)
        time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.indexes.add(index, time_index)

    @property
    def index(self) -> OffsetIndex:
        return self.indexes.offset_index(self.size, self.is_active)

    @property
    def time_index(self) -> TimeIndex:
        return self.indexes.time_index(self.is_active)

    # Closing

    def finish(self) -> None:
        """Completes the indexes: the last time index entry has the highest timestamp of all."""
        if self.stage is not None:
            self.drop_stage()
        if self.is_dirty:
            self._seal()
            _ = self.index
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.indexes.write()
            self.is_dirty = False

    def _seal(self) -> None:
        """Completes the file if it is encrypted."""
        if self._takes_appends is not None and self.size:
            handle = self.file.pin()
            try:
                # If the roll fails that this belongs to, the next append tries it again.
                self.indexes.is_full = True
                seal_file(handle, self.size)
            finally:
                self.file.unpin()

    def close_for_appends(self) -> None:
        """The segment takes no more appends. Its file may be closed when it is not pinned."""
        self.is_active = False
        del self.tail_offsets[:-1], self.tail_positions[:-1]
        self.indexes.close_for_appends()
        self.unpin_for_appends()

    def unpin_for_appends(self) -> None:
        """Unpins the file, which appends had pinned."""
        if self.stage is not None:
            self.drop_stage(truncates=False)
        if self._write_handle is not None:
            self._write_handle = None
            self.file.unpin()

    def forget(self) -> None:
        """The segment leaves the log. Only slices that exist already read it."""
        self.unpin_for_appends()
        self.indexes.forget()
        self.file.retire()

    # Reading

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Yields position and header of each batch, from the start of a batch on."""
        end = self.size if end is None else end
        file = self.file
        handle = file.pin()
        try:
            while position < end:
                buffer = handle.read_at(position, min(_SCAN_BYTES, end - position))
                start, available = position, len(buffer)
                if available < HEADER_SIZE:
                    raise CorruptLog(file.path, position, "the batch header is cut short")
                while position + HEADER_SIZE <= start + available:
                    try:
                        header = read_header(buffer, position - start)
                    except MalformedRecords as error:
                        raise CorruptLog(file.path, position, str(error)) from error
                    yield position, header
                    position += header.batch_length + LENGTH_OVERHEAD
        finally:
            file.unpin()

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        handle = self.file.pin()
        try:
            return handle.read_at(position, header.size_bytes)
        finally:
            self.file.unpin()

    def locate(self, offset: Offset) -> int:
        """The position of the first batch whose last offset is not below `offset`; the end of the
        segment if there is none."""
        offsets = self.tail_offsets
        if offset >= offsets[0] and self.is_active:
            return self.tail_positions[bisect_right(offsets, offset) - 1]
        if offset <= self.base_offset:
            return 0
        if self._resume is not None:
            position = self._resume.get(offset)
            if position is not None:
                return position
        # Not by the property `index`, which is one more call for every read of older records.
        index = self.indexes.offset_index(self.size, self.is_active)
        return self._search(index.floor(offset), offset)

    def end_below(self, start: int, limit: int, end_offset: Offset | None) -> int:
        """The end of the last whole batch after `start` that does not reach beyond the position
        `limit` and lies below `end_offset`. Returns `start` if not even one batch fits.
        """
        size = self.size
        if self.is_active and start >= self.tail_positions[0]:
            return self._end_in_tail(limit, end_offset)
        if end_offset is not None:
            size = self.locate(end_offset)
        if limit >= size:
            return size
        end = self.indexes.offset_index(self.size, self.is_active).batch_start_below(limit)
        if end <= start:
            end = self._last_start_below(start, limit)
        return end

    def _end_in_tail(self, limit: int, end_offset: Offset | None) -> int:
        positions = self.tail_positions
        if end_offset is None or end_offset >= self.tail_offsets[-1]:
            if limit >= self.size:
                return self.size
            return positions[bisect_right(positions, limit) - 1]
        below = positions[bisect_right(self.tail_offsets, end_offset) - 1]
        return min(below, positions[bisect_right(positions, limit) - 1])

    def first_batch_end(self, start: int) -> int:
        if self.is_active and start >= (positions := self.tail_positions)[0]:
            return positions[bisect_right(positions, start)]
        for position, header in self.headers(start):
            return position + header.size_bytes
        return start

    def offset_at(self, position: int) -> Offset | None:
        """The base offset of the batch that starts at this position; None at the segment's end."""
        if position >= self.size:
            return None
        if self.is_active and position >= (positions := self.tail_positions)[0]:
            return self.tail_offsets[bisect_right(positions, position) - 1]
        handle = self.file.pin()
        try:
            return Offset(int.from_bytes(handle.read_at(position, 8), "big"))
        finally:
            self.file.unpin()

    def remember(self, position: int) -> None:
        """A slice ended at this position, so the next fetch will likely start there."""
        if self.is_active and position >= self.tail_positions[0]:
            return
        base_offset = self.offset_at(position)
        if base_offset is None:
            return
        resume = self._resume
        if resume is None:
            resume = self._resume = {}
        elif len(resume) >= _MAX_RESUME_POINTS:
            del resume[next(iter(resume))]
        resume[base_offset] = position

    def _search(self, position: int, offset: Offset) -> int:
        """Reads headers from a batch's start on, up to the first batch whose last offset is not
        below `offset`. Returns its position."""
        file, size = self.file, self.size
        handle = file.pin()
        try:
            while position < size:
                buffer = handle.read_at(position, min(_SCAN_BYTES, size - position))
                start, last_start = position, len(buffer) - _SEARCHED.size
                if last_start < 0:
                    raise CorruptLog(file.path, position, "the batch header is cut short")
                while position - start <= last_start:
                    base, length, delta = _SEARCHED.unpack_from(buffer, position - start)
                    if base + delta >= offset:
                        return position
                    if length < _MIN_LENGTH:
                        raise CorruptLog(file.path, position, f"batch length {length}")
                    position += length + LENGTH_OVERHEAD
            return size
        finally:
            file.unpin()

    def _last_start_below(self, start: int, limit: int) -> int:
        """The last start of a batch at or before `limit`, found by reading headers from `start`."""
        end = start
        for position, _ in self.headers(start):
            if position > limit:
                break
            end = position
        return end

    # Invariants

    def find_inconsistency(self) -> str | None:
        """What is wrong with the boundaries and the loaded indexes of an active segment, if
        anything: they rise, and lie within the file and the segment's offsets."""
        offsets, positions = self.tail_offsets, self.tail_positions
        if positions[-1] != self.size or len(offsets) != len(positions):
            return f"the last boundary is at byte {positions[-1]} of {self.size}"
        if not (self.base_offset <= offsets[0] and is_rising(offsets) and is_rising(positions)):
            return f"boundaries do not rise: offsets {offsets} at {positions}"
        return self.indexes.find_inconsistency(size=self.size, next_offset=self.next_offset)

    # Loading and truncating

    def create_file(self) -> None:
        """Makes the file before there is a batch: its name tells where the log starts."""
        self.file.pin(create=True)
        self.file.unpin()

    def set_end(self, next_offset: Offset) -> None:
        """Sets the end of a segment whose last batch is known."""
        self.tail_offsets = [next_offset]
        self.tail_positions = [self.size]

    def truncate_to(self, offset: Offset) -> None:
        """Removes every batch with an offset at or above `offset`. The segment becomes active."""
        if self.stage is not None:
            self.drop_stage()
        position = self.locate(offset)
        index, time_index = self.index, self.time_index
        if not self.is_active:
            self.indexes.reopen()
            self.is_active = True
        handle = self.file.pin(create=True)
        try:
            handle.truncate(position)
            # An encrypted file that was cut takes no appends.
            must_roll = (
                position > 0
                and self._takes_appends is not None
                and not self._takes_appends(self.file.path, handle)
            )
        finally:
            self.file.unpin()
        self.size = position
        self._resume = None
        index.truncate_to(offset, position)
        time_index.truncate_to(offset)
        self.set_end(self.find_next_offset())
        self.bytes_since_index = 0
        self.indexes.is_full = must_roll
        self._reload_max_timestamp()
        if not position:
            self.first_timestamp = -1
        self.indexes.write()

    def find_next_offset(self) -> Offset:
        """The offset after the last batch, found by reading headers from the last index entry."""
        next_offset = self.base_offset
        # If one read returns every header, reading the index is not worth it.
        start = self.index.batch_start_below(self.size - 1) if self.size > _SCAN_BYTES else 0
        for _, header in self.headers(start):
            next_offset = header.next_offset
        return next_offset

    def _reload_max_timestamp(self) -> None:
        """Sets the highest timestamp: of the last time index entry, or of a batch after it."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        for _, header in self.headers(self.index.floor(self.max_timestamp_offset)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def load_max_timestamp(self) -> int:
        """The highest timestamp, read from the end of the time index if necessary. -1 if no batch
        has a timestamp."""
        if self.max_timestamp < 0 and self.size:
            last = self.indexes.last_time_entry()
            if last is None:
                self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
            else:
                self.max_timestamp = last[0]
                self.max_timestamp_offset = self.base_offset + last[1]
        return self.max_timestamp

    def newest_timestamp_ms(self) -> int:
        """The highest timestamp; if no batch has one, the time when the file was last written."""
        max_timestamp = self.load_max_timestamp()
        if max_timestamp >= 0:
            return max_timestamp
        try:
            written_ms = self._disk.modified_ms(self.file.path)
        except FileNotFoundError:
            written_ms = None
        return self.created_ms if written_ms is None else written_ms

    def load_first_timestamp(self) -> int:
        if self.first_timestamp < 0 and self.size:
            for _, header in self.headers(0):
                self.first_timestamp = header.max_timestamp
                break
        return self.first_timestamp
