"""Scans the records of a batch for compaction, without decoding values and headers.

Compaction needs the keys, which records are tombstones, and where each record begins and ends,
because it copies the records that it retains as bytes. `record_walkers` generates the loops and
says what they check.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from odradek.protocol.record_walkers import MalformedRecords, Offsets, Walk
from odradek.protocol.varint import encode_varint


class ScannedRecord(NamedTuple):
    """The position of a record in the payload of its batch, with its length field, and its key."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    is_tombstone: bool


_KEYS: Final = Walk(
    "keys",
    through="key",
    keeps=frozenset({"key"}),
    offsets=Offsets.CONSECUTIVE,
    before=("keys = []", "tombstones = []", "add = keys.append"),
    # The length of the value follows the key; -1 is null.
    each=("add(key)", "if data[position] == 1: tombstones.append(expected >> 1)"),
    result="keys, tombstones",
)
_SCANNED: Final = Walk(
    "scanned records",
    through="key",
    keeps=frozenset({"key"}),
    offsets=Offsets.RISING,
    before=("records = []", "add = records.append"),
    each=(
        "timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)",
        "is_tombstone = data[position] == 1",
        (
            "add(new(ScannedRecord, "
            "(start, end, offset_delta >> 1, timestamp_delta, key, is_tombstone)))"
        ),
    ),
    result="records",
    names=(("new", tuple.__new__), ("ScannedRecord", ScannedRecord)),
)
_BOUNDS: Final = Walk(
    "bounds",
    through="length",
    before=("bounds = [0]", "add = bounds.append"),
    each=("add(position)",),
    result="bounds",
    ends_with_batch=False,
)
_TIMESTAMP: Final = Walk(
    "timestamp of a record",
    through="timestamp_delta",
    parameters=("data", "position"),
    result="end - (length >> 1), (timestamp_delta >> 1) ^ -(timestamp_delta & 1), position",
    ends_with_batch=False,
    single_record=True,
)


def scan_keys(data: bytes, count: int) -> tuple[list[bytes | None], list[int]]:
    """Returns the keys of a batch without gaps in its offsets, and the indexes of the
    tombstones."""
    return cast("tuple[list[bytes | None], list[int]]", _KEYS.function(data, count))


def scan_records(data: bytes, count: int) -> list[ScannedRecord]:
    """Returns every record of a batch, whose offsets may have gaps."""
    return cast("list[ScannedRecord]", _SCANNED.function(data, count))


def record_bounds(data: bytes, count: int) -> list[int]:
    """Returns where each of the first `count` records begins, and where the last of them ends."""
    bounds = cast("list[int]", _BOUNDS.function(data, count))
    if bounds[-1] > len(data):
        raise MalformedRecords("a record ends beyond its batch")
    return bounds


def timestamp_delta_at(data: bytes, start: int) -> int:
    """Returns the timestamp delta of the record that begins at `start`."""
    return cast("tuple[int, int, int]", _TIMESTAMP.function(data, start))[1]


def shift_timestamps(records: Sequence[bytes], by_ms: int) -> list[bytes]:
    """Returns the same records for a batch whose base timestamp is later by `by_ms`."""
    shifted = []
    for record in records:
        attributes, delta_ms, end_of_delta = cast(
            "tuple[int, int, int]", _TIMESTAMP.function(record, 0)
        )
        body = b"".join(
            (
                record[attributes : attributes + 1],
                encode_varint(delta_ms - by_ms),
                record[end_of_delta:],
            )
        )
        shifted.append(encode_varint(len(body)) + body)
    return shifted
