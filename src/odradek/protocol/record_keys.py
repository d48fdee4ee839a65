"""The keys of a batch, and one record of it, without making the others.

For look-ups by key: an index is built from the keys alone, and an answer needs a single record.
The bytes are untrusted, as in `record_parser`: every fault is a `MalformedRecords`.
"""

from odradek.protocol.compression import DEFAULT_MAX_BYTES, MalformedCompression, decompress
from odradek.protocol.record_parser import MalformedRecords, Record, parse_records
from odradek.protocol.records import HEADER_SIZE, BatchHeader, Buffer
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
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error


def parse_keys(payload: bytes, count: int) -> list[tuple[int, bytes]]:
    """Distance in offset and key of each record that has one."""
    try:
        return _parse_keys(payload, count)
    except IndexError:
        raise MalformedRecords(_OUTSIDE) from None
    except OverflowError as error:
        raise MalformedRecords(f"a record holds {error}") from None


def _parse_keys(payload: bytes, count: int) -> list[tuple[int, bytes]]:
    keys: list[tuple[int, bytes]] = []
    add = keys.append
    position, size = 0, len(payload)
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
            add((delta >> 1, payload[start:position]))
        position = end
    return keys


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
