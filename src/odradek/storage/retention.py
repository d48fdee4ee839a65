"""Retention: which segments at the start of a log are too old, too much, or below its start.

Whole segments go, oldest first, and only what lies below the high watermark: the log start never
passes it. The active segment stays, unless all of its records are to go: then a new one is begun.
`Log` calls `apply_retention`; nobody else does.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.storage.cutting import remove_first
from odradek.storage.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log import Log

logger = logging.getLogger("odradek.storage")


def apply_retention(log: "Log", high_watermark: int, now_ms: int, at_most: int) -> int:
    """Removes what is too old or too much, and what the log start has passed.

    At most so many segments: each takes five renames, and the event loop waits meanwhile.
    """
    settings = log.settings
    passed = min(log.row.wholly_below(log.log_start_offset), at_most)
    expired = beyond_size = 0
    if settings.removes_old_segments:
        deletable = _deletable(log.segments, high_watermark, at_most)
        expired = _count_expired(deletable, settings.retention_ms, now_ms)
        beyond_size = _count_beyond_size(deletable, settings.retention_bytes, log.size_bytes)
    count = max(passed, expired, beyond_size)
    if not count:
        return 0
    if count == len(log.segments):
        log.roll()
    first_kept = log.segments[count].base_offset
    if first_kept > log.log_start_offset:
        reason = "retention.ms" if expired >= beyond_size else "retention.bytes"
        logger.debug(
            "%s: %s takes what lies below offset %d (segments: %d)",
            log.topic_partition,
            reason,
            first_kept,
            count,
        )
        # No need for a checkpoint: the first segment's name says it.
        log.log_start_offset = log.kept_start_offset = first_kept
        log.leader_epochs.truncate_from_start(first_kept)
    remove_first(log, count)
    return count


def _deletable(segments: Sequence[Segment], high_watermark: int, at_most: int) -> Sequence[Segment]:
    """Those that hold nothing at or above the high watermark; not an empty active one."""
    for count, following in enumerate(segments[1 : at_most + 1]):
        if following.base_offset > high_watermark:
            return segments[:count]
    if at_most < len(segments):
        return segments[:at_most]
    active = segments[-1]
    goes_too = active.size and active.next_offset <= high_watermark
    return segments if goes_too else segments[:-1]


def _count_expired(segments: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    """How many from the first on hold only records older than `retention_ms`."""
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        if now_ms - segment.youngest_ms() <= retention_ms:
            return count
    return len(segments)


def _count_beyond_size(segments: Sequence[Segment], retention_bytes: int, size_bytes: int) -> int:
    """How many from the first on can go with `retention_bytes` still there."""
    if retention_bytes < 0:
        return 0
    excess = size_bytes - retention_bytes
    for count, segment in enumerate(segments):
        if segment.size > excess:
            return count
        excess -= segment.size
    return len(segments)
