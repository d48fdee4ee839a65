"""Parses the decompressed records of a batch: whole records, timestamps, or only their validity.

`records` calls this module for the records of a batch. `record_walkers` generates the loops and
says what they check. Every fault is a `MalformedRecords`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, cast

from odradek.protocol.record_walkers import (
    MAX_TIMESTAMP,
    MIN_RECORD_BYTES,
    MalformedRecords,
    Offsets,
    Walk,
)
from odradek.protocol.types import Offset
from odradek.protocol.varint import read_zigzag

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_RECORD_BYTES",
    "TIMESTAMP_DELTA",
    "MalformedRecords",
    "Record",
    "RecordSummary",
    "check_record",
    "parse_offset_delta",
    "parse_records",
    "parse_summaries",
    "parse_timestamp_deltas",
]

# The decoded zigzag value of the field, for the statements of a walk.
TIMESTAMP_DELTA: Final = "(timestamp_delta >> 1) ^ -(timestamp_delta & 1)"


class Record(NamedTuple):
    """One record. A tuple, because tuples are the cheapest objects to create in Python."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


# The timestamp delta of a record, and whether the record has a key.
RecordSummary: TypeAlias = tuple[int, bool]


# Makes records without calling their constructor, for speed. Consumers have a walk of their own, in
# `client/consumer/fetched_batches.py`.
_RECORDS: Final = Walk(
    "records",
    through="headers",
    keeps=frozenset({"key", "value", "headers"}),
    offsets=Offsets.RISING,
    parameters=("data", "count", "base_offset", "base_timestamp_ms", "append_time_ms"),
    before=("records = []", "add = records.append"),
    each=(
        "if append_time_ms is None:",
        f"    timestamp_ms = base_timestamp_ms + ({TIMESTAMP_DELTA})",
        "else:",
        "    timestamp_ms = append_time_ms",
        "add(new(Record, (base_offset + (offset_delta >> 1), timestamp_ms, key, value, headers)))",
    ),
    result="records",
    names=(("new", tuple.__new__), ("Record", Record)),
)
_TIMESTAMP_DELTAS: Final = Walk(
    "timestamp deltas", through="timestamp_delta", each=(f"yield {TIMESTAMP_DELTA}, position",)
)
_SUMMARIES: Final = Walk(
    "summaries",
    through="headers",
    offsets=Offsets.CONSECUTIVE,
    parameters=("data", "count", "first", "position"),
    before=("summaries = []", "add = summaries.append"),
    each=(f"add(({TIMESTAMP_DELTA}, not key_length & 1))",),
    result="summaries, position",
    ends_with_batch=False,
)
_WHOLE_RECORD: Final = Walk(
    "whole record",
    through="headers",
    offsets=Offsets.CONSECUTIVE,
    parameters=("data", "position", "size", "expected"),
    result="position",
    ends_with_batch=False,
    single_record=True,
)


def parse_records(
    data: bytes,
    count: int,
    base_offset: Offset,
    base_timestamp_ms: int,
    append_time_ms: int | None,
) -> list[Record]:
    """Returns exactly `count` records; `append_time_ms` replaces their own time if it is given."""
    if count * MIN_RECORD_BYTES > len(data):
        raise MalformedRecords(f"{len(data)} bytes cannot hold {count} records")
    return cast(
        "list[Record]",
        _RECORDS.function(data, count, base_offset, base_timestamp_ms, append_time_ms),
    )


def parse_timestamp_deltas(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yields the timestamp delta of each record, and the position of its offset delta.

    The rest of each record is skipped, so this takes a third of the time of `parse_records`.
    """
    return cast("Iterator[tuple[int, int]]", _TIMESTAMP_DELTAS.function(data, count))


def parse_offset_delta(data: bytes, position: int) -> int:
    """Returns the offset delta at a position that `parse_timestamp_deltas` yielded."""
    try:
        offset_delta, _ = read_zigzag(data, position)
    except (IndexError, OverflowError):
        raise MalformedRecords("a record's offset is out of range") from None
    if offset_delta & 1:
        raise MalformedRecords("the offset of a record is less than the base offset of its batch")
    return offset_delta >> 1


def parse_summaries(
    data: bytes, count: int, first: int = 0, position: int = 0
) -> tuple[list[RecordSummary], int]:
    """Returns a summary of each record, and the position after the last of them.

    Record `first` begins at `position`, so a caller can parse some records at a time. All fields
    are checked, and the offsets must be consecutive, as in a batch of a producer.
    """
    return cast(
        "tuple[list[RecordSummary], int]", _SUMMARIES.function(data, count, first, position)
    )


def check_record(
    data: bytes | bytearray | memoryview, position: int, size: int, offset_delta: int
) -> int:
    """Checks that the record at `position` is valid and has this offset delta; returns its end."""
    return cast("int", _WHOLE_RECORD.function(data, position, size, offset_delta << 1))
