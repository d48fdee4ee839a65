"""Scanning finds in a batch what decoding finds, and survives anything."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.batch_rewriting import with_records, without_records
from odradek.protocol.record_scan import record_bounds, scan_keys, scan_records
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchBuilder,
    MalformedRecords,
    crc_is_valid,
    decode_records,
    read_header,
)

texts = st.one_of(st.none(), st.binary(max_size=40), st.just(b"x" * 9000))
times = st.integers(0, 1 << 45)
rows = st.lists(st.tuples(texts, texts, times), min_size=1, max_size=80)


def build(found: list[tuple[bytes | None, bytes | None, int]]) -> bytes:
    builder = BatchBuilder()
    for key, value, timestamp_ms in found:
        builder.append(key, value, [("h", value)], timestamp_ms)
    return builder.build(100, 7, 1, 3)


@given(rows)
def test_keys_tombstones_and_bounds_are_those_of_the_records(
    found: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = build(found)
    header, data = read_header(batch), batch[HEADER_SIZE:]
    keys, tombstones = scan_keys(data, len(found))
    assert keys == [key for key, _, _ in found]
    assert tombstones == [number for number, row in enumerate(found) if row[1] is None]
    scanned = scan_records(data, len(found))
    assert [(one.key, one.is_tombstone) for one in scanned] == [
        (key, value is None) for key, value, _ in found
    ]
    assert [header.base_timestamp + one.timestamp_delta for one in scanned] == [
        timestamp_ms for _, _, timestamp_ms in found
    ]
    bounds = record_bounds(data, len(found))
    assert bounds == [0, *(one.end for one in scanned)]


@given(rows, st.data(), st.one_of(st.none(), times))
def test_a_batch_of_some_records_decodes_to_those(
    found: list[tuple[bytes | None, bytes | None, int]],
    data: st.DataObject,
    horizon_ms: int | None,
) -> None:
    batch = build(found)
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    kept = sorted(data.draw(st.sets(st.integers(0, len(found) - 1), min_size=1)))
    bounds = record_bounds(payload, len(found))
    rebuilt = with_records(
        header, [payload[bounds[one] : bounds[one + 1]] for one in kept], horizon_ms
    )
    changed = read_header(rebuilt)
    assert crc_is_valid(rebuilt, 0, changed)
    before = decode_records(batch)
    assert decode_records(rebuilt) == [before[one] for one in kept]
    assert changed.delete_horizon_ms == horizon_ms
    assert changed.max_timestamp == max(before[one].timestamp_ms for one in kept)
    assert (changed.last_offset, changed.last_sequence) == (
        header.last_offset,
        header.last_sequence,
    )
    emptied = read_header(without_records(changed))
    assert (emptied.record_count, emptied.last_sequence) == (0, header.last_sequence)
    assert emptied.delete_horizon_ms is None


@given(rows, st.data())
def test_damaged_batches_are_malformed_and_nothing_worse(
    found: list[tuple[bytes | None, bytes | None, int]], data: st.DataObject
) -> None:
    payload = bytearray(build(found)[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 5))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    for scan in (scan_keys, scan_records, record_bounds):
        with suppress(MalformedRecords):
            scan(damaged, len(found))
