"""Taking records away: from the end (truncation) and from the start (DeleteRecords, `retention`).

`Log` checks what it is asked and calls these; nobody else does. Segments that leave are
renamed at once and deleted later, so that tools and slow readers get time to finish. A truncation
that has begun cannot be left halfway: any error then takes the directory offline.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.storage.aborted import rewrite
from odradek.storage.directory import LogDirectory
from odradek.storage.names import PARTITION_METADATA
from odradek.storage.rolling import begin_segment
from odradek.storage.segment import Segment
from odradek.storage.segments import mark_deleted
from odradek.storage.snapshots import drop_snapshots, rebuild_producers
from odradek.world.disk import File

if TYPE_CHECKING:
    from odradek.storage.log import Log


# How many segments are removed in one step: a few milliseconds' work.
REMOVED_AT_ONCE: Final = 8


def truncate(log: "Log", offset: int) -> None:
    """Cuts every batch that reaches `offset`, which lies inside the log."""
    disk = log.directory.disk
    require_descriptors(log)
    try:
        removed = log.row.behind(offset)
        log.flusher.segments_gone(removed)
        log.remove(removed, from_end=True)
        # What is flushed next must not meet them again after a power cut.
        log.flusher.has_new_names |= bool(removed)
        # Only now: a kill before this line leaves a log that is longer, and without a hole.
        log.active_segment = active = log.row.active
        log.flusher.segments_gone([active])
        active.truncate_to(offset)
        active.index_bytes = log.settings.segment_index_bytes
        if active.next_offset < log.log_start_offset:
            # A batch that reached over the start is gone, and all that is left lies before it.
            # The next record would leave a hole, which recovery takes for a loss.
            start_over(log, log.log_start_offset)
            return
        log.log_end_offset = active.next_offset
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        if drop_snapshots(disk, log.path, above=log.log_end_offset):
            log.flusher.has_new_names = True
        log.producers = rebuild_producers(disk, log.path, log.segments, log.log_end_offset)
        if log.aborted.drop_from(log.log_end_offset):
            kept = log.aborted.encode(active.base_offset, log.log_end_offset)
            rewrite(disk, log.path, active.base_offset, kept)
    except OSError as error:
        raise log.directory.fail(error, is_halfway=True) from error
    _was_truncated(log)


def require_descriptors(log: "Log") -> None:
    """Refuses a truncation before anything is changed if no descriptors are left for it.

    It needs two at a time. No connection is accepted before it is done.
    """
    disk, path = log.directory.disk, f"{log.path}/{PARTITION_METADATA}"
    files: list[File] = []
    try:
        for _ in range(2):
            files.append(disk.open(path, create=True))
    except OSError as error:
        raise log.directory.fail(error) from error
    finally:
        for file in files:
            file.close()


def start_over(log: "Log", offset: int) -> None:
    """Removes everything; the log is empty at `offset`."""
    removed = list(log.segments)
    require_descriptors(log)
    try:
        log.flusher.segments_gone(removed)
        log.remove(removed, from_end=True)
        log.log_start_offset = log.log_end_offset = log.kept_start_offset = offset
        begin_segment(log, offset)
        drop_snapshots(log.directory.disk, log.path)
        # A snapshot that a power cut brought back would tell of producers that are not in the log.
        log.directory.disk.sync_directory(log.path)
    except OSError as error:
        raise log.directory.fail(error, is_halfway=True) from error
    log.leader_epochs.clear()
    log.producers.clear(offset)
    log.aborted.clear()
    _was_truncated(log)
    # There is nothing that could be lost.
    log.flushed.advance(offset)


def _was_truncated(log: "Log") -> None:
    log.high_watermark = min(log.high_watermark, log.log_end_offset)
    log.flusher.truncated(log.log_end_offset)
    log.lacks_aborted = {base for base in log.lacks_aborted if base < log.log_end_offset}
    log.first_dirty_offset = min(log.first_dirty_offset, log.log_end_offset)
    if log.directory.on_truncation is not None:
        log.directory.on_truncation(log)


def advance_start(log: "Log", offset: int) -> None:
    log.log_start_offset = offset
    log.leader_epochs.truncate_from_start(offset)
    log.directory.moved_starts[log] = None
    passed = log.row.wholly_below(offset)
    # Housekeeping removes the rest within a second: five renames a segment hold up everyone.
    if passed > REMOVED_AT_ONCE:
        log.directory.shortened[log] = None
    remove_first(log, min(passed, REMOVED_AT_ONCE))


def remove_first(log: "Log", count: int) -> None:
    """Takes segments from the start of the row; the log start lies behind them by now."""
    removed = list(log.segments[:count])
    if removed:
        log.flusher.segments_gone(removed)
        try:
            log.remove(removed, from_end=False)
        except OSError as error:
            raise log.directory.fail(error) from error
        log.aborted.drop_below(log.segments[0].base_offset)


def delete_files(directory: LogDirectory, segments: Iterable[Segment], due_s: float) -> None:
    """Renames the files of segments now and deletes them when it is time.

    The outermost segment comes first, whichever end of the log they leave: a crash in between
    leaves a log without a hole. Recovery would drop everything behind one.
    """
    for segment in segments:
        for path in mark_deleted(directory.disk, segment):
            directory.delete_later(due_s, partial(directory.disk.remove, path))
