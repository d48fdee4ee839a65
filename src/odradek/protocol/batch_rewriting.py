"""Batches of which compaction keeps a part: the same offsets, fewer records.

A batch keeps its base offset, the span of its offsets, its producer and its sequences, whatever
is left inside: so offsets and order stay as they were, and nobody forgets where a producer was.
"""

from collections.abc import Sequence

from odradek.protocol.compression import compress
from odradek.protocol.record_scan import shift_timestamps, timestamp_delta_at
from odradek.protocol.records import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    BatchHeader,
    assemble,
)


def with_records(
    header: BatchHeader, records: Sequence[bytes], delete_horizon_ms: int | None = None
) -> bytes:
    """The batch with these of its records alone, as bytes with their lengths in front.

    With a delete horizon, when tombstones and markers may go, the base timestamp says it, and the
    records count their time from there.
    """
    base_ms, attributes = header.base_timestamp, header.attributes
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = base_ms + max(timestamp_delta_at(record, 0) for record in records)
    if delete_horizon_ms is not None:
        records = shift_timestamps(records, delete_horizon_ms - base_ms)
        base_ms, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_FLAG
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=max_timestamp,
        record_count=len(records),
    )
    return assemble(rebuilt, compress(header.codec, b"".join(records)))


def without_records(header: BatchHeader) -> bytes:
    """The batch with nothing in it: kept for its offsets, its producer and its sequences."""
    emptied = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return assemble(emptied, b"")
