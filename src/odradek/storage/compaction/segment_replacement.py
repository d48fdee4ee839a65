"""Replaces segments by the compacted segment that was made from them. Kafka: `replaceSegments`.

All files are renamed in one turn of the event loop. A crash may interrupt the order anywhere:

1. The `.cleaned` files are renamed to `.swap`, the `.log` last: then the new segment counts.
2. The files of the old segments are renamed to `.deleted`, and deleted after
   `file.delete.delay.ms`.
3. The `.swap` files get their final names, the `.log` last.

Recovery undoes an unfinished step 1, and finishes steps 2 and 3. The contents were synced before,
and renames become durable in their order, so that a power cut is no worse than a kill.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.protocol.types import Offset
from odradek.storage.file_names import (
    CLEANED_SUFFIX,
    COMPACTED_FILES,
    SWAP_SUFFIX,
    offset_file,
)
from odradek.storage.local_log import Compacted
from odradek.storage.segment import Segment
from odradek.storage.segments import rename_to_deleted
from odradek.storage.transaction_index import AbortedTransaction
from odradek.world.disk import Disk

if TYPE_CHECKING:
    from odradek.storage.compaction.job import Replacement
    from odradek.storage.log import Log


def find_replaced(log: "Log", replacement: "Replacement") -> list[Segment] | None:
    """The segments that a replacement was made from; None if some of them were deleted."""
    by_base = {segment.base_offset: number for number, segment in enumerate(log.segments)}
    numbers = [by_base.get(base_offset) for base_offset in replacement.base_offsets]
    first = numbers[0]
    if first is None or numbers != list(range(first, first + len(numbers))):
        return None
    end = first + len(numbers)
    if end >= len(log.segments) or log.segments[end].base_offset != replacement.end_offset:
        return None
    return list(log.segments[first:end])


def replace_segments(log: "Log", old: Sequence[Segment], replacement: "Replacement") -> Segment:
    """Replaces neighbouring closed segments of a log. A disk error takes the directory offline."""
    disk, base_offset = log.directory.disk, old[0].base_offset
    segment = Segment(
        log.path,
        base_offset,
        log.directory.stores,
        created_ms=old[0].created_ms,
        size=replacement.size,
    )
    segment.is_active = False
    segment.max_timestamp = replacement.max_timestamp
    segment.max_timestamp_offset = replacement.max_timestamp_offset
    segment.set_end(replacement.next_offset)
    try:
        _rename_cleaned(disk, log.path, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        renamed = [
            path
            for old_segment in old
            for path in rename_to_deleted(
                disk, old_segment, keeps_snapshot=old_segment.base_offset == base_offset
            )
        ]
        _rename_cleaned(disk, log.path, base_offset, SWAP_SUFFIX, "")
    except OSError as error:
        raise log.directory.fail(error) from error
    aborted = [AbortedTransaction(*entry) for entry in replacement.aborted]
    log.replace_segments(old, Compacted(segment, replacement.end_offset, aborted, renamed))
    return segment


def _rename_cleaned(
    disk: Disk, directory: str, base_offset: Offset, before: str, after: str
) -> None:
    for suffix in COMPACTED_FILES:
        path = offset_file(directory, base_offset, suffix)
        disk.rename(path + before, path + after)
