"""When a log needs a new segment, and the change from the old one to the new.

`Log` calls these as it appends; a disk error is the caller's to report.
"""

import logging
from typing import TYPE_CHECKING, Final

from odradek.storage.producing import write_lacking_aborted
from odradek.storage.segment import Segment
from odradek.storage.snapshots import write_snapshot

if TYPE_CHECKING:
    from odradek.storage.log import Log

logger = logging.getLogger("odradek.storage")

# Indexes and batches tell offsets by their distance from the segment's first one, in 32 bits.
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


def must_roll(
    log: "Log",
    size: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
    *,
    unwritten: int = 0,
) -> bool:
    """Whether a batch needs a new segment; `unwritten` bytes will go before it."""
    segment, rules = log.active_segment, log.rules
    occupied = segment.size + unwritten
    if not occupied:
        return last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
    if occupied + size > rules.segment_bytes or segment.indexes_full:
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


def roll(log: "Log", base_offset: int) -> Segment:
    """Closes the active segment and begins the next one, at the log's end or behind it."""
    old = log.active_segment
    try:
        if old.size:
            old.finish()
            if log.lacks_aborted:
                write_lacking_aborted(log)
            write_snapshot(log.directory.disk, log.path, log.producers)
        else:
            log.remove([old], from_end=True)
        begin_segment(log, base_offset)
    except OSError:
        old.is_dirty = True  # It stays the active one, and is to be finished again.
        raise
    logger.info(
        "%s: new segment at offset %d; the last one has %d bytes",
        log.topic_partition,
        log.active_segment.base_offset,
        old.size,
    )
    if old.size:
        # Pinned for its sync before appends let go of it: only the descriptor that wrote
        # is sure to be told of a write that failed later.
        log.flusher.segment_closed(old)
        old.close_for_appends()
    return log.active_segment


def begin_segment(log: "Log", base_offset: int) -> None:
    """The next append goes to a new segment."""
    rules = log.rules
    segment = log.row.add(base_offset, log.world.clock.now_ms())
    segment.index_bytes = rules.index_bytes
    if rules.segment_jitter_ms:
        segment.roll_early_ms = log.world.randomness.below(rules.segment_jitter_ms)
    if base_offset:
        # Retention may remove all that lies before: then this name alone tells the offset.
        try:
            segment.create_file()
        except OSError:
            log.row.remove([segment])
            raise
    log.active_segment = segment
    log.flusher.has_new_names = True
