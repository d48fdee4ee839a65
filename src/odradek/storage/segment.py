"""One segment of a log: a `.log` file of batches, its two indexes, and where its tail begins.

The last batches that were appended are remembered as boundaries: `tail_offsets[i]` and
`tail_positions[i]` say that every batch before this position lies below this offset, and
that the batch which starts here (if any) holds this offset or the next higher one. So
reading at the tail, where most consumers are, takes two bisections and no look at the file.

Further back, the offset index names a nearby batch and the headers are walked from there.
Where a slice ended is remembered, because a consumer asks for just that place next.

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
from odradek.storage.descriptors import Descriptors, SegmentFile
from odradek.storage.disk_errors import is_passing
from odradek.storage.errors import CorruptLog
from odradek.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file
from odradek.storage.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    LoadedIndexes,
    OffsetIndex,
    TimeIndex,
    is_rising,
    last_time_entry,
)
from odradek.storage.staged_batch import StagedBatch
from odradek.world.disk import Buffer, Disk, File

# Boundaries kept for tail reads: trimmed to half when they are this many.
_MAX_BOUNDARIES = 512
# Index entries are written to the files when this many wait: half a megabyte of log.
_BATCH_ENTRIES = 128
# How many ends of slices are remembered in a segment.
_MAX_RESUME_POINTS = 64

# Enough for the headers between two index entries, unless batches are large.
_SCAN_BYTES = 8192

# Base offset, length and last offset delta: all that a search needs of a header.
_SEARCHED = struct.Struct(">qi11xi")
_MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD


class SegmentStores:
    """What segments of one log directory share."""

    __slots__ = ("descriptors", "disk", "indexes", "unwritten")

    def __init__(
        self,
        disk: Disk,
        descriptors: Descriptors | None = None,
        indexes: LoadedIndexes | None = None,
    ) -> None:
        self.disk = disk
        self.descriptors = descriptors or Descriptors(disk)
        self.indexes = indexes or LoadedIndexes()
        # Active segments with index entries that their files lack.
        self.unwritten: dict[Segment, None] = {}


class Segment:
    __slots__ = (
        "_index",
        "_resume",
        "_stores",
        "_time_index",
        "_write_handle",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "index_bytes",
        "indexes_full",
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
        base_offset: int,
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
        self.index_bytes = MAX_RELATIVE_OFFSET
        self.indexes_full = False
        # The first batch's highest timestamp decides when the segment is old enough to roll.
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        # By how much less than `segment.ms` it lives: not all shall roll at the same moment.
        self.roll_early_ms = 0
        self.tail_offsets: list[int] = [base_offset]
        self.tail_positions: list[int] = [0]
        self._stores = stores
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._resume: dict[int, int] | None = None
        # None until the first append, and while a large batch is staged.
        self._write_handle: File | None = None
        self.stage: StagedBatch | None = None
        # Whether the index files lag behind the arrays and the highest timestamp.
        self.is_dirty = False

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, size={self.size})"

    @property
    def next_offset(self) -> int:
        """The offset behind the last batch. Known for the active segment alone."""
        return self.tail_offsets[-1]

    def start_empty(self) -> None:
        """Nothing is noted yet: the segment was just made, or is about to be recovered."""
        self._index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self.size = 0
        self.is_dirty = True

    # Appending

    def write(self, buffers: Sequence[Buffer], *, is_staged: bool = False) -> None:
        """Writes batches at the end. `note` each of them afterwards. Of one that `is_staged`, all
        but the first buffer is there already."""
        handle = self._write_handle
        if handle is None:
            handle = self._prepare(is_staged=is_staged)
        if is_staged:
            buffers = buffers[:1]
        try:
            handle.write_at(self.size, buffers)
        except OSError:
            # Part of a batch may be there: whoever loads the file should find whole ones.
            handle.truncate(self.size)
            raise

    def _prepare(self, *, is_staged: bool = False) -> File:
        """Opens the file for appends, and learns what appends compare with."""
        if self.stage is not None:
            return self.drop_stage(cuts=not is_staged)
        handle = self.file.pin(create=True)
        self.load_max_timestamp()
        self.load_first_timestamp()
        self._write_handle = handle
        self.is_dirty = True
        return handle

    def begin_stage(self, records: Buffer) -> StagedBatch:
        """A place behind the end where a worker thread may write a batch (see `staging`)."""
        handle = self._write_handle or self._prepare()
        self._write_handle = None
        self.stage = StagedBatch(handle, self.size, records)
        return self.stage

    def drop_stage(self, *, cuts: bool = True) -> File:
        """Takes back what was staged, and cuts it off unless it is appended, or nobody will look
        at the file again."""
        stage, self.stage = self.stage, None
        assert stage is not None
        # Nothing was appended since: whatever is appended takes the stage away first.
        assert stage.position == self.size, f"{stage.position} was staged, {self.size} is the end"
        stage.take_back()
        self._write_handle = stage.handle
        if cuts:
            stage.handle.truncate(self.size)
        return stage.handle

    def note(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Takes account of one batch that was written at the end."""
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
        if self.bytes_since_index > index_interval:
            self.bytes_since_index = size
            self._add_index_entry(last_offset, position)
        else:
            self.bytes_since_index += size
        if len(offsets) > _MAX_BOUNDARIES:
            del offsets[: _MAX_BOUNDARIES // 2]
            del self.tail_positions[: _MAX_BOUNDARIES // 2]

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        index = self.index
        if len(index) == index.written:
            self._stores.unwritten[self] = None
        index.append(last_offset, position)
        time_index = self.time_index
        time_index.append(self.max_timestamp, self.max_timestamp_offset)
        # The time index keeps room for the entry that `finish` adds.
        self.indexes_full = (
            len(index) >= self.index_bytes // OFFSET_ENTRY_SIZE
            or len(time_index) >= self.index_bytes // TIME_ENTRY_SIZE - 1
        )
        if len(index) - index.written >= _BATCH_ENTRIES:
            try:
                self.write_indexes()
            except OSError as error:
                if not is_passing(error):
                    raise  # Else the entries wait for the next lump: the batch is in the log.

    # Indexes

    @property
    def index(self) -> OffsetIndex:
        index = self._index
        if index is None:
            index = OffsetIndex.decode(self.base_offset, self._read_beside(INDEX_SUFFIX))
            if index.positions and index.positions[-1] >= self.size:
                index.truncate_to(self.base_offset + index.offsets[-1] + 1, self.size)
            self._index = index
            if not self.is_active:
                self._stores.indexes.add(self, index.memory_bytes())
        elif not self.is_active:
            self._stores.indexes.touch(self)
        return index

    @property
    def time_index(self) -> TimeIndex:
        time_index = self._time_index
        if time_index is None:
            time_index = TimeIndex.decode(self.base_offset, self._read_beside(TIME_INDEX_SUFFIX))
            self._time_index = time_index
            if not self.is_active:
                self._stores.indexes.add(self, time_index.memory_bytes())
        return time_index

    def _read_beside(self, suffix: str) -> bytes:
        try:
            return self._stores.disk.read(offset_file(self.directory, self.base_offset, suffix))
        except FileNotFoundError:
            return b""

    def drop_indexes(self) -> None:
        """Closed segments forget what they can read again."""
        self._index = self._time_index = None

    def write_indexes(self) -> None:
        """Brings the index files up to the arrays; afterwards both files exist."""
        index, time_index = self._index, self._time_index
        if index is not None:
            self._write_beside(INDEX_SUFFIX, index.written * OFFSET_ENTRY_SIZE, index.unwritten())
            index.written = len(index)
        if time_index is not None:
            start = time_index.written * TIME_ENTRY_SIZE
            self._write_beside(TIME_INDEX_SUFFIX, start, time_index.unwritten())
            time_index.written = len(time_index)
        self._stores.unwritten.pop(self, None)

    def _write_beside(self, suffix: str, position: int, content: bytes) -> None:
        path = offset_file(self.directory, self.base_offset, suffix)
        file = self._stores.disk.open(path, create=True)
        try:
            if file.size() > position:
                if file.read_at(position, len(content) + 1) == content:
                    return  # Recovery found again what the file says.
                file.truncate(position)
            if content:
                file.write_at(position, [content])
        finally:
            file.close()

    # The end of a segment's active life

    def finish(self) -> None:
        """Completes the indexes: the last time entry says how old the whole segment is."""
        if self.stage is not None:
            self.drop_stage()
        if self.is_dirty:
            _ = self.index
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.write_indexes()
            self.is_dirty = False

    def close_for_appends(self) -> None:
        """The segment is whole. Its descriptor may go once nobody needs it."""
        self.is_active = False
        del self.tail_offsets[:-1], self.tail_positions[:-1]
        if self._index is not None and self._time_index is not None:
            size = self._index.memory_bytes() + self._time_index.memory_bytes()
            self._stores.indexes.add(self, size)
        self.let_go()

    def let_go(self) -> None:
        """Gives up the descriptor that appends kept."""
        if self.stage is not None:
            self.drop_stage(cuts=False)
        if self._write_handle is not None:
            self._write_handle = None
            self.file.unpin()

    def forget(self) -> None:
        """The segment leaves the log: slices may still read it, nobody else will."""
        self.let_go()
        self._stores.unwritten.pop(self, None)
        self._stores.indexes.remove(self)
        self.file.retire()

    # Reading

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from a position that is a batch's start."""
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

    def locate(self, offset: int) -> int:
        """Where the first batch starts whose last offset is not below `offset`; or the end."""
        offsets = self.tail_offsets
        if offset >= offsets[0] and self.is_active:
            return self.tail_positions[bisect_right(offsets, offset) - 1]
        if offset <= self.base_offset:
            return 0
        if self._resume is not None:
            position = self._resume.get(offset)
            if position is not None:
                return position
        return self._search(self.index.floor(offset), offset)

    def end_below(self, start: int, limit: int, end_offset: int | None) -> int:
        """The end of whole batches from `start`: not beyond `limit`, all below `end_offset`.

        Returns `start` when not even one batch fits.
        """
        size = self.size
        if self.is_active and start >= self.tail_positions[0]:
            return self._end_in_tail(limit, end_offset)
        if end_offset is not None:
            size = self.locate(end_offset)
        if limit >= size:
            return size
        end = self.index.batch_start_below(limit)
        if end <= start:
            end = self._last_start_below(start, limit)
        return end

    def _end_in_tail(self, limit: int, end_offset: int | None) -> int:
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

    def offset_at(self, position: int) -> int | None:
        """The base offset of the batch that starts here; None at the segment's end."""
        if position >= self.size:
            return None
        if self.is_active and position >= (positions := self.tail_positions)[0]:
            return self.tail_offsets[bisect_right(positions, position) - 1]
        handle = self.file.pin()
        try:
            return int.from_bytes(handle.read_at(position, 8), "big")
        finally:
            self.file.unpin()

    def remember(self, position: int) -> None:
        """A slice ended here, so the next fetch will likely start here."""
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

    def _search(self, position: int, offset: int) -> int:
        """Walks from a batch's start to the first batch whose last offset is not below `offset`."""
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
        """The last batch start at or before `limit`, walking from `start`."""
        end = start
        for position, _ in self.headers(start):
            if position > limit:
                break
            end = position
        return end

    # Invariants

    def find_inconsistency(self) -> str | None:
        """What is wrong with the boundaries and the loaded indexes of an active segment, if
        anything: both rise, and lie within the file and the segment's offsets."""
        offsets, positions = self.tail_offsets, self.tail_positions
        if positions[-1] != self.size or len(offsets) != len(positions):
            return f"the last boundary is at byte {positions[-1]} of {self.size}"
        if not (self.base_offset <= offsets[0] and is_rising(offsets) and is_rising(positions)):
            return f"boundaries do not rise: offsets {offsets} at {positions}"
        index, time_index = self._index, self._time_index
        if index is not None and index.offsets:
            if not (is_rising(index.offsets) and is_rising(index.positions)):
                return f"offset index does not rise: {index.offsets} at {index.positions}"
            last_offset = self.base_offset + index.offsets[-1]
            if index.positions[-1] >= self.size or last_offset >= self.next_offset:
                return (
                    f"the offset index ends with offset {last_offset} at byte "
                    f"{index.positions[-1]}, the segment with {self.next_offset} at {self.size}"
                )
        if time_index is not None and time_index.offsets:
            last_offset = self.base_offset + time_index.offsets[-1]
            if not is_rising(time_index.timestamps) or last_offset >= self.next_offset:
                return f"the time index ends with offset {last_offset}: {time_index.timestamps}"
        return None

    # Changing what is there

    def create_file(self) -> None:
        """Makes the file before there is a batch: its name says where the log starts."""
        self.file.pin(create=True)
        self.file.unpin()

    def load_tail(self, next_offset: int) -> None:
        """Makes the boundaries of a segment whose last batch is known."""
        self.tail_offsets = [next_offset]
        self.tail_positions = [self.size]

    def truncate_to(self, offset: int) -> None:
        """Cuts every batch with an offset at or above `offset`; the segment becomes active."""
        if self.stage is not None:
            self.drop_stage()
        position = self.locate(offset)
        index, time_index = self.index, self.time_index
        if not self.is_active:
            self._stores.indexes.remove(self)
            self.is_active = True
        handle = self.file.pin(create=True)
        try:
            handle.truncate(position)
        finally:
            self.file.unpin()
        self.size = position
        self._resume = None
        index.truncate_to(offset, position)
        time_index.truncate_to(offset)
        self.load_tail(self.find_next_offset())
        self.bytes_since_index = 0
        self.indexes_full = False
        self._reload_max_timestamp()
        if not position:
            self.first_timestamp = -1
        self.write_indexes()

    def find_next_offset(self) -> int:
        """The offset behind the last batch, found from the last index entry on."""
        next_offset = self.base_offset
        # Where one read shows every header, the index is not worth its own.
        start = self.index.batch_start_below(self.size - 1) if self.size > _SCAN_BYTES else 0
        for _, header in self.headers(start):
            next_offset = header.next_offset
        return next_offset

    def _reload_max_timestamp(self) -> None:
        """The highest timestamp: the last time entry, or younger in the batches behind it."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        for _, header in self.headers(self.index.floor(self.max_timestamp_offset)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def load_max_timestamp(self) -> int:
        """Reads the end of the time index if need be. -1 if no batch has a timestamp."""
        if self.max_timestamp < 0 and self.size:
            last = None if self._time_index is not None else self._read_last_time_entry()
            if last is None:
                self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
            else:
                self.max_timestamp = last[0]
                self.max_timestamp_offset = self.base_offset + last[1]
        return self.max_timestamp

    def youngest_ms(self) -> int:
        """The highest timestamp, or when the file was last written if no batch has one."""
        youngest = self.load_max_timestamp()
        if youngest >= 0:
            return youngest
        try:
            written_ms = self._stores.disk.modified_ms(self.file.path)
        except FileNotFoundError:
            written_ms = None
        return self.created_ms if written_ms is None else written_ms

    def _read_last_time_entry(self) -> tuple[int, int] | None:
        path = offset_file(self.directory, self.base_offset, TIME_INDEX_SUFFIX)
        try:
            file = self._stores.disk.open(path, writable=False)
        except FileNotFoundError:
            return None
        try:
            start = max(file.size() // TIME_ENTRY_SIZE - 1, 0) * TIME_ENTRY_SIZE
            return last_time_entry(file.read_at(start, TIME_ENTRY_SIZE))
        finally:
            file.close()

    def load_first_timestamp(self) -> int:
        if self.first_timestamp < 0 and self.size:
            for _, header in self.headers(0):
                self.first_timestamp = header.max_timestamp
                break
        return self.first_timestamp
