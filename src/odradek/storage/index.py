"""The sparse indexes of one segment: from an offset to a position, from a timestamp to an offset.

An offset index entry `(relative offset, position)` means: the batch that starts at this position
has this last offset. A time index entry `(timestamp, relative offset)` means: no record up to this
offset has a higher timestamp. The entries of both rise. They can be rebuilt from the `.log` file,
so they have no checksum.

Entries are held in arrays and searched with bisect. The active segment writes them to its files
many at a time (`unwritten`); those of closed segments are read when they are first needed.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from operator import lt
from typing import Protocol

from odradek.protocol.types import Offset

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
MAX_RELATIVE_OFFSET = (1 << 31) - 1

_TIME_ENTRY = struct.Struct(">qi")
_LITTLE_ENDIAN = sys.byteorder == "little"


class OffsetIndex:
    __slots__ = ("base_offset", "offsets", "positions", "written")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.offsets = array("i")
        self.positions = array("i")
        # How many entries the file holds.
        self.written = 0

    @classmethod
    def decode(cls, base_offset: Offset, content: bytes) -> "OffsetIndex":
        """Takes the entries up to the first that does not rise: the rest of the file is only
        preallocated, as Kafka does it."""
        index = cls(base_offset)
        entries = array("i")
        entries.frombytes(content[: len(content) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE])
        if _LITTLE_ENDIAN:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        keep = min(_rising(offsets), _rising(positions))
        index.offsets, index.positions = offsets[:keep], positions[:keep]
        index.written = keep
        return index

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: Offset, position: int) -> None:
        self.offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def floor(self, offset: Offset) -> int:
        """The position to start searching for an offset: no batch before it contains the offset."""
        number = bisect_right(self.offsets, min(offset - self.base_offset, MAX_RELATIVE_OFFSET))
        return self.positions[number - 1] if number else 0

    def batch_start_below(self, position: int) -> int:
        """The last indexed start of a batch at or before a position; 0 if there is none."""
        number = bisect_right(self.positions, min(position, MAX_RELATIVE_OFFSET))
        return self.positions[number - 1] if number else 0

    def truncate_to(self, offset: Offset, position: int) -> None:
        """Removes the entries at or above the offset or the position."""
        keep = min(
            bisect_left(self.offsets, min(offset - self.base_offset, MAX_RELATIVE_OFFSET)),
            bisect_left(self.positions, position),
        )
        del self.offsets[keep:], self.positions[keep:]
        self.written = min(self.written, keep)

    def unwritten(self) -> bytes:
        """The entries that are not in the file yet, in the file's format."""
        start = self.written
        entries = array("i", bytes(OFFSET_ENTRY_SIZE * (len(self.offsets) - start)))
        entries[0::2] = self.offsets[start:]
        entries[1::2] = self.positions[start:]
        if _LITTLE_ENDIAN:
            entries.byteswap()
        return entries.tobytes()

    def memory_bytes(self) -> int:
        return OFFSET_ENTRY_SIZE * len(self.offsets)


class TimeIndex:
    __slots__ = ("base_offset", "offsets", "timestamps", "written")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.offsets = array("i")
        self.written = 0

    @classmethod
    def decode(cls, base_offset: Offset, content: bytes) -> "TimeIndex":
        index = cls(base_offset)
        count = len(content) // TIME_ENTRY_SIZE
        timestamps = _column("q", content, count, 0)
        keep = _rising(timestamps)
        index.timestamps = timestamps[:keep]
        index.offsets = _column("i", content, count, 8)[:keep]
        index.written = keep
        return index

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, timestamp: int, offset: Offset) -> None:
        """Adds an entry unless the last one has this timestamp or a higher one."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(offset - self.base_offset)

    def last(self) -> tuple[int, Offset]:
        """Timestamp and offset of the last entry; (-1, base offset) if there is none."""
        if not self.timestamps:
            return -1, self.base_offset
        return self.timestamps[-1], self.base_offset + self.offsets[-1]

    def floor(self, timestamp: int) -> Offset:
        """The offset up to which no record has `timestamp` or a higher one."""
        number = bisect_left(self.timestamps, timestamp)
        return self.base_offset + (self.offsets[number - 1] if number else 0)

    def truncate_to(self, offset: Offset) -> None:
        keep = bisect_left(self.offsets, min(offset - self.base_offset, MAX_RELATIVE_OFFSET))
        del self.timestamps[keep:], self.offsets[keep:]
        self.written = min(self.written, keep)

    def unwritten(self) -> bytes:
        pairs = zip(self.timestamps[self.written :], self.offsets[self.written :], strict=True)
        return b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs)

    def memory_bytes(self) -> int:
        return TIME_ENTRY_SIZE * len(self.offsets)


def last_time_entry(content: bytes) -> tuple[int, int] | None:
    """Timestamp and relative offset of the last entry of a time index; None if it is empty."""
    if len(content) < TIME_ENTRY_SIZE:
        return None
    timestamp, offset = _TIME_ENTRY.unpack_from(content, len(content) - TIME_ENTRY_SIZE)
    return (timestamp, offset) if timestamp > 0 else None


def _column(kind: str, content: bytes, count: int, start: int) -> "array[int]":
    """One field of every entry of a time index. Slices of bytes are faster than `struct` here."""
    column: array[int] = array(kind)
    width = column.itemsize
    gathered = bytearray(width * count)
    end = TIME_ENTRY_SIZE * count
    for byte in range(width):
        gathered[byte::width] = content[start + byte : end : TIME_ENTRY_SIZE]
    column.frombytes(gathered)
    if _LITTLE_ENDIAN:
        column.byteswap()
    return column


def is_rising(values: Sequence[int]) -> bool:
    return all(map(lt, values, values[1:]))


def _rising(values: "array[int]") -> int:
    """How many values from the first on are in rising order."""
    if is_rising(values):
        return len(values)
    return next(number + 1 for number in range(len(values)) if values[number + 1] <= values[number])


class HasIndexes(Protocol):
    """What `LoadedIndexes` needs of a closed segment."""

    def drop_indexes(self) -> None: ...


class LoadedIndexes:
    """Limits the memory of the indexes of closed segments: drops the least recently used ones.

    The indexes of a full segment take up to two megabytes, and a broker may have ten thousand.
    """

    __slots__ = ("_budget_bytes", "_loaded", "_total_bytes")

    def __init__(self, budget_bytes: int = 16 << 20) -> None:
        self._budget_bytes = budget_bytes
        self._total_bytes = 0
        self._loaded: OrderedDict[HasIndexes, int] = OrderedDict()

    def touch(self, segment: HasIndexes) -> None:
        if segment in self._loaded:
            self._loaded.move_to_end(segment)

    def add(self, segment: HasIndexes, memory_bytes: int) -> None:
        self._loaded[segment] = self._loaded.pop(segment, 0) + memory_bytes
        self._total_bytes += memory_bytes
        while self._total_bytes > self._budget_bytes and len(self._loaded) > 1:
            oldest, size = self._loaded.popitem(last=False)
            self._total_bytes -= size
            oldest.drop_indexes()

    def remove(self, segment: HasIndexes) -> None:
        self._total_bytes -= self._loaded.pop(segment, 0)
