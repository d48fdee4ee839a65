"""The backlog of a reader: how many records it has not read, and how old the first of them is.

The age comes from memory and from the time index, never from a cold read of the log: a consumer
that is a week behind must not make the broker read a week-old file for every scrape. Among the
newest batches of a log, whose positions are in memory and which the page cache holds, the header of
the batch tells the time exactly. Before them the time index tells it to within
`index.interval.bytes`.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.storage import Log
from odradek.storage.segment import Segment

NO_TIMESTAMP = -1


class Backlog(NamedTuple):
    """`timestamp_ms` is that of the first record that is not read; -1 if all are."""

    high_watermark: Offset
    timestamp_ms: int


def backlog_of(partition: Partition, offset: Offset) -> Backlog:
    """Returns the backlog of a reader that has read everything below `offset`. Raises OSError or
    `StorageError` if the log cannot be used."""
    high_watermark = partition.high_watermark.value
    if offset >= high_watermark:
        return Backlog(high_watermark, NO_TIMESTAMP)
    return Backlog(high_watermark, _first_timestamp(partition.log, offset))


def _first_timestamp(log: Log, offset: Offset) -> int:
    offset = max(offset, log.log_start_offset)
    segments = log.segments
    number = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    segment = segments[max(number, 0)]
    if segment.is_active and offset >= segment.tail_offsets[0]:
        return _timestamp_in_tail(segment, offset)
    time_index = segment.time_index
    entry = bisect_left(time_index.offsets, offset - segment.base_offset)
    if entry < len(time_index):
        return time_index.timestamps[entry]
    return segment.load_max_timestamp()


def _timestamp_in_tail(segment: Segment, offset: Offset) -> int:
    for _, header in segment.headers(segment.locate(offset)):
        # The header has the times of the first record and of the newest one.
        return header.base_timestamp if offset <= header.base_offset else header.max_timestamp
    return NO_TIMESTAMP
