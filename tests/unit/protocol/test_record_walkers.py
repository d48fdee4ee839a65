"""All walks over records agree with each other: about what is in a batch, and about faults."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol import record_keys, record_parser, record_sample, record_scan
from odradek.protocol.record_keys import parse_keys, record_at
from odradek.protocol.record_parser import (
    Record,
    check_record,
    parse_offset_delta,
    parse_records,
    parse_summaries,
    parse_timestamp_deltas,
)
from odradek.protocol.record_scan import record_bounds, scan_keys, scan_records
from odradek.protocol.record_walkers import MalformedRecords, Walk
from odradek.protocol.records import HEADER_SIZE, BatchBuilder, read_header
from odradek.protocol.types import Offset
from odradek.protocol.varint import encode_varint
from tests.unit.protocol.record_strategies import Content, record_contents

T = TypeVar("T")

batches = st.lists(record_contents(), min_size=1, max_size=12)


def payload_of(contents: list[Content]) -> bytes:
    builder = BatchBuilder()
    for key, value, headers, timestamp_ms in contents:
        builder.append(key, value, headers, timestamp_ms)
    return builder.build()[HEADER_SIZE:]


def found(walk: Callable[[], T]) -> T | None:
    """What a walk returns, or None if it refuses the bytes; no other exception may escape."""
    try:
        return walk()
    except MalformedRecords:
        return None


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """A payload with some bytes changed, and a number of records that may be wrong."""
    contents = draw(batches)
    data = bytearray(payload_of(contents))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(data) - 1))
        # Small numbers, the continuation bit and the sign bit are what lengths stumble over.
        data[position] = draw(
            st.sampled_from([0, 1, 2, 3, 127, 128, 129, 255]) | st.integers(0, 255)
        )
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data) - 1)) :]
    return bytes(data), max(0, len(contents) + draw(st.integers(-1, 1)))


def deltas(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def check_all_walks(data: bytes, count: int) -> None:
    """Compares every walk with those that read fewer fields."""
    records = found(lambda: parse_records(data, count, Offset(0), 0, None))
    summaries = found(lambda: parse_summaries(data, count))
    scanned = found(lambda: scan_records(data, count))
    keys = found(lambda: scan_keys(data, count))
    with_offsets = found(lambda: parse_keys(data, count))
    times = found(lambda: list(parse_timestamp_deltas(data, count)))
    bounds = found(lambda: record_bounds(data, count))
    consecutive = list(range(count))

    if summaries is not None and summaries[1] == len(data):
        assert records is not None
        assert summaries[0] == [(record.timestamp_ms, record.key is not None) for record in records]
        assert deltas(records) == consecutive
    if records is not None:
        assert (summaries is not None) == (deltas(records) == consecutive)
        assert scanned is not None
        assert [(one.offset_delta, one.timestamp_delta, one.key) for one in scanned] == [
            (record.offset, record.timestamp_ms, record.key) for record in records
        ]
        assert [one.is_tombstone for one in scanned] == [record.value is None for record in records]

    # These two read the same fields; one of them asks for consecutive offsets.
    assert (with_offsets is None) == (scanned is None)
    if scanned is not None:
        is_consecutive = [one.offset_delta for one in scanned] == consecutive
        assert (keys is not None) == is_consecutive
        assert with_offsets == [
            (one.offset_delta, one.key) for one in scanned if one.key is not None
        ]
        assert times is not None
        assert [(elapsed, parse_offset_delta(data, position)) for elapsed, position in times] == [
            (one.timestamp_delta, one.offset_delta) for one in scanned
        ]
        assert bounds == [0, *(one.end for one in scanned)]
        if is_consecutive:
            tombstones = [one.offset_delta for one in scanned if one.is_tombstone]
            assert keys == ([one.key for one in scanned], tombstones)
    else:
        assert keys is None
    if times is not None:
        assert bounds is not None


@given(batches)
def test_all_walks_find_the_same(contents: list[Content]) -> None:
    data = payload_of(contents)
    check_all_walks(data, len(contents))
    records = parse_records(data, len(contents), Offset(0), contents[0][3], None)
    assert [tuple(record[1:]) for record in records] == [
        (timestamp_ms, key, value, headers) for key, value, headers, timestamp_ms in contents
    ]


@given(damaged())
def test_all_walks_agree_about_damage(case: tuple[bytes, int]) -> None:
    check_all_walks(*case)


@given(batches, st.data())
def test_a_record_is_whole_exactly_if_it_can_be_parsed(
    contents: list[Content], data: st.DataObject
) -> None:
    payload = bytearray(payload_of(contents[:1]))
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] = data.draw(st.integers(0, 255))
    end = found(lambda: check_record(payload, 0, len(payload), 0))
    parsed = None
    if end is not None:
        parsed = found(lambda: parse_records(bytes(payload[:end]), 1, Offset(0), 0, None))
    assert (end is None) == (parsed is None)


@given(batches, st.integers(0, 11))
def test_a_record_is_found_by_its_offset(contents: list[Content], offset: Offset) -> None:
    builder = BatchBuilder()
    for key, value, headers, timestamp_ms in contents:
        builder.append(key, value, headers, timestamp_ms)
    batch = builder.build()
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    records = parse_records(payload, len(contents), Offset(0), header.base_timestamp, None)
    expected = records[offset] if offset < len(records) else None
    assert record_at(payload, header, offset) == expected


def record(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return encode_varint(len(body)) + body


NULL = encode_varint(-1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x01", "a record's length is wrong"),
        (record(b"\x00", encode_varint(1 << 62), b"\x00", NULL, NULL, b"\x00"), "timestamp"),
        (record(b"\x00\x00\x02", NULL, NULL, b"\x00"), "are not consecutive|do not rise"),
        (record(b"\x00\x00\x00", encode_varint(-2), NULL, b"\x00"), "key has a negative length"),
        (record(b"\x00\x00\x00", encode_varint(9), NULL, b"\x00"), "ends beyond|ends after"),
    ],
)
def test_walks_that_read_a_field_refuse_it_alike(data: bytes, reason: str) -> None:
    readers: list[Callable[[], object]] = [
        lambda: parse_summaries(data, 1),
        lambda: scan_keys(data, 1),
        lambda: check_record(data, 0, len(data), 0),
    ]
    for reader in readers:
        with pytest.raises(MalformedRecords, match=reason):
            reader()


@pytest.mark.parametrize(
    "module", [record_keys, record_parser, record_sample, record_scan], ids=lambda one: one.__name__
)
def test_every_walk_compiles(module: Any) -> None:
    walks = [value for value in vars(module).values() if isinstance(value, Walk)]
    assert walks
    for walk in walks:
        assert callable(walk.function), walk.name
