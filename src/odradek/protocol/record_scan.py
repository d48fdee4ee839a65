"""Looking at the records of a batch without making objects of them: for compaction.

Compaction asks for keys, for what is a tombstone, and where a record begins and ends: survivors
are copied as bytes. These loops are its speed, so each is written out for its one question.

Everything that is read is untrusted: faults are `MalformedRecords`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.record_parser import MalformedRecords
from odradek.protocol.varint import encode_varint, read_zigzag


class ScannedRecord(NamedTuple):
    """Where a record lies in its batch's payload, its length in front of it included."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    is_tombstone: bool


def scan_keys(  # noqa: C901, PLR0912 - a call a field would halve its speed
    data: bytes, count: int
) -> tuple[list[bytes | None], list[int]]:
    """The keys of a batch in which no offset is missing, and which records are tombstones."""
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    add = keys.append
    position, size = 0, len(data)
    try:
        for expected in range(0, 2 * count, 2):
            # Lengths and differences are varints, one or two bytes as a rule.
            length = data[position]
            position += 1
            if length > 127:
                length += (data[position] << 7) - 128
                position += 1
                if length > 16383:
                    length, position = read_zigzag(data, position - 2, 64)
            end = position + (length >> 1)
            position += 1  # Past the attributes.
            while data[position] > 127:
                position += 1
            delta = data[position + 1]
            position += 2
            if delta > 127:
                delta += (data[position] << 7) - 128
                position += 1
                if delta > 16383:
                    delta, position = read_zigzag(data, position - 2, 64)
            if delta != expected or length & 1 or end > size:
                raise MalformedRecords("a record's length or offset is wrong")
            length = data[position]
            position += 1
            if length > 127:
                length, position = read_zigzag(data, position - 1, 64)
            if length & 1:
                add(None)
            else:
                start = position
                position += length >> 1
                add(data[start:position])
            if data[position] == 1:
                tombstones.append(expected >> 1)
            if position >= end:
                raise MalformedRecords("a record's key ends behind the record")
            position = end
    except (IndexError, OverflowError):
        raise MalformedRecords("a record ends beyond its batch") from None
    if position != size:
        raise MalformedRecords("bytes are left behind the last record of a batch")
    return keys, tombstones


def record_bounds(data: bytes, count: int) -> list[int]:
    """Where each of the first `count` records begins, and where the last of them ends."""
    bounds = [0]
    add = bounds.append
    position, size = 0, len(data)
    try:
        for _ in range(count):
            length = data[position]
            if length < 128:
                position += 1 + (length >> 1)
            elif (byte := data[position + 1]) < 128:
                position += 2 + (((byte << 7) + length - 128) >> 1)
            else:
                length, position = read_zigzag(data, position, 64)
                position += length >> 1
            add(position)
    except (IndexError, OverflowError):
        raise MalformedRecords("a record ends beyond its batch") from None
    if position > size:
        raise MalformedRecords("a record ends beyond its batch")
    return bounds


def scan_records(data: bytes, count: int) -> list[ScannedRecord]:
    """Every record of a batch in which offsets may be missing."""
    records = []
    position, size, last_delta = 0, len(data), -1
    try:
        for _ in range(count):
            start = position
            length, position = read_zigzag(data, position, 64)
            end = position + (length >> 1)
            if length & 1 or end > size:
                raise MalformedRecords("a record's length is wrong")
            record = _scan_record(data, start, position, end)
            if record.offset_delta <= last_delta:
                raise MalformedRecords("the offsets of a batch do not rise")
            last_delta = record.offset_delta
            records.append(record)
            position = end
    except (IndexError, OverflowError):
        raise MalformedRecords("a record ends beyond its batch") from None
    if position != size:
        raise MalformedRecords("bytes are left behind the last record of a batch")
    return records


def _scan_record(data: bytes, start: int, position: int, end: int) -> ScannedRecord:
    """A record that begins at `start` and whose first field lies at `position`."""
    elapsed, position = read_zigzag(data, position + 1, 64)
    delta, position = read_zigzag(data, position, 64)
    length, position = read_zigzag(data, position, 64)
    key = None
    if not length & 1:
        key = data[position : position + (length >> 1)]
        position += length >> 1
    if position >= end or delta & 1:
        raise MalformedRecords("a record's key or offset is wrong")
    timestamp_delta = (elapsed >> 1) ^ -(elapsed & 1)
    return ScannedRecord(start, end, delta >> 1, timestamp_delta, key, data[position] == 1)


def timestamp_delta_at(data: bytes, start: int) -> int:
    """The distance in time of the record that begins at `start`."""
    try:
        _, position = read_zigzag(data, start, 64)
        elapsed, _ = read_zigzag(data, position + 1, 64)
    except (IndexError, OverflowError):
        raise MalformedRecords("a record ends beyond its batch") from None
    return (elapsed >> 1) ^ -(elapsed & 1)


def shift_timestamps(records: Sequence[bytes], by_ms: int) -> list[bytes]:
    """The same records for a batch whose base timestamp is later by so much."""
    shifted = []
    for record in records:
        _, position = read_zigzag(record, 0, 64)
        elapsed, behind = read_zigzag(record, position + 1, 64)
        body = b"".join(
            (
                record[position : position + 1],
                encode_varint(((elapsed >> 1) ^ -(elapsed & 1)) - by_ms),
                record[behind:],
            )
        )
        shifted.append(encode_varint(len(body)) + body)
    return shifted
