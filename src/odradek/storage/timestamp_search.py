"""Finds records by their timestamp in the segments of a log, for ListOffsets."""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.records import BatchHeader, find_max_timestamp, find_timestamp
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.segment import Segment


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


def find_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: Offset
) -> TimestampOffset | None:
    """The first record from the log start on with this timestamp or a higher one."""
    for segment in segments:
        if segment.load_max_timestamp() < timestamp_ms:
            continue
        start = max(segment.time_index.floor(timestamp_ms), log_start_offset)
        for position, header in segment.headers(segment.index.floor(start)):
            if header.max_timestamp < timestamp_ms or header.last_offset < log_start_offset:
                continue
            result = _find_in_batch(segment, position, header, timestamp_ms, log_start_offset)
            if result is not None:
                return result
    return None


def find_max_timestamp_record(segments: Sequence[Segment]) -> TimestampOffset | None:
    """The record with the highest timestamp, the first if there are several."""
    best = max(segments, key=lambda segment: segment.load_max_timestamp())
    highest = best.max_timestamp
    if highest < 0:
        return None
    for position, header in best.headers(best.index.floor(best.max_timestamp_offset)):
        if header.max_timestamp == highest:
            result = find_max_timestamp(best.read_batch(position, header))
            if result is not None:
                return TimestampOffset(result[0], result[1], header.leader_epoch)
    return None


def _find_in_batch(
    segment: Segment,
    position: int,
    header: BatchHeader,
    timestamp_ms: int,
    log_start_offset: Offset,
) -> TimestampOffset | None:
    batch = segment.read_batch(position, header)
    result = find_timestamp(batch, timestamp_ms, min_offset=log_start_offset)
    return None if result is None else TimestampOffset(*result, header.leader_epoch)
