"""The keys of a batch, and one record of it, without making the others.

For look-ups by key: an index is built from the keys alone, and an answer needs a single record.
The bytes are untrusted, as in `record_parser`: every fault is a `MalformedRecords`.
"""

from collections.abc import Iterator

from odradek.protocol.compression import (
    DEFAULT_MAX_BYTES,
    DecompressedTooLarge,
    MalformedCompression,
    decompress,
)
from odradek.protocol.record_parser import MalformedRecords, Record, parse_records
from odradek.protocol.records import HEADER_SIZE, BatchHeader, Buffer, TooLargeInside
from odradek.protocol.varint import read_zigzag

_OUTSIDE = "a record ends beyond its batch"


def open_payload(
    batch: Buffer, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """The records of a whole batch, decompressed."""
    stored = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if not header.record_count and not stored:
        return b""
    try:
        return decompress(header.codec, stored, max_bytes)
    except DecompressedTooLarge as error:
        raise TooLargeInside(str(error)) from error
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error


def parse_keys(payload: bytes, count: int) -> list[tuple[int, bytes]]:
    """Distance in offset and key of each record that has one."""
    return list(_keys(payload, count))


def newest_of_key(
    payload: bytes, header: BatchHeader, key: bytes, first_offset: int, end_offset: int
) -> Record | None:
    """The last record of a key with an offset in this range."""
    if payload.find(key) < 0:
        return None
    newest = -1
    for delta, found in _keys(payload, header.record_count):
        if found == key and first_offset <= header.base_offset + delta < end_offset:
            newest = header.base_offset + delta
    return None if newest < 0 else record_at(payload, header, newest)


def _keys(  # noqa: C901, PLR0912 - a call a field would halve its speed
    payload: bytes, count: int
) -> Iterator[tuple[int, bytes]]:
    position, size = 0, len(payload)
    try:
        for _ in range(count):
            length = payload[position]
            position += 1
            if length > 127:
                if (byte := payload[position]) < 128:
                    length += (byte << 7) - 128
                    position += 1
                else:
                    length, position = read_zigzag(payload, position - 1)
            end = position + (length >> 1)
            if length & 1 or end > size:
                raise MalformedRecords("a record's length is wrong")
            elapsed = payload[position + 1]
            position += 2
            if elapsed > 127:
                _, position = read_zigzag(payload, position - 1, 64)
            delta = payload[position]
            position += 1
            if delta > 127:
                if (byte := payload[position]) < 128:
                    delta += (byte << 7) - 128
                    position += 1
                else:
                    delta, position = read_zigzag(payload, position - 1)
            length = payload[position]
            position += 1
            if length != 1:
                if length > 127:
                    length, position = read_zigzag(payload, position - 1)
                start = position
                position += length >> 1
                if length & 1 or delta & 1 or position > end:
                    raise MalformedRecords("a record's key has a wrong length")
                yield delta >> 1, payload[start:position]
            position = end
    except IndexError:
        raise MalformedRecords(_OUTSIDE) from None
    except OverflowError as error:
        raise MalformedRecords(f"a record holds {error}") from None


def record_at(payload: bytes, header: BatchHeader, offset: int) -> Record | None:
    """The record with this offset; None if the batch has none, as compaction leaves it."""
    wanted = 2 * (offset - header.base_offset)
    position, size = 0, len(payload)
    try:
        for _ in range(header.record_count):
            first = position
            length = payload[position]
            position += 1
            if length > 127:
                length, position = read_zigzag(payload, position - 1)
            end = position + (length >> 1)
            if length & 1 or end > size:
                raise MalformedRecords("a record's length is wrong")
            elapsed = payload[position + 1]
            position += 2
            if elapsed > 127:
                _, position = read_zigzag(payload, position - 1, 64)
            delta = payload[position]
            if delta > 127:
                delta, _ = read_zigzag(payload, position)
            if delta >= wanted:
                return _only(payload[first:end], header) if delta == wanted else None
            position = end
    except IndexError:
        raise MalformedRecords(_OUTSIDE) from None
    except OverflowError as error:
        raise MalformedRecords(f"a record holds {error}") from None
    return None


def _only(record: bytes, header: BatchHeader) -> Record:
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    return parse_records(record, 1, header.base_offset, header.base_timestamp, append_time_ms)[0]
