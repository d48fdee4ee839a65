"""The short way to read records that look alike reads what the walk reads, or leaves it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.record_parser import parse_records
from odradek.protocol.records import HEADER_SIZE, BatchBuilder
from odradek.protocol.types import Offset
from odradek.protocol.uniform_records import read_uniform

BASE_MS = 1_700_000_000_000
# Beside the limits of one and two bytes: of a value's length, and of a record's.
SIZES = [0, 1, 20, 53, 54, 55, 63, 64, 65, 100, 300, 8_000, 8_191, 8_192]


def payload(records: list[tuple[bytes | None, bytes | None, int]]) -> bytes:
    builder = BatchBuilder()
    for key, value, elapsed_ms in records:
        builder.append(key, value, (), BASE_MS + elapsed_ms)
    return builder.build()[HEADER_SIZE:]


def check(data: bytes, count: int) -> int:
    """Compares what was read with the walk; returns how many records that was."""
    columns = read_uniform(data, count, BASE_MS)
    read = len(columns.values)
    expected = parse_records(data[: columns.end], read, Offset(0), BASE_MS, None)
    assert [record.offset for record in expected] == list(range(read))
    assert columns.timestamps_ms == [record.timestamp_ms for record in expected]
    assert columns.keys == [record.key for record in expected]
    assert columns.values == [record.value for record in expected]
    assert not any(record.headers for record in expected)
    return read


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[bytes | None, bytes | None, int]]:
    """Runs of records that look alike, and now and then one that does not."""
    records: list[tuple[bytes | None, bytes | None, int]] = []
    for _ in range(draw(st.integers(1, 4))):
        key_bytes = draw(st.sampled_from([None, 0, 1, 8, 63, 64]))
        sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
        step_ms = draw(st.sampled_from([0, 0, 1, 50, -1]))
        first_ms = draw(st.sampled_from([0, 60, 63, 64, 8_191, 8_192]))
        for number in range(draw(st.integers(1, 70))):
            key = None if key_bytes is None else b"k" * key_bytes
            value = b"v" * sizes[number % len(sizes)]
            records.append((key, value, first_ms + step_ms * number))
        if draw(st.booleans()):
            records.append((b"other", None, 0))
    # The first record is the base of all times.
    return [(None, b"first", 0), *records]


@given(batches())
def test_it_reads_what_the_walk_reads(
    records: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    check(payload(records), len(records))


@given(batches(), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4))
def test_it_stops_before_damage(
    records: list[tuple[bytes | None, bytes | None, int]], damage: list[tuple[int, int]]
) -> None:
    data = bytearray(payload(records))
    for place, byte in damage:
        data[place % len(data)] = byte
    check(bytes(data), len(records))


@given(batches(), st.integers(0))
def test_it_stops_where_the_bytes_end(
    records: list[tuple[bytes | None, bytes | None, int]], cut: int
) -> None:
    data = payload(records)
    check(data[: cut % len(data)], len(records))


@pytest.mark.parametrize("key", [None, b"", b"key-1", b"k" * 63])
@pytest.mark.parametrize("size", [0, 20, 100, 8_000])
def test_all_records_that_look_alike_are_read(key: bytes | None, size: int) -> None:
    records = [(key, b"v" * size, number // 10) for number in range(200)]
    data = payload([(key, value, elapsed_ms) for key, value, elapsed_ms in records])
    assert check(data, 200) == 200
    assert read_uniform(data, 200, BASE_MS).end == len(data)


def test_values_of_many_sizes_are_read() -> None:
    records = [(b"key", b"v" * (100 + 7 * number % 3_000), 0) for number in range(3_000)]
    data = payload([(key, value, elapsed_ms) for key, value, elapsed_ms in records])
    assert check(data, 3_000) == 3_000


def test_headers_are_left_to_the_walk() -> None:
    builder = BatchBuilder()
    for number in range(100):
        builder.append(None, b"v" * 100, [("h", b"")] if number == 80 else (), BASE_MS)
    assert check(builder.build()[HEADER_SIZE:], 100) == 80


@pytest.mark.parametrize(("count", "read"), [(1, 0), (31, 0), (32, 32), (9_000, 8_192)])
def test_small_batches_and_large_offsets_are_left_to_the_walk(count: int, read: int) -> None:
    assert check(payload([(None, b"v", 0)] * count), count) == read
