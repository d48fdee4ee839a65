"""The records of a batch, decompressed: all of them, their times, or only whether they are whole.

`records` owns the batch around them, and `record_walkers` writes the loops and says what they
check. Every fault is a `MalformedRecords`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from odradek.protocol.record_walkers import (
    MAX_TIMESTAMP,
    MIN_RECORD_BYTES,
    MalformedRecords,
    Offsets,
    Walk,
)
from odradek.protocol.varint import read_zigzag

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_RECORD_BYTES",
    "MalformedRecords",
    "Record",
    "check_record",
    "parse_offset",
    "parse_outlines",
    "parse_records",
    "parse_times",
]

_TIME: Final = "(elapsed >> 1) ^ -(elapsed & 1)"


class Record(NamedTuple):
    """One record. A tuple, because a tuple is the cheapest object Python can make."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


# This walk is the consumer's speed: a record is made without going through its constructor.
_RECORDS: Final = Walk(
    "records",
    through="headers",
    keeps=frozenset({"key", "value", "headers"}),
    offsets=Offsets.RISING,
    parameters=("data", "count", "base_offset", "base_timestamp_ms", "append_time_ms"),
    before=("records = []", "add = records.append"),
    each=(
        "if append_time_ms is None:",
        f"    timestamp_ms = base_timestamp_ms + ({_TIME})",
        "else:",
        "    timestamp_ms = append_time_ms",
        "add(new(Record, (base_offset + (delta >> 1), timestamp_ms, key, value, headers)))",
    ),
    result="records",
    names=(("new", tuple.__new__), ("Record", Record)),
)
_TIMES: Final = Walk("times", through="elapsed", each=(f"yield {_TIME}, position",))
_OUTLINES: Final = Walk(
    "outlines",
    through="headers",
    offsets=Offsets.CONSECUTIVE,
    parameters=("data", "count", "first", "position"),
    before=("outlines = []", "add = outlines.append"),
    each=(f"add(({_TIME}, not key_length & 1))",),
    result="outlines, position",
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
    base_offset: int,
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


def parse_times(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yields each record's timestamp delta, and the position at which its offset delta lies.

    It passes over the rest of a record, so it takes a third of the time that `parse_records` takes.
    """
    return cast("Iterator[tuple[int, int]]", _TIMES.function(data, count))


def parse_offset(data: bytes, position: int) -> int:
    """Returns the offset delta that `parse_times` has passed over."""
    try:
        offset_delta, _ = read_zigzag(data, position)
    except (IndexError, OverflowError):
        raise MalformedRecords("a record's offset is out of range") from None
    if offset_delta & 1:
        raise MalformedRecords("a record's offset lies before its batch")
    return offset_delta >> 1


def parse_outlines(
    data: bytes, count: int, first: int = 0, position: int = 0
) -> tuple[list[tuple[int, bool]], int]:
    """Returns each record's timestamp delta and whether it has a key, and the position behind them.

    Record `first` lies at `position`, so a caller can take some records at a time. All fields are
    checked, and the offsets must be consecutive, as in a batch that a producer makes.
    """
    return cast(
        "tuple[list[tuple[int, bool]], int]", _OUTLINES.function(data, count, first, position)
    )


def check_record(
    data: bytes | bytearray | memoryview, position: int, size: int, offset_delta: int
) -> int:
    """Returns where the record at `position` ends; it must be whole and have this offset delta."""
    return cast("int", _WHOLE_RECORD.function(data, position, size, offset_delta << 1))
