"""The segments of one log: finding the right one, rolling, truncating, deleting.

`Log` decides what is to happen and calls these methods; a disk error (`OSError`) is the log's to
report. Segments that leave the log are renamed at once and deleted after `file.delete.delay.ms`,
so that tools and slow readers get time to finish.

Invariant: base offsets rise, no segment reaches beyond the base offset of the next one, and the
last segment is the active one, which takes appends. There is at least one segment, except while
the last one is being replaced.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from odradek.invariants import InvariantViolation
from odradek.protocol.types import Offset
from odradek.storage.descriptors import Slice
from odradek.storage.file_names import (
    DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_file,
)
from odradek.storage.log_context import LogContext
from odradek.storage.log_directory import LogDirectory
from odradek.storage.segment import Segment
from odradek.storage.validation import AppendRules
from odradek.world.disk import Disk

# Indexes and batches tell offsets by their distance from the segment's first one, in 32 bits.
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class Segments:
    __slots__ = ("_all", "_bases", "_context", "active", "rules")

    def __init__(
        self, context: LogContext, rules: AppendRules, segments: Sequence[Segment]
    ) -> None:
        """`segments` are valid and in order; there is at least one."""
        self._context = context
        self._all = list(segments)
        self._bases = [segment.base_offset for segment in segments]
        self.active = self._all[-1]
        self.rules = rules
        self.active.indexes.max_bytes = rules.index_bytes

    @property
    def all(self) -> Sequence[Segment]:
        return self._all

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._all)

    def configure(self, rules: AppendRules) -> None:
        self.rules = rules
        self.active.indexes.max_bytes = rules.index_bytes

    def forget_all(self) -> None:
        for segment in self._all:
            segment.forget()

    # Rolling

    def must_roll(
        self, size: int, last_offset: Offset, max_timestamp: int, now_ms: int, *, unwritten: int = 0
    ) -> bool:
        """Returns whether a batch needs a new segment. `unwritten` bytes will go before it."""
        segment, rules = self.active, self.rules
        occupied = segment.size + unwritten
        if not occupied:
            # A follower may have rolled to an offset that it could not write then.
            return not 0 <= last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
        if occupied + size > rules.segment_bytes or segment.indexes.is_full:
            return True
        first_timestamp = segment.first_timestamp
        if first_timestamp < 0:
            first_timestamp = segment.load_first_timestamp()
        age_ms = (
            max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
        )
        return (
            age_ms > rules.segment_ms - segment.roll_early_ms
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def begin(self, base_offset: Offset) -> Segment:
        """Makes the segment that the next append goes to, and returns it."""
        if self._bases and base_offset <= self._bases[-1] and self.active.size:
            raise self._violation(
                f"a segment begins at {base_offset}, not after the last one at {self._bases[-1]}"
            )
        context, rules = self._context, self.rules
        created_ms = context.world.clock.now_ms()
        segment = empty_segment(
            context.partition_path, base_offset, context.log_directory, created_ms
        )
        segment.indexes.max_bytes = rules.index_bytes
        if rules.segment_jitter_ms:
            segment.roll_early_ms = context.world.randomness.integer_below(rules.segment_jitter_ms)
        if base_offset:
            # Retention may remove all segments before: then only this name tells the offset.
            segment.create_file()
        self._all.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        self._context.directory_entries.change()
        return segment

    # Reading

    def read(
        self, offset: Offset, max_bytes: int, end_offset: Offset | None, min_one: bool
    ) -> Slice | None:
        active = self.active
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
            batches = _slice(segment, offset, max_bytes, below, min_one)
            if batches is not None or is_last or segment.locate(offset) < segment.size:
                return batches
            # A gap at the segment's end, as compaction leaves them: go on in the next one.

    def end_of(self, found: Slice) -> Offset | None:
        """The offset of the first batch after a slice; None if the slice possibly reaches the log
        end."""
        active = self.active
        if active.file is found.file:
            return active.offset_at(found.position + len(found))
        for number in range(len(self._all) - 1):
            segment = self._all[number]
            if segment.file is found.file:
                next_offset = segment.offset_at(found.position + len(found))
                return self._bases[number + 1] if next_offset is None else next_offset
        return None

    def base_of(self, offset: Offset) -> Offset:
        """The base offset of the segment that an offset falls into."""
        return self._bases[max(bisect_right(self._bases, offset) - 1, 0)]

    def end_offset_of(self, base_offset: Offset) -> Offset:
        """The end offset of the segment with this base offset: the base offset of the next segment,
        or the log end offset."""
        number = bisect_right(self._bases, base_offset)
        return self._bases[number] if number < len(self._bases) else self.active.next_offset

    def count_below(self, offset: Offset) -> int:
        """How many segments from the first on hold nothing at or above `offset`."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    # Removing

    def segments_above(self, offset: Offset) -> list[Segment]:
        """The segments that a truncation to `offset` removes: never the first one."""
        return self._all[max(bisect_left(self._bases, offset), 1) :]

    def truncate_active(self, offset: Offset) -> Segment:
        """Cuts every batch that reaches `offset` off the segment that is the last one now."""
        active = self.active
        active.truncate_to(offset)
        active.indexes.max_bytes = self.rules.index_bytes
        if active.next_offset > offset:
            raise self._violation(
                f"the active segment ends at {active.next_offset} after a truncation to {offset}"
            )
        return active

    def remove_first(self, count: int, log_start_offset: Offset) -> None:
        """Deletes segments that lie wholly below the log start offset."""
        if self._bases[count] > log_start_offset:
            raise self._violation(
                f"segments up to offset {self._bases[count]} are deleted, but the log starts at "
                f"{log_start_offset}"
            )
        removed = self._all[:count]
        self._set(self._all[count:])
        self._delete_files(removed)

    def remove_last(self, count: int) -> None:
        """Deletes the last segments, because of a truncation. All of them if the log starts over:
        then `begin` follows."""
        if count:
            removed = self._all[-count:]
            self._set(self._all[:-count])
            self._delete_files(reversed(removed))
            self._context.directory_entries.change()

    def remove_empty(self, segment: Segment) -> None:
        """Deletes a segment without batches, after which another one has begun."""
        self._set([other for other in self._all if other is not segment])
        self._delete_files([segment])

    def _delete_files(self, segments: Iterable[Segment]) -> None:
        """Renames the files of segments now and deletes them when it is time.

        The outermost segment comes first, at whichever end of the log: a crash in between leaves a
        log without a gap. Recovery would remove everything after a gap.
        """
        for segment in segments:
            self._delete_later(rename_to_deleted(self._context.disk, segment))

    def _delete_later(self, renamed: Iterable[str]) -> None:
        context, delay_ms = self._context, self.rules.settings.file_delete_delay_ms
        due_s = context.world.clock.monotonic_s() + delay_ms / 1000
        for path in renamed:
            context.log_directory.delete_later(due_s, partial(context.disk.remove, path))

    def replace(self, old: Sequence[Segment], new: Segment, renamed: Sequence[str]) -> None:
        """Replaces adjacent segments by a compacted one, which begins where the first of them
        begins. `renamed` are the files of the old segments, to be deleted later."""
        first = self._all.index(old[0])
        end = first + len(old)
        if (
            self._all[first:end] != list(old)
            or end >= len(self._all)
            or new.base_offset != old[0].base_offset
            or new.next_offset > self._bases[end]
        ):
            raise self._violation(
                f"a compacted segment of offsets {new.base_offset} to {new.next_offset} does not "
                f"fit the place of {[segment.base_offset for segment in old]} in {self._bases}"
            )
        self._set([*self._all[:first], new, *self._all[end:]])
        self._context.directory_entries.change()
        self._delete_later(renamed)

    def _set(self, segments: list[Segment]) -> None:
        self._all = segments
        self._bases = [segment.base_offset for segment in segments]
        if segments:
            self.active = segments[-1]

    # Invariants

    def _violation(self, rule: str) -> InvariantViolation:
        return self._context.history.violation(rule)

    def check(self) -> None:
        """Walks over all segments, and over the boundaries and indexes of the active one."""
        segments, active = self._all, self.active
        if not segments or segments[-1] is not active or not active.is_active:
            raise self._violation(f"{active!r} is not the last, active one of {segments}")
        for segment, following in pairwise(segments):
            if segment.is_active:
                raise self._violation(f"{segment!r} is active, but not the last one")
            # Of a segment that was loaded closed only the base offset is known.
            if not segment.base_offset <= segment.next_offset <= following.base_offset or (
                segment.base_offset == following.base_offset
            ):
                raise self._violation(
                    f"{segment!r} ends at {segment.next_offset}, but {following!r} follows"
                )
        reason = active.find_inconsistency()
        if reason is not None:
            raise self._violation(f"{active!r}: {reason}")


def empty_segment(
    path: str, base_offset: Offset, directory: LogDirectory, created_ms: int
) -> Segment:
    """A new segment of the partition in `path`. Its files are made with the first append."""
    segment = Segment(path, base_offset, directory.stores, created_ms=created_ms)
    segment.reset()
    return segment


def _not_below(end_offset: Offset | None, next_base: int) -> bool:
    return end_offset is None or end_offset >= next_base


def _slice(
    segment: Segment, offset: Offset, max_bytes: int, end_offset: Offset | None, min_one: bool
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


def rename_to_deleted(disk: Disk, segment: Segment, *, keeps_snapshot: bool = False) -> list[str]:
    """Renames the files of a segment to names that loading ignores, and returns the new names.

    The producer snapshot at its base offset is renamed too, unless a compacted segment with the
    same base offset needs it (`keeps_snapshot`).
    """
    segment.forget()
    renamed = []
    for suffix in SEGMENT_SUFFIXES if keeps_snapshot else (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
        path = offset_file(segment.directory, segment.base_offset, suffix)
        try:
            disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            continue
        renamed.append(path + DELETED_SUFFIX)
    segment.file.path += DELETED_SUFFIX
    return renamed
