"""The loops over records, compiled by numba.

Purpose: one pass from the bytes of a batch to the buffers of Arrow columns, and one back.
Place: called by `decoding` and `encoding` alone; nothing here knows Arrow or Kafka's requests.
Invariant: bytes that arrive are untrusted. Every length is compared with the bytes that are left
before it is used. A malformed batch is reported by a negative return value and never leads to an
access outside an array.

All numbers are int64, because numba makes a float of a signed and an unsigned one.
"""

# ruff: noqa: PLR0911, PLR0917 - a struct to pass would have to be filled a call

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int32]
Longs = NDArray[np.int64]
A = TypeVar("A", bound=NDArray[Any])

MALFORMED = -1
# The largest overhead of a record: five varints of 5 bytes, one of 10, and one byte.
RECORD_OVERHEAD = 36
HEADER_OVERHEAD = 10


# A type that numba compiles as a 64-bit integer and the type checker treats as an int.
long = cast("Callable[[object], int]", np.int64)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function at its first call, caches it on disk, and runs it without the interpreter
    lock."""
    return cast("Callable[P, R]", njit(cache=True, nogil=True)(function))


def read_only(array: A) -> A:
    """Returns the array made read-only. Arrays that a loop only reads are always passed like this:
    for numba, writable arrays are another type, and it compiles a function again for each
    combination of types, which takes seconds."""
    array.flags.writeable = False
    return array


class Column(NamedTuple):
    """A column of bytes in Arrow's layout: the end of each entry, the bytes, and which entries are
    not null.

    `ends` has one more entry than there are rows: `ends[0]` is where row 0 begins.
    """

    ends: Ends
    data: Bytes
    is_valid: Bytes


class HeaderColumns(NamedTuple):
    """A column of header lists: where each row's list ends, and the headers of all rows."""

    list_ends: Ends
    names: Column
    contents: Column


class Rows(NamedTuple):
    """The columns of a fetched chunk, to be filled from row 0 on."""

    offsets: Longs
    timestamps_us: Longs
    keys: Column
    values: Column
    headers: HeaderColumns


@compiled
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Returns the zigzag varint at a position and the position after it, or -1 if it is
    malformed."""
    result = 0
    shift = 0
    while position < end and shift < 64:
        byte = long(data[position])
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 128:
            return ((result >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(result & 1), position
        shift += 7
    return 0, MALFORMED


@compiled
def _copy(into: Bytes, at: int, data: Bytes, begin: int, length: int) -> None:
    """Copies bytes. The positions are unsigned: with signed ones numba checks for each byte whether
    the index counts from the end, and 100 bytes take 140 ns instead of 6."""
    target, source = np.uint64(at), np.uint64(begin)
    for index in range(np.uint64(length)):
        into[target + index] = data[source + index]


@compiled
def _take(data: Bytes, position: int, end: int, column: Column, row: int) -> int:
    """Copies a length-prefixed value into a row of a column. Returns the position after it, or
    -1."""
    length, position = read_varint(data, position, end)
    filled = long(column.ends[row])
    if position < 0 or length > end - position or length < -1:
        return MALFORMED
    if length < 0:
        column.is_valid[row] = 0
        length = 0
    else:
        column.is_valid[row] = 1
        _copy(column.data, filled, data, position, length)
    column.ends[row + 1] = filled + length
    return position + length


@compiled
def _take_headers(
    data: Bytes, position: int, end: int, headers: HeaderColumns, row: int, count: int
) -> int:
    begin = long(headers.list_ends[row])
    for index in range(begin, begin + count):
        # Kafka does not allow a null header name, but logs may contain one. It is read as null.
        position = _take(data, position, end, headers.names, index)
        if position < 0:
            return MALFORMED
        position = _take(data, position, end, headers.contents, index)
        if position < 0:
            return MALFORMED
    headers.list_ends[row + 1] = begin + count
    return position


@compiled
def decode_batch(
    data: Bytes,
    position: int,
    end: int,
    record_count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_time_ms: int,
    first_offset: int,
    end_offset: int,
    with_headers: bool,
    row: int,
    rows: Rows,
) -> int:
    """Fills rows with the records of one batch that lie in a range of offsets.

    Returns the row after the last, or -1 if the batch is malformed. `append_time_ms` is -1 if
    records carry their own times. The arrays must have room for all records and all bytes.
    """
    for _ in range(record_count):
        length, position = read_varint(data, position, end)
        if position < 0 or length < 0 or length > end - position:
            return MALFORMED
        stop = position + length
        elapsed_ms, position = read_varint(data, position + 1, stop)
        if position < 0:
            return MALFORMED
        delta, position = read_varint(data, position, stop)
        if position < 0 or delta < 0:
            return MALFORMED
        offset = base_offset + delta
        if offset < first_offset or offset >= end_offset:
            position = stop
            continue
        position = _take(data, position, stop, rows.keys, row)
        if position < 0:
            return MALFORMED
        position = _take(data, position, stop, rows.values, row)
        if position < 0:
            return MALFORMED
        if with_headers:
            count, position = read_varint(data, position, stop)
            # A header takes at least two bytes, so a larger count is malformed.
            if position < 0 or count < 0 or 2 * count > stop - position:
                return MALFORMED
            position = _take_headers(data, position, stop, rows.headers, row, count)
            if position != stop:
                return MALFORMED
        rows.offsets[row] = offset
        if append_time_ms >= 0:
            rows.timestamps_us[row] = append_time_ms * 1000
        else:
            rows.timestamps_us[row] = (base_timestamp_ms + elapsed_ms) * 1000
        row += 1
        position = stop
    return row if position == end else MALFORMED


# Encoding


@compiled
def write_varint(into: Bytes, position: int, value: int) -> int:
    """Writes a zigzag varint and returns the position after it."""
    rest = (value << 1) ^ (value >> 63)
    while rest < 0 or rest > 127:
        into[position] = (rest & 0x7F) | 0x80
        position += 1
        rest = (rest >> 7) & 0x1FFFFFFFFFFFFFF
    into[position] = rest
    return position + 1


@compiled
def varint_size(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while rest < 0 or rest > 127:
        size += 1
        rest = (rest >> 7) & 0x1FFFFFFFFFFFFFF
    return size


@compiled
def _length(column: Column, row: int) -> int:
    """Returns the length of an entry, or -1 for null."""
    if not column.is_valid[row]:
        return -1
    return long(column.ends[row + 1]) - long(column.ends[row])


@compiled
def _put(into: Bytes, position: int, column: Column, row: int) -> int:
    length = _length(column, row)
    position = write_varint(into, position, length)
    if length <= 0:
        return position
    _copy(into, position, column.data, long(column.ends[row]), length)
    return position + length


@compiled
def _entry_size(column: Column, row: int) -> int:
    length = _length(column, row)
    return varint_size(length) + max(length, 0)


@compiled
def _headers_size(headers: HeaderColumns, row: int) -> int:
    begin, end = long(headers.list_ends[row]), long(headers.list_ends[row + 1])
    size = varint_size(end - begin)
    for index in range(begin, end):
        size += _entry_size(headers.names, index) + _entry_size(headers.contents, index)
    return size


@compiled
def encode_records(
    rows: Longs,
    first: int,
    last: int,
    timestamps_ms: Longs,
    keys: Column,
    values: Column,
    headers: HeaderColumns,
    with_headers: bool,
    into: Bytes,
) -> tuple[int, int, int]:
    """Writes the records of `rows[first:last]` one after the other, as many as fit.

    Returns how far it came in `rows`, how many bytes it wrote, and the highest timestamp. Equal
    to `first` means that the first record alone does not fit.
    """
    position = 0
    base_ms = timestamps_ms[rows[first]]
    max_ms = base_ms
    for index in range(first, last):
        row = rows[index]
        elapsed_ms = timestamps_ms[row] - base_ms
        body = 1 + varint_size(elapsed_ms) + varint_size(index - first)
        body += _entry_size(keys, row) + _entry_size(values, row)
        body += _headers_size(headers, row) if with_headers else 1
        if position + body + varint_size(body) > len(into):
            return index, position, max_ms
        position = write_varint(into, position, body)
        into[position] = 0
        position = write_varint(into, position + 1, elapsed_ms)
        position = write_varint(into, position, index - first)
        position = _put(into, position, keys, row)
        position = _put(into, position, values, row)
        if with_headers:
            begin = long(headers.list_ends[row])
            end = long(headers.list_ends[row + 1])
            position = write_varint(into, position, end - begin)
            for header in range(begin, end):
                position = _put(into, position, headers.names, header)
                position = _put(into, position, headers.contents, header)
        else:
            into[position] = 0
            position += 1
        max_ms = max(max_ms, timestamps_ms[row])
    return last, position, max_ms


@compiled
def murmur2(data: Bytes, begin: int, end: int) -> int:
    """Kafka's hash of a key, as `client.producer.murmur2` has it."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    length = end - begin
    result = 0x9747B28C ^ length
    whole = begin + (length & ~3)
    for position in range(begin, whole, 4):
        word = (
            long(data[position])
            | long(data[position + 1]) << 8
            | long(data[position + 2]) << 16
            | long(data[position + 3]) << 24
        )
        mixed = word * multiplier & mask
        mixed = (mixed ^ mixed >> 24) * multiplier & mask
        result = (result * multiplier & mask) ^ mixed
    if whole < end:
        tail = long(0)
        for position in range(whole, end):
            tail |= long(data[position]) << (8 * (position - whole))
        result = (result ^ tail) * multiplier & mask
    result = (result ^ result >> 13) * multiplier & mask
    return result ^ result >> 15


@compiled
def choose_partitions(
    given: Longs, keys: Column, partition_count: int, without_key: int, into: Longs
) -> None:
    """Chooses the partition of each row: the given one unless it is -1, else by key, else
    `without_key`."""
    for row in range(len(into)):
        if given[row] >= 0:
            into[row] = given[row]
        elif keys.is_valid[row]:
            hashed = murmur2(keys.data, long(keys.ends[row]), long(keys.ends[row + 1]))
            into[row] = (hashed & 0x7FFFFFFF) % partition_count
        else:
            into[row] = without_key


@compiled
def group_rows(groups: Longs, group_count: int) -> tuple[Longs, Longs]:
    """Returns the rows sorted by group, in their original order within a group, and where each
    group begins."""
    begins = np.zeros(group_count + 1, np.int64)
    for row in range(len(groups)):
        begins[groups[row] + 1] += 1
    for group in range(group_count):
        begins[group + 1] += begins[group]
    filled = begins.copy()
    ordered = np.empty(len(groups), np.int64)
    for row in range(len(groups)):
        group = groups[row]
        ordered[filled[group]] = row
        filled[group] += 1
    return ordered, begins


@compiled
def _mix(column: Column, row: int, state: int) -> int:
    """Mixes an entry, its length and all of its bytes, into a number.

    Eight bytes at a time, at unsigned positions as in `_copy`.
    """
    prime = 0x100000001B3
    length = _length(column, row)
    state = (state ^ length) * prime
    if length <= 0:
        return state
    data = column.data
    begin = np.uint64(long(column.ends[row]))
    words = length >> 3
    for index in range(np.uint64(words)):
        at = begin + index * np.uint64(8)
        word = (
            long(data[at])
            | long(data[at + np.uint64(1)]) << 8
            | long(data[at + np.uint64(2)]) << 16
            | long(data[at + np.uint64(3)]) << 24
            | long(data[at + np.uint64(4)]) << 32
            | long(data[at + np.uint64(5)]) << 40
            | long(data[at + np.uint64(6)]) << 48
            | long(data[at + np.uint64(7)]) << 56
        )
        state = (state ^ word) * prime
        # Without this shift the high bits of a word would never influence the low bits of the
        # state.
        state ^= (state >> 32) & 0xFFFFFFFF
    for index in range(np.uint64(words << 3), np.uint64(length)):
        state = (state ^ long(data[begin + index])) * prime
    return state


@compiled
def fingerprint(
    keys: Column,
    values: Column,
    headers: HeaderColumns,
    with_headers: bool,
    topics: Column,
    partitions: Longs,
) -> int:
    """Returns a sum over the rows that does not depend on their order. It tells whether two sets of
    rows can be equal.

    Everything in a row counts except its timestamp, because rows without one get the time of
    writing.
    """
    total = long(0)
    for row in range(len(partitions)):
        mixed = _mix(values, row, _mix(keys, row, long(0x1B873593)))
        mixed = _mix(topics, row, mixed) ^ (partitions[row] + 1)
        if with_headers:
            for header in range(long(headers.list_ends[row]), long(headers.list_ends[row + 1])):
                mixed = _mix(headers.contents, header, _mix(headers.names, header, mixed))
        total += mixed ^ ((mixed >> 29) & 0x7FFFFFFFF)
    return total
