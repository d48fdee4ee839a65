"""The row of a log's segments: finding the right one, adding, cutting, letting go.

Invariant: base offsets rise; the last segment is the active one; there is at least one,
except while the last one is being replaced.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from odradek.storage.descriptors import Slice
from odradek.storage.names import (
    DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_file,
)
from odradek.storage.segment import Segment, SegmentStores
from odradek.world.disk import Disk


class Segments:
    __slots__ = ("_all", "_bases", "_directory", "_stores")

    def __init__(
        self, directory: str, stores: SegmentStores, segments: Sequence[Segment] = ()
    ) -> None:
        self._directory = directory
        self._stores = stores
        self._all = list(segments)
        self._bases = [segment.base_offset for segment in segments]

    @property
    def all(self) -> Sequence[Segment]:
        return self._all

    @property
    def active(self) -> Segment:
        return self._all[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._all)

    def add(self, base_offset: int, created_ms: int) -> Segment:
        """A new, empty segment at the end. Its files come with the first append."""
        segment = Segment(self._directory, base_offset, self._stores, created_ms=created_ms)
        segment.start_empty()
        self._all.append(segment)
        self._bases.append(base_offset)
        return segment

    def remove(self, segments: Sequence[Segment]) -> None:
        """Takes segments out of the row; their files are the caller's to delete."""
        gone = set(segments)
        self._all = [segment for segment in self._all if segment not in gone]
        self._bases = [segment.base_offset for segment in self._all]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Puts one segment in the place of a row of neighbours that begins where it does."""
        first = self._all.index(old[0])
        self._all = [*self._all[:first], new, *self._all[first + len(old) :]]
        self._bases = [segment.base_offset for segment in self._all]

    def forget_all(self) -> None:
        for segment in self._all:
            segment.forget()

    # Reading

    def read(
        self, offset: int, max_bytes: int, end_offset: int | None, min_one: bool
    ) -> Slice | None:
        active = self._all[-1]
        if offset >= active.base_offset:
            return _slice(active, offset, max_bytes, end_offset, min_one)
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while True:
            segment = self._all[number]
            number += 1
            is_last = number == len(self._all)
            below = (
                None if not is_last and _not_below(end_offset, self._bases[number]) else end_offset
            )
            found = _slice(segment, offset, max_bytes, below, min_one)
            if found is not None or is_last or segment.locate(offset) < segment.size:
                return found
            # A gap at the segment's end, as compaction leaves them: go on in the next one.

    def end_of(self, found: Slice) -> int | None:
        """The offset of the first batch behind a slice; None if it may reach the log's end."""
        active = self._all[-1]
        if active.file is found.file:
            return active.offset_at(found.position + len(found))
        for number in range(len(self._all) - 1):
            segment = self._all[number]
            if segment.file is found.file:
                behind = segment.offset_at(found.position + len(found))
                return self._bases[number + 1] if behind is None else behind
        return None

    def base_of(self, offset: int) -> int:
        """The base offset of the segment that an offset falls into."""
        return self._bases[max(bisect_right(self._bases, offset) - 1, 0)]

    def base_behind(self, base_offset: int) -> int | None:
        """The base offset of the next segment; None behind the last one."""
        number = bisect_right(self._bases, base_offset)
        return self._bases[number] if number < len(self._bases) else None

    # Cutting

    def behind(self, offset: int) -> list[Segment]:
        """The segments that a truncation to `offset` removes: never the first one."""
        return self._all[max(bisect_left(self._bases, offset), 1) :]

    def wholly_below(self, offset: int) -> int:
        """How many segments from the first on hold nothing at or above `offset`."""
        return max(bisect_right(self._bases, offset) - 1, 0)


def _not_below(end_offset: int | None, next_base: int) -> bool:
    return end_offset is None or end_offset >= next_base


def _slice(
    segment: Segment, offset: int, max_bytes: int, end_offset: int | None, min_one: bool
) -> Slice | None:
    start = segment.locate(offset)
    end = segment.end_below(start, start + max_bytes, end_offset)
    if end <= start:
        if not min_one or start >= segment.size:
            return None
        end = segment.first_batch_end(start)
        if end_offset is not None and segment.locate(end_offset) < end:
            return None
    segment.remember(end)
    return Slice(segment.file, start, end - start)


def mark_deleted(disk: Disk, segment: Segment) -> list[str]:
    """Renames a segment's files, and the snapshot at its start, to names that loading ignores."""
    directory, base_offset = segment.directory, segment.base_offset
    segment.forget()
    renamed = []
    for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
        path = offset_file(directory, base_offset, suffix)
        try:
            disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            continue
        renamed.append(path + DELETED_SUFFIX)
    segment.file.path += DELETED_SUFFIX
    return renamed
