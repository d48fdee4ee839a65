"""Which logs can be compacted, and how far. Nothing here changes anything or waits.

    log start ... first dirty ... first uncleanable ... log end
        | compacted |   dirty, can be   | stays as it is |

- first dirty offset: where the last pass ended.
- first uncleanable offset: a pass does not go beyond the last stable offset, the recovery point,
  the active segment, or a record younger than `min.compaction.lag.ms`; it ends between segments.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.types import Offset
from odradek.storage.validation import MAX_LONG

if TYPE_CHECKING:
    from odradek.storage.log import Log
    from odradek.storage.segment import Segment

_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
# The files of so many segments are renamed in one turn of the event loop.
_MAX_SEGMENTS_PER_GROUP: Final = 64


class Cleanable(NamedTuple):
    """What a pass over a log would do now. `segments` are those that it would rewrite."""

    log: "Log"
    segments: tuple["Segment", ...]
    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    # When the oldest dirty record will have waited for `max.compaction.lag.ms`; None if never.
    overdue_from_ms: int | None
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def delay_ms(self, now_ms: int) -> int:
        """How much longer than `max.compaction.lag.ms` the oldest dirty record has waited."""
        return 0 if self.overdue_from_ms is None else max(now_ms - self.overdue_from_ms, 0)

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > self.log.settings.min_cleanable_dirty_ratio


def examine(log: "Log", now_ms: int) -> Cleanable:
    """What a pass over this log would do now."""
    all_segments = log.segments
    first_dirty = max(log.first_dirty_offset, log.log_start_offset)
    limit = _first_uncleanable(log, now_ms)
    # The last segment that begins at or below the limit stays, with all segments after it.
    count = sum(1 for segment in all_segments if segment.base_offset <= limit) - 1
    segments = tuple(all_segments[: max(count, 0)])
    end_offset = all_segments[count].base_offset if count > 0 else first_dirty
    dirty = [
        segment
        for number, segment in enumerate(segments)
        if all_segments[number + 1].base_offset > first_dirty
    ]
    dirty_bytes = sum(segment.size for segment in dirty)
    clean_bytes = sum(segment.size for segment in segments) - dirty_bytes
    overdue_from_ms = _overdue_from_ms(log, dirty)
    return Cleanable(
        log,
        segments,
        first_dirty,
        end_offset,
        clean_bytes,
        dirty_bytes,
        overdue_from_ms,
        overdue_from_ms is not None and overdue_from_ms < now_ms,
    )


def _first_uncleanable(log: "Log", now_ms: int) -> int:
    limit = min(
        log.producers.last_stable_offset(log.high_watermark),
        log.active_segment.base_offset,
        log.recovery_point,
    )
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments[:-1]:
            if segment.base_offset >= limit:
                break
            if segment.size and segment.load_max_timestamp() > now_ms - lag_ms:
                return min(limit, segment.base_offset)
    return limit


def _overdue_from_ms(log: "Log", dirty: Sequence["Segment"]) -> int | None:
    lag_ms = log.settings.max_compaction_lag_ms
    if lag_ms == MAX_LONG:
        return None
    firsts = [segment.load_first_timestamp() for segment in dirty if segment.size]
    return min((first + lag_ms for first in firsts if first >= 0), default=None)


def first_dirty_offset(log: "Log", checkpoint: Offset) -> Offset:
    """The first dirty offset of a log that was loaded. A checkpoint beyond its end is ignored."""
    if checkpoint > log.log_end_offset:
        return log.log_start_offset
    return max(checkpoint, log.log_start_offset)


def filthiest(candidates: Sequence[Cleanable]) -> Cleanable | None:
    """The log to compact next (Kafka's "filthiest log"): an overdue one, else the dirtiest."""
    due = [cleanable for cleanable in candidates if cleanable.is_due]
    return max(due, key=lambda due: (due.is_overdue, due.dirty_ratio), default=None)


def group_segments(
    segments: Sequence[tuple[Offset, int]],
    index_sizes: Sequence[int],
    *,
    end_offset: Offset,
    segment_bytes: int,
    segment_index_bytes: int,
) -> list[list[tuple[Offset, int]]]:
    """Groups of neighbouring segments, given as base offset and size. Each group becomes one.

    The segments of a group fit into one segment and its index as they are now, and their offsets
    fit into the 32 bits of an index entry.
    """
    groups: list[list[tuple[Offset, int]]] = []
    group_bytes = index_bytes = 0
    for number, (base_offset, size) in enumerate(segments):
        next_base = segments[number + 1][0] if number + 1 < len(segments) else end_offset
        if (
            groups
            and group_bytes + size <= segment_bytes
            and index_bytes + index_sizes[number] <= segment_index_bytes
            and next_base - 1 - groups[-1][0][0] <= _MAX_RELATIVE_OFFSET
            and len(groups[-1]) < _MAX_SEGMENTS_PER_GROUP
        ):
            groups[-1].append((base_offset, size))
            group_bytes += size
            index_bytes += index_sizes[number]
        else:
            groups.append([(base_offset, size)])
            group_bytes, index_bytes = size, index_sizes[number]
    return groups
