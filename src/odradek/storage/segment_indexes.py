"""The offset index and the time index of one segment: their arrays in memory and their files.

`Segment` owns one `SegmentIndexes`. The arrays of the active segment are complete, and the files
get new entries many at a time. Those of a closed segment are read when they are first needed, and
may be dropped from memory at any time (`LoadedIndexes`). `is_index_entry_due` decides which batches
get entries.
"""

from collections.abc import Callable

from odradek.protocol.types import Offset
from odradek.storage.descriptors import Descriptors
from odradek.storage.disk_errors import is_passing
from odradek.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, offset_file
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
from odradek.world.disk import Disk, File

# Entries are written to the files when this many are only in memory: half a megabyte of log.
_ENTRIES_A_WRITE = 128


def is_index_entry_due(bytes_since_entry: int, interval_bytes: int) -> bool:
    """Returns whether the next batch gets an entry in both indexes.

    `bytes_since_entry` is the size of the batches since the last entry, and `interval_bytes` is
    `index.interval.bytes`. Segments that are appended to, recovered or compacted all ask here.
    """
    return bytes_since_entry > interval_bytes


class SegmentStores:
    """What the segments of one log directory share."""

    __slots__ = ("descriptors", "disk", "indexes", "takes_appends", "unwritten")

    def __init__(
        self,
        disk: Disk,
        descriptors: Descriptors | None = None,
        indexes: LoadedIndexes | None = None,
    ) -> None:
        self.disk = disk
        self.descriptors = descriptors or Descriptors(disk)
        self.indexes = indexes or LoadedIndexes()
        # With encryption: whether the open file of a segment may be appended to (`EncryptingDisk`).
        self.takes_appends: Callable[[str, File], bool] | None = None
        # Indexes of active segments with entries that are not in their files yet.
        self.unwritten: dict[SegmentIndexes, None] = {}


class SegmentIndexes:
    __slots__ = (
        "_base_offset",
        "_directory",
        "_loaded",
        "_offset_index",
        "_stores",
        "_time_index",
        "is_full",
        "max_bytes",
    )

    def __init__(self, directory: str, base_offset: Offset, stores: SegmentStores) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._stores = stores
        self._loaded = stores.indexes
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        # Of one file: `segment.index.bytes`. The segment rolls when one of the indexes is full.
        self.max_bytes = MAX_RELATIVE_OFFSET
        self.is_full = False

    def reset(self) -> None:
        """Replaces both indexes by empty ones."""
        self._offset_index = OffsetIndex(self._base_offset)
        self._time_index = TimeIndex(self._base_offset)

    # Access

    def load(self, size: int) -> None:
        """Reads the files of the active segment, which has `size` bytes, unless that was done."""
        if self._offset_index is None or self._time_index is None:
            self.offset_index(size, is_active=True)
            self.time_index(is_active=True)

    def offset_index(self, size: int, is_active: bool) -> OffsetIndex:
        """`size` is that of the segment: entries beyond it are ignored."""
        index = self._offset_index
        if index is None:
            index = OffsetIndex.decode(self._base_offset, self._read(INDEX_SUFFIX))
            if index.positions and index.positions[-1] >= size:
                index.truncate_to(self._base_offset + index.offsets[-1] + 1, size)
            self._offset_index = index
            if not is_active:
                self._loaded.add(self, index.memory_bytes())
        elif not is_active:
            self._loaded.touch(self)
        return index

    def time_index(self, is_active: bool) -> TimeIndex:
        time_index = self._time_index
        if time_index is None:
            time_index = TimeIndex.decode(self._base_offset, self._read(TIME_INDEX_SUFFIX))
            self._time_index = time_index
            if not is_active:
                self._loaded.add(self, time_index.memory_bytes())
        return time_index

    def _path(self, suffix: str) -> str:
        return offset_file(self._directory, self._base_offset, suffix)

    def _read(self, suffix: str) -> bytes:
        try:
            return self._stores.disk.read(self._path(suffix))
        except FileNotFoundError:
            return b""

    def last_time_entry(self) -> tuple[int, int] | None:
        """Timestamp and relative offset of the last entry in the file, unless the array is loaded;
        None if there is no entry."""
        if self._time_index is not None:
            return None
        try:
            file = self._stores.disk.open(self._path(TIME_INDEX_SUFFIX), writable=False)
        except FileNotFoundError:
            return None
        try:
            start = max(file.size() // TIME_ENTRY_SIZE - 1, 0) * TIME_ENTRY_SIZE
            return last_time_entry(file.read_at(start, TIME_ENTRY_SIZE))
        finally:
            file.close()

    # Appending

    def add(self, index: OffsetIndex, time_index: TimeIndex) -> None:
        """Entries were appended to the indexes of the active segment."""
        self.is_full = (
            len(index) >= self.max_bytes // OFFSET_ENTRY_SIZE
            # Room is kept for the entry that is added when the segment is closed.
            or len(time_index) >= self.max_bytes // TIME_ENTRY_SIZE - 1
        )
        unwritten = len(index) - index.written
        if unwritten == 1:
            self._stores.unwritten[self] = None
        if unwritten >= _ENTRIES_A_WRITE:
            try:
                self.write()
            except OSError as error:
                if not is_passing(error):
                    raise  # Else they are written with later entries: the batch is in the log.

    def write(self) -> None:
        """Writes the entries that the files lack. Afterwards both files exist."""
        index, time_index = self._offset_index, self._time_index
        if index is not None:
            self._write(INDEX_SUFFIX, index.written * OFFSET_ENTRY_SIZE, index.unwritten())
            index.written = len(index)
        if time_index is not None:
            start = time_index.written * TIME_ENTRY_SIZE
            self._write(TIME_INDEX_SUFFIX, start, time_index.unwritten())
            time_index.written = len(time_index)
        self._stores.unwritten.pop(self, None)

    def _write(self, suffix: str, position: int, content: bytes) -> None:
        file = self._stores.disk.open(self._path(suffix), create=True)
        try:
            if file.size() > position:
                if file.read_at(position, len(content) + 1) == content:
                    return  # Recovery has rebuilt what is in the file.
                file.truncate(position)
            if content:
                file.write_at(position, [content])
        finally:
            file.close()

    # Memory

    def close_for_appends(self) -> None:
        """The segment is closed: from now on `LoadedIndexes` may drop the arrays."""
        if self._offset_index is not None and self._time_index is not None:
            size = self._offset_index.memory_bytes() + self._time_index.memory_bytes()
            self._loaded.add(self, size)

    def reopen(self) -> None:
        """A truncation makes the segment the active one again: the arrays stay in memory."""
        self._loaded.remove(self)

    def drop_indexes(self) -> None:
        """Frees the memory of a closed segment's arrays: they can be read again."""
        self._offset_index = self._time_index = None

    def forget(self) -> None:
        """The segment leaves the log."""
        self._stores.unwritten.pop(self, None)
        self._loaded.remove(self)

    # Invariants

    def find_inconsistency(self, *, size: int, next_offset: Offset) -> str | None:
        """What is wrong with the loaded indexes of a segment that ends at `next_offset`, if
        anything: their entries rise and lie within the segment."""
        index, time_index = self._offset_index, self._time_index
        if index is not None and index.offsets:
            if not (is_rising(index.offsets) and is_rising(index.positions)):
                return f"offset index does not rise: {index.offsets} at {index.positions}"
            last_offset = self._base_offset + index.offsets[-1]
            if index.positions[-1] >= size or last_offset >= next_offset:
                return (
                    f"the offset index ends with offset {last_offset} at byte "
                    f"{index.positions[-1]}, the segment with {next_offset} at {size}"
                )
        if time_index is not None and time_index.offsets:
            last_offset = self._base_offset + time_index.offsets[-1]
            if not is_rising(time_index.timestamps) or last_offset >= next_offset:
                return f"the time index ends with offset {last_offset}: {time_index.timestamps}"
        return None
