"""Rewrites batches for compaction: the same offsets with fewer records.

A batch keeps its base offset, its last offset, its producer and its sequence numbers, also if it
has no records left. So offsets and order do not change, and producer state can be rebuilt.
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
    """Returns the batch with only these records, which are bytes that begin with their length.

    A delete horizon, the time at which tombstones and markers may be removed, becomes the base
    timestamp, and the timestamps of the records are relative to it.
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
    """Returns the batch without records; it keeps offsets, producer and sequence numbers."""
    emptied = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return assemble(emptied, b"")
