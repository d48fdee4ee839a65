"""The prefixes of keys and values: runs of records of one length, and all others."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol import record_prefixes
from odradek.protocol.record_parser import parse_records
from odradek.protocol.record_prefixes import Prefixes, Side, prefixes
from odradek.protocol.records import HEADER_SIZE, BatchBuilder, MalformedRecords
from odradek.protocol.types import Offset

SIDES: tuple[Side, ...] = ("key", "value")
Record = tuple[bytes | None, bytes | None, int]


def payload_of(records: list[Record], headers: list[tuple[str, bytes]] | None = None) -> bytes:
    builder, now_ms = BatchBuilder(), 1_700_000_000_000
    for key, value, after_ms in records:
        now_ms += after_ms
        builder.append(key, value, headers or [], now_ms)
    return builder.build()[HEADER_SIZE:]


def walked(side: Side, payload: bytes, count: int) -> Prefixes | None:
    """What the walk alone says; None if it refuses the bytes."""
    walk = {"key": record_prefixes._KEYS, "value": record_prefixes._VALUES}[side]
    try:
        result: Prefixes = walk.function(payload, count, 0, 0)
    except MalformedRecords:
        return None
    return result


def read(side: Side, payload: bytes, count: int, step: int) -> Prefixes | None:
    found: list[bytes | None] = []
    position = 0
    try:
        for first in range(0, count, step):
            more, position = prefixes(side, payload, min(step, count - first), first, position)
            found += more
    except MalformedRecords:
        return None
    return found, position


payloads = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.binary(max_size=200).map(lambda rest: b"\0\0\0\0\7" + rest),
)
# Runs of equal records, with others in between.
groups = st.lists(
    st.tuples(payloads, payloads, st.sampled_from([0, 1, 40, 9_000]), st.integers(1, 90)),
    min_size=1,
    max_size=6,
)


def expand(drawn: list[tuple[bytes | None, bytes | None, int, int]]) -> list[Record]:
    return [(key, value, ms) for key, value, ms, count in drawn for _ in range(count)]


@given(groups, st.sampled_from(SIDES), st.sampled_from([1, 50, 10_000]), st.booleans())
def test_they_are_the_beginnings_of_what_is_there(
    drawn: list[tuple[bytes | None, bytes | None, int, int]],
    side: Side,
    step: int,
    has_headers: bool,
) -> None:
    records = expand(drawn)
    payload = payload_of(records, [("h", b"1")] if has_headers else None)
    whole = [value if side == "value" else key for key, value, _ in records]
    expected = [None if data is None else data[:5] for data in whole]
    assert read(side, payload, len(records), step) == (expected, len(payload))


@given(groups, st.sampled_from(SIDES), st.data())
def test_damaged_bytes_are_read_as_the_walk_reads_them(
    drawn: list[tuple[bytes | None, bytes | None, int, int]], side: Side, data: st.DataObject
) -> None:
    records = expand(drawn)
    payload = bytearray(payload_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    count = len(records) + data.draw(st.integers(-1, 1))
    assert read(side, damaged, count, 10_000) == walked(side, damaged, count)


@pytest.mark.parametrize("side", SIDES)
def test_each_field_of_each_record_in_a_run_is_looked_at(side: Side) -> None:
    """A byte is changed anywhere in the middle of a run: the answer is that of the walk."""
    records: list[Record] = [(b"key12", b"value of a record", 1)] * 100
    payload = payload_of(records)
    draw = random.Random(1)
    begin = len(payload) // 2
    for at in range(begin, begin + 2 * len(payload) // 100):
        damaged = bytearray(payload)
        damaged[at] ^= 1 << draw.randrange(8)
        assert read(side, bytes(damaged), 100, 10_000) == walked(side, bytes(damaged), 100)


def test_a_run_is_read_as_a_whole() -> None:
    """Records of one length are not walked one by one."""
    records: list[Record] = [(None, b"\0\0\0\0\7" + b"x" * 95, 0)] * 5_000
    payload = payload_of(records)
    run = record_prefixes._quick("value", payload, 4_000, 64, payload_end(payload, 64))
    assert run is not None
    assert (run.records, run.prefix) == (4_000, b"\0\0\0\0\7")
    assert parse_records(payload, 5_000, Offset(0), 0, None)[-1].offset == 4_999


def test_neighbours_of_different_lengths_are_compared_at_once() -> None:
    """They are not walked either, and a byte changed anywhere is answered as by the walk."""
    draw = random.Random(1)
    records: list[Record] = [
        (None, b"\0\0\0\0\7" + b"x" * draw.randrange(60, 200), 0) for _ in range(1_000)
    ]
    payload = payload_of(records)
    run = record_prefixes._quick("value", payload, 900, 64, payload_end(payload, 64))
    assert run is not None
    assert (run.records, run.prefix) == (900, b"\0\0\0\0\7")
    begin = payload_end(payload, 500)
    for at in range(begin, payload_end(payload, 503)):
        for bit in range(8):
            damaged = bytearray(payload)
            damaged[at] ^= 1 << bit
            assert read("value", bytes(damaged), 1_000, 10_000) == walked(
                "value", bytes(damaged), 1_000
            )
    assert read("value", payload[:-1], 1_000, 10_000) is None


def payload_end(payload: bytes, count: int) -> int:
    return prefixes("value", payload, count, 0, 0)[1]
