"""Finding records by their time, over the segments of a log."""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.records import BatchHeader, find_max_timestamp, find_timestamp
from odradek.storage.segment import Segment


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int
) -> TimestampOffset | None:
    """The first record from the log start on that is not older than this."""
    for segment in segments:
        if segment.load_max_timestamp() < timestamp_ms:
            continue
        start = max(segment.time_index.floor(timestamp_ms), log_start_offset)
        for position, header in segment.headers(segment.index.floor(start)):
            if header.max_timestamp < timestamp_ms or header.last_offset < log_start_offset:
                continue
            found = _find_in_batch(segment, position, header, timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def find_youngest(segments: Sequence[Segment]) -> TimestampOffset | None:
    """The first of the records with the highest timestamp."""
    best = max(segments, key=lambda segment: segment.load_max_timestamp())
    youngest = best.max_timestamp
    if youngest < 0:
        return None
    for position, header in best.headers(best.index.floor(best.max_timestamp_offset)):
        if header.max_timestamp == youngest:
            found = find_max_timestamp(best.read_batch(position, header))
            if found is not None:
                return TimestampOffset(found[0], found[1], header.leader_epoch)
    return None


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, log_start_offset: int
) -> TimestampOffset | None:
    batch = segment.read_batch(position, header)
    found = find_timestamp(batch, timestamp_ms, min_offset=log_start_offset)
    return None if found is None else TimestampOffset(*found, header.leader_epoch)
