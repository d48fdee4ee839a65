"""Retention: how many segments at the start of a log are too old, too much, or below its start.

Whole segments go, the oldest first, and only below the high watermark: the log start never passes
it. The active segment stays unless all of its records are to go: then the log rolls first. Nothing
here changes anything; `Log.delete_old_segments` removes what is counted here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.config import TopicSettings
from odradek.protocol.types import Offset
from odradek.storage.segment import Segment


class Expired(NamedTuple):
    """How many segments from the first on are to be deleted, and because of which setting."""

    segments: int
    reason: str


def count_expired(
    segments: Sequence[Segment],
    settings: TopicSettings,
    *,
    high_watermark: Offset,
    passed: int,
    size_bytes: int,
    now_ms: int,
    at_most: int,
) -> Expired:
    """`passed` segments lie wholly below the log start, and are deleted in any case.

    No more than `at_most` are counted: each takes five renames on the event loop.
    """
    by_age = by_size = 0
    if settings.removes_old_segments:
        deletable = _deletable(segments, high_watermark, at_most)
        by_age = _count_too_old(deletable, settings.retention_ms, now_ms)
        by_size = _count_too_much(deletable, settings.retention_bytes, size_bytes)
    reason = "retention.ms" if by_age >= by_size else "retention.bytes"
    return Expired(max(min(passed, at_most), by_age, by_size), reason)


def _deletable(
    segments: Sequence[Segment], high_watermark: Offset, at_most: int
) -> Sequence[Segment]:
    """The segments without records at or above the high watermark, except an empty active one."""
    for count, following in enumerate(segments[1 : at_most + 1]):
        if following.base_offset > high_watermark:
            return segments[:count]
    if at_most < len(segments):
        return segments[:at_most]
    active = segments[-1]
    includes_active = active.size and active.next_offset <= high_watermark
    return segments if includes_active else segments[:-1]


def _count_too_old(segments: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    """How many from the first on hold only records older than `retention_ms`."""
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        if now_ms - segment.newest_timestamp_ms() <= retention_ms:
            return count
    return len(segments)


def _count_too_much(segments: Sequence[Segment], retention_bytes: int, size_bytes: int) -> int:
    """How many from the first on can go while `retention_bytes` stay."""
    if retention_bytes < 0:
        return 0
    excess = size_bytes - retention_bytes
    for count, segment in enumerate(segments):
        if segment.size > excess:
            return count
        excess -= segment.size
    return len(segments)
