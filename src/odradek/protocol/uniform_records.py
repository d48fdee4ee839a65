"""Reads batches whose records look alike, with one call for the small fields of each record.

Most batches are like that: no headers, keys of one length or none, and neighbours whose lengths and
times take the same number of bytes. Then every small field of a record has a fixed place before the
value, and a `Struct` reads all of them at once. A `_Layout` is such a form; a run is a sequence of
records of one layout. If they have one size too, whole columns of bytes are
compared at once. Decision 25 has the measurements.

This is a short cut for the walk of the consumer (`record_walkers`), not another decoder: what it
reads is what the walk reads, and whatever it cannot read, damage above all, it leaves to the walk.
"""

import struct
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

from odradek.protocol.varint import encode_varint

# In batches of fewer records, or of runs that are shorter, the walk is as fast.
_MIN_RECORDS: Final = 32
_MIN_RUN: Final = 32
# How many records of a batch have offset deltas of at most two bytes.
_MAX_RECORDS: Final = 1 << 13
_ONE_BYTE_OFFSETS: Final = 1 << 6
_MAX_PLANNED_LENGTHS: Final = 1 << 10
_NULL_LENGTH: Final = 1
_FORMATS: Final = {1: "B", 2: "H"}


class Columns:
    """The fields of the first records of a batch, which have consecutive offsets and no headers.

    The times are those of the records, not the broker's. `end` is where the last one ends.
    """

    __slots__ = ("end", "keys", "timestamps_ms", "values")

    def __init__(self) -> None:
        self.timestamps_ms: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes] = []
        self.end = 0


def read_uniform(data: bytes, count: int, base_timestamp_ms: int) -> Columns:
    """Returns the fields of the first records, up to where they look alike no more: of all `count`
    records, of some or of none.

    The caller walks over the other records, and sees to it that nothing follows the last one.
    """
    columns = Columns()
    if count < _MIN_RECORDS:
        return columns
    index, begun = 0, -_MIN_RUN
    while index < count and index - begun >= _MIN_RUN:
        begun = index
        try:
            layout = _layout_at(data, columns.end)
        except (_OtherLayout, IndexError):
            break
        layout.read_run(data, count, base_timestamp_ms, columns)
        index = len(columns.values)
        assert len(columns.keys) == len(columns.timestamps_ms) == index
    return columns


class _OtherLayout(Exception):
    """A record has a form that layouts do not cover."""


class _Layout(dict[int, tuple[int, int]]):
    """A form of records. As a dict it maps a record's length to what follows from it: the size of
    the whole record, and the length of its value. Both lengths are the bytes of a varint, as a
    number that `Struct` reads."""

    def __init__(
        self,
        length_width: int,
        time_width: int,
        offset_width: int,
        key_length: int,
        value_width: int,
    ) -> None:
        super().__init__()
        self._length_width = length_width
        self._time_width = time_width
        self._offset_width = offset_width
        self._key_length = key_length
        self._value_width = value_width
        self._key_bytes = 0 if key_length == _NULL_LENGTH else key_length >> 1
        # Where the fields of a record are, from its beginning; the attributes follow its length.
        self._time_at = length_width + 1
        self._offset_at = self._time_at + time_width
        self._key_at = self._offset_at + offset_width + 1
        self._value_at = self._key_at + self._key_bytes + value_width
        # The bytes of all lengths, which are the same in records of one size.
        self._lengths_at = (
            *range(length_width),
            self._key_at - 1,
            *range(self._value_at - value_width, self._value_at),
        )
        widths = length_width, time_width, offset_width, value_width
        length, time, offset, value = (_FORMATS[width] for width in widths)
        self._unpack = struct.Struct(
            f"<{length}x{time}{offset}B{self._key_bytes}s{value}"
        ).unpack_from

    def __missing__(self, raw_length: int) -> tuple[int, int]:
        length = _decode(raw_length, self._length_width)
        body_bytes = length >> 1
        # One byte after the value says that there are no headers.
        value_bytes = self._length_width + body_bytes - self._value_at - 1
        value_length = encode_varint(value_bytes)
        fits = len(value_length) == self._value_width and value_bytes >= 0
        if length & 1 or not fits:
            raise _OtherLayout
        if len(self) >= _MAX_PLANNED_LENGTHS:
            self.clear()
        planned = self._length_width + body_bytes, int.from_bytes(value_length, "little")
        self[raw_length] = planned
        return planned

    def read_run(self, data: bytes, count: int, base_timestamp_ms: int, columns: Columns) -> None:
        """Adds the next records: those of one size if many follow, else up to the first one that
        has another layout or is damaged."""
        begin = columns.end
        with suppress(_OtherLayout, IndexError, struct.error):
            self._read_equal(data, count, base_timestamp_ms, columns)
        if columns.end == begin:
            self._read_each(data, count, base_timestamp_ms, columns)

    def _read_equal(
        self, data: bytes, count: int, base_timestamp_ms: int, columns: Columns
    ) -> None:
        """Adds the next records if they have one size: as many as look alike, or none of them.

        The bytes that are at one place in all of them are a column. To compare columns takes less
        time than to look at each record.
        """
        first, index = columns.end, len(columns.values)
        raw_length, *_, raw_value_length = self._unpack(data, first)
        record_bytes, value_length = self[raw_length]
        begins = data[first : first + (count - index) * record_bytes : record_bytes]
        rows = min(
            len(begins) - len(begins.lstrip(begins[:1])),
            (len(data) - first) // record_bytes,
            (_ONE_BYTE_OFFSETS if self._offset_width == 1 else _MAX_RECORDS) - index,
        )
        if rows < _MIN_RUN or raw_value_length != value_length:
            return
        end = first + rows * record_bytes
        for place in self._lengths_at:
            if data[first + place : end : record_bytes].count(data[first + place]) != rows:
                return
        if any(data[first + record_bytes - 1 : end : record_bytes]):
            return
        for byte, expected in enumerate(offset_columns()[: self._offset_width]):
            found = data[first + self._offset_at + byte : end : record_bytes]
            if found != expected[index : index + rows]:
                return
        raw_times = bytearray(rows * self._time_width)
        for byte in range(self._time_width):
            column = data[first + self._time_at + byte : end : record_bytes]
            raw_times[byte :: self._time_width] = column
        times = struct.unpack(f"<{rows}{_FORMATS[self._time_width]}", raw_times)
        at_ms = {raw: self._timestamp_ms(raw, base_timestamp_ms) for raw in set(times)}
        columns.timestamps_ms += map(at_ms.__getitem__, times)
        begins_at = range(first, end, record_bytes)
        if self._key_length == _NULL_LENGTH:
            columns.keys += [None] * rows
        else:
            at, after = self._key_at, self._key_at + self._key_bytes
            columns.keys += [data[begin + at : begin + after] for begin in begins_at]
        at, after = self._value_at, record_bytes - 1
        columns.values += [data[begin + at : begin + after] for begin in begins_at]
        columns.end = end

    def _timestamp_ms(self, raw: int, base_timestamp_ms: int) -> int:
        delta = _decode(raw, self._time_width)
        return base_timestamp_ms + ((delta >> 1) ^ -(delta & 1))

    def _read_each(self, data: bytes, count: int, base_timestamp_ms: int, columns: Columns) -> None:
        """Adds the next records, up to the first one that has another layout or is damaged."""
        timestamps_ms, keys, values = columns.timestamps_ms, columns.keys, columns.values
        add_time, add_key, add_value = timestamps_ms.append, keys.append, values.append
        unpack, key_length, position = self._unpack, self._key_length, columns.end
        has_key = key_length != _NULL_LENGTH
        value_at = self._value_at
        raw_time, timestamp_ms = -1, 0
        with suppress(_OtherLayout, IndexError, struct.error):
            for offset in _raw_offsets()[len(values) : count]:
                length, time, found_offset, key_size, key, value_size = unpack(data, position)
                record_bytes, expected_size = self[length]
                end = position + record_bytes
                if (
                    found_offset != offset
                    or key_size != key_length
                    or value_size != expected_size
                    or data[end - 1]
                ):
                    break
                if time != raw_time:
                    raw_time, timestamp_ms = time, self._timestamp_ms(time, base_timestamp_ms)
                if has_key:
                    add_key(key)
                add_time(timestamp_ms)
                add_value(data[position + value_at : end - 1])
                position = end
        columns.end = position
        if not has_key:
            keys += [None] * (len(values) - len(keys))


@lru_cache(maxsize=16)
def _layout(
    length_width: int, time_width: int, offset_width: int, key_length: int, value_width: int
) -> _Layout:
    return _Layout(length_width, time_width, offset_width, key_length, value_width)


def _layout_at(data: bytes, position: int) -> _Layout:
    """Returns the layout of the record at `position`."""
    length_width = _width(data, position)
    time_at = position + length_width + 1
    time_width = _width(data, time_at)
    offset_width = _width(data, time_at + time_width)
    key_at = time_at + time_width + offset_width
    key_length = data[key_at]
    if key_length > 127 or (key_length & 1 and key_length != _NULL_LENGTH):
        raise _OtherLayout
    value_at = key_at + 1 + (0 if key_length == _NULL_LENGTH else key_length >> 1)
    return _layout(length_width, time_width, offset_width, key_length, _width(data, value_at))


def _width(data: bytes, position: int) -> int:
    """Returns how many bytes the varint at `position` takes."""
    if data[position] < 128:
        return 1
    if data[position + 1] < 128:
        return 2
    raise _OtherLayout


def _decode(raw: int, width: int) -> int:
    """Returns the integer, still zigzagged, of a varint that has this width."""
    low, high = raw & 255, raw >> 8
    if width == 1 and low < 128:
        return low
    if width == 2 and low > 127 and high < 128:
        return (low & 127) | (high << 7)
    raise _OtherLayout


@cache
def offset_columns() -> tuple[bytes, bytes]:
    """The first bytes of the varints of offset deltas, and their second bytes.

    The first 64 take one byte. From there on 64 neighbours have the same second byte.
    """
    blocks = _MAX_RECORDS // _ONE_BYTE_OFFSETS
    first = bytes(range(0, 128, 2)) + bytes(range(128, 256, 2)) * (blocks - 1)
    return first, b"".join(bytes([block]) * _ONE_BYTE_OFFSETS for block in range(blocks))


@cache
def _raw_offsets() -> tuple[int, ...]:
    """The varints of the first offset deltas, as numbers that `Struct` reads."""
    both = bytearray(2 * _MAX_RECORDS)
    both[::2], both[1::2] = offset_columns()
    return struct.unpack(f"<{_MAX_RECORDS}H", both)
