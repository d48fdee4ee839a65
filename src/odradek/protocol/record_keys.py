"""The keys of a batch, or one record of it, without making the other records.

Used for look-ups by key: an index is built from the keys alone, and an answer needs a single
record. `record_walkers` writes the loops and says what they check.
"""

from typing import Final, cast

from odradek.protocol.compression import DEFAULT_MAX_BYTES
from odradek.protocol.record_parser import Record, parse_records
from odradek.protocol.record_walkers import Offsets, Walk
from odradek.protocol.records import HEADER_SIZE, BatchHeader, Buffer, decompressed_records
from odradek.protocol.types import NO_OFFSET, Offset

_KEYS: Final = Walk(
    "keys with offsets",
    through="key",
    keeps=frozenset({"key"}),
    offsets=Offsets.RISING,
    before=("keys = []", "add = keys.append"),
    each=("if key is not None: add((offset_delta >> 1, key))",),
    result="keys",
)
_RECORD_AT: Final = Walk(
    "record at an offset",
    through="offset_delta",
    offsets=Offsets.RISING,
    parameters=("data", "count", "target"),
    each=("if offset_delta >= target: return (start, end) if offset_delta == target else None",),
)


def decompress_payload(
    batch: Buffer, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """Returns the records of a whole batch, decompressed."""
    stored = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return decompressed_records(header, stored, max_bytes)


def parse_keys(payload: bytes, count: int) -> list[tuple[int, bytes]]:
    """Returns the offset delta and the key of each record that has a key."""
    return cast("list[tuple[int, bytes]]", _KEYS.function(payload, count))


def newest_of_key(
    payload: bytes, header: BatchHeader, key: bytes, first_offset: Offset, end_offset: Offset
) -> Record | None:
    """Returns the last record of a key with an offset in this range."""
    if payload.find(key) < 0:
        return None
    newest = NO_OFFSET
    for offset_delta, record_key in parse_keys(payload, header.record_count):
        if record_key == key and first_offset <= header.base_offset + offset_delta < end_offset:
            newest = header.base_offset + offset_delta
    return None if newest < 0 else record_at(payload, header, newest)


def record_at(payload: bytes, header: BatchHeader, offset: Offset) -> Record | None:
    """Returns the record with this offset; None if compaction has removed it from the batch."""
    bounds = cast(
        "tuple[int, int] | None",
        _RECORD_AT.function(payload, header.record_count, 2 * (offset - header.base_offset)),
    )
    return None if bounds is None else _only(payload[slice(*bounds)], header)


def _only(record: bytes, header: BatchHeader) -> Record:
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    return parse_records(record, 1, header.base_offset, header.base_timestamp, append_time_ms)[0]
