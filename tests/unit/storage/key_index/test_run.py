"""The files of a key index: what goes in comes out, and damage is noticed."""

import json
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.record_keys import decompress_payload, parse_keys, record_at
from odradek.protocol.records import BatchBuilder, MalformedRecords, decode_records, read_header
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.key_index.run import (
    UNFINISHED_SUFFIX,
    DamagedRun,
    Run,
    RunHeader,
    merged,
    parse_run_name,
    run_name,
    write_run,
)
from odradek.storage.key_index.run_builder import MergeJob, carry_out, encode_job
from odradek.storage.key_index.search import BytesRead
from odradek.world import MemoryDisk, SystemClock

Entry = tuple[int, int]


def disk_with_run(
    entries: Sequence[Entry], first_offset: Offset = Offset(0), disk: MemoryDisk | None = None
) -> tuple[MemoryDisk, str]:
    """A run of hashes and offsets; whoever looks things up gives it its name."""
    disk = disk or MemoryDisk()
    disk.make_directories("/log")
    packed = array("Q", sorted(one << 32 | offset - first_offset for one, offset in entries))
    header = RunHeader(first_offset, Offset(first_offset + 10**6), LeaderEpoch(3), len(packed), 77)
    for _ in write_run(disk, "/log", header, [packed]):
        pass
    path = f"/log/{run_name(header.first_offset, header.next_offset)}"
    disk.rename(path + UNFINISHED_SUFFIX, path)
    return disk, path


def offsets_of(disk: MemoryDisk, path: str, key_hash: int, read: BytesRead) -> list[int]:
    file = disk.open(path, writable=False)
    return list(Run.open(disk, path).offsets(file, key_hash, read))


hashes = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
entries = st.lists(st.tuples(hashes, st.integers(500, 900_000)), unique=True, max_size=2000)


@given(entries)
@settings(max_examples=30, deadline=None)
def test_a_run_gives_the_offsets_of_a_hash_newest_first(written: list[Entry]) -> None:
    disk, path = disk_with_run(written, Offset(500))
    for key_hash in {0, 1, 2**32 - 1, *(one for one, _ in written[:20])}:
        expected = sorted((offset for one, offset in written if one == key_hash), reverse=True)
        assert offsets_of(disk, path, key_hash, BytesRead()) == expected


def test_a_hash_among_a_million_is_found_by_reading_one_block() -> None:
    disk, path = disk_with_run([(number * 4001, number) for number in range(200_000)])
    read = BytesRead()
    assert offsets_of(disk, path, 123_456 * 4001, read) == [123_456]
    assert read.total == 4096
    assert offsets_of(disk, path, 5, read) == []
    assert read.total == 2 * 4096


def test_the_newest_of_a_hash_that_fills_many_blocks_takes_one_read() -> None:
    disk, path = disk_with_run([(7, number) for number in range(10_000)] + [(8, 1), (6, 2)])
    file, read = disk.open(path), BytesRead()
    assert next(Run.open(disk, path).offsets(file, 7, read)) == 9_999
    assert read.total == 4096
    assert offsets_of(disk, path, 7, read) == list(range(9_999, -1, -1))
    assert offsets_of(disk, path, 6, read) == [2]


@given(st.lists(st.lists(st.integers(0, 2**64 - 1)), max_size=5), st.integers(1, 7))
def test_merging_sorts(runs: list[list[int]], lump: int) -> None:
    sources = []
    for run in runs:
        run.sort()
        lumps = [array("Q", run[start : start + lump]) for start in range(0, len(run), lump)]
        sources.append(iter(lumps))
    found = [entry for part in merged(sources) for entry in part]
    assert found == sorted(entry for run in runs for entry in run)


def test_merged_runs_answer_like_all_of_them() -> None:
    disk = MemoryDisk()
    paths = []
    for first in (0, 10**6, 2 * 10**6):
        written = [(number % 5000, first + number) for number in range(20_000)]
        paths.append(disk_with_run(written, Offset(first), disk)[1])
    job = encode_job(MergeJob("/log", tuple(paths)))
    steps = carry_out(disk, SystemClock(), json.loads(json.dumps(job)))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            header = RunHeader(**end.value)
            break
    assert header == RunHeader(Offset(0), Offset(3 * 10**6), LeaderEpoch(3), 60_000, 3 * 77)
    path = f"/log/{run_name(Offset(0), Offset(3 * 10**6))}{UNFINISHED_SUFFIX}"
    expected = [
        offset for one in reversed(paths) for offset in offsets_of(disk, one, 4999, BytesRead())
    ]
    assert offsets_of(disk, path, 4999, BytesRead()) == expected
    assert len(expected) == 12


def test_no_byte_can_change_unnoticed() -> None:
    written = [(number * 4001, number) for number in range(1000)]
    disk, path = disk_with_run(written)
    sound = disk.read(path)
    noticed = 0
    for position in [*range(0, len(sound) - 72, 37), *range(len(sound) - 72, len(sound))]:
        changed = bytearray(sound)
        changed[position] ^= 0x10
        disk.replace(path, bytes(changed))
        try:
            found = [offsets_of(disk, path, one, BytesRead()) for one, _ in written]
        except DamagedRun:
            noticed += 1
        else:
            # Padding behind the entries of the last block, or in the header.
            assert found == [[offset] for _, offset in written]
    assert noticed > 250


@pytest.mark.parametrize("size", [0, 10, 64, 100, 4096, 5000])
def test_a_file_that_is_cut_short_is_noticed(size: int) -> None:
    disk, path = disk_with_run([(number * 4001, number) for number in range(1000)])
    disk.replace(path, disk.read(path)[:size])
    with pytest.raises(DamagedRun):
        Run.open(disk, path)


def test_only_runs_have_such_names() -> None:
    assert parse_run_name(run_name(Offset(12), Offset(4711))) == (12, 4711)
    for name in (
        "00000000000000000000.log",
        "00000000000000000000.keys",
        "00000000000000000000-12.keys",
        run_name(Offset(0), Offset(5)) + ".tmp",
        run_name(Offset(0), Offset(5)) + ".deleted",
        "leader-epoch-checkpoint",
    ):
        assert parse_run_name(name) is None


# The keys of a batch

fields = st.one_of(st.none(), st.binary(max_size=8), st.sampled_from([bytes(200), bytes(20_000)]))


@given(st.lists(st.tuples(fields, fields, st.integers(0, 10**6)), min_size=1, max_size=80))
@settings(max_examples=60, deadline=None)
def test_keys_and_single_records_are_those_of_the_decoder(
    written: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    builder = BatchBuilder()
    for key, value, timestamp_ms in written:
        builder.append(key, value, [("name", value)], timestamp_ms)
    batch = builder.build(base_offset=1000)
    header = read_header(batch)
    payload = decompress_payload(batch, header)
    records = decode_records(batch)
    assert parse_keys(payload, header.record_count) == [
        (record.offset - 1000, record.key) for record in records if record.key is not None
    ]
    for record in records:
        assert record_at(payload, header, record.offset) == record
    assert record_at(payload, header, Offset(1000 + len(records))) is None


@given(st.binary(max_size=40), st.integers(0, 5))
@settings(max_examples=300)
def test_nonsense_in_a_batch_is_malformed_or_read(payload: bytes, count: int) -> None:
    header = read_header(BatchBuilder().build())._replace(record_count=count)
    for call in (lambda: parse_keys(payload, count), lambda: record_at(payload, header, Offset(3))):
        try:
            call()
        except MalformedRecords:
            continue
