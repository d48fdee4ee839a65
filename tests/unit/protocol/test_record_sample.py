"""The check of a batch's first and last record, which every append pays for."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.protocol.record_parser import MalformedRecords
from odradek.protocol.record_sample import check_sample
from odradek.protocol.records import HEADER_SIZE, BatchBuilder, decode_records, decompress_batch

NOW_MS = 1_700_000_000_000

fields = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=3), fields), max_size=2)
records = st.tuples(fields, fields, headers, st.integers(0, 1 << 40))


def build(given_records: list[tuple[bytes | None, bytes | None, object, int]]) -> bytes:
    builder = BatchBuilder()
    for key, value, its_headers, elapsed in given_records:
        builder.append(key, value, its_headers, NOW_MS + elapsed)  # type: ignore[arg-type]
    return builder.build()


@given(st.lists(records, min_size=1, max_size=12), st.integers(1, 40))
def test_a_batch_as_producers_make_it_passes(
    some: list[tuple[bytes | None, bytes | None, object, int]], times: int
) -> None:
    batch = build(some * times)
    check_sample(batch, HEADER_SIZE, len(some) * times)
    check_sample(memoryview(batch), HEADER_SIZE, len(some) * times)


@pytest.mark.parametrize("count", [1, 2, 16, 17, 64, 65, 200, 9000])
@pytest.mark.parametrize("size", [0, 1, 100, 3000])
def test_the_last_record_is_found_whatever_the_sizes(count: int, size: int) -> None:
    # The encoded offset of the last record stands in every value, too.
    batch = build([(b"k", b"\x02\x04\x7e\xbe\x02" * (size // 5), (), n) for n in range(count)])
    check_sample(batch, HEADER_SIZE, count)


@pytest.mark.parametrize("size", [20, 100, 900])
def test_random_values_are_not_taken_for_the_last_record(size: int) -> None:
    """Bytes of values often look like the last record's length and offset by chance."""
    random = Random(size)
    for _ in range(1500):
        count = random.randint(17, 64)
        batch = build([(None, random.randbytes(size), (), 0) for _ in range(count)])
        check_sample(batch, HEADER_SIZE, count)


@pytest.mark.parametrize("count", [0, -1, 2, 3, 7, 1 << 20, (1 << 31) - 1])
def test_another_number_of_records_than_there_are_is_refused(count: int) -> None:
    with pytest.raises(MalformedRecords):
        check_sample(build([(b"k", b"v" * 100, (), 0)]), HEADER_SIZE, count)


@pytest.mark.parametrize("count", [10, 100, 1000])
@pytest.mark.parametrize("change", [-1, 1])
def test_one_record_more_or_less_is_refused(count: int, change: int) -> None:
    batch = build([(b"k", b"v" * 100, (), 0)] * count)
    with pytest.raises(MalformedRecords):
        check_sample(batch, HEADER_SIZE, count + change)


@given(st.binary(min_size=7, max_size=300), st.integers(1, 20))
@example(bytes(50), 3)
def test_what_passes_with_one_or_two_records_can_be_read(data: bytes, count: int) -> None:
    header = bytearray(build([(b"k", b"v", (), 0)])[:HEADER_SIZE])
    header[8:12] = (len(data) + HEADER_SIZE - 12).to_bytes(4, "big")
    header[23:27] = (count - 1).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big")
    batch = bytes(header) + data
    try:
        check_sample(batch, HEADER_SIZE, count)
    except MalformedRecords:
        return
    if count <= 2:
        assert len(decode_records(batch)) == count
        assert sum(map(len, decompress_batch(batch).summaries())) == count


def test_a_key_that_ends_behind_its_record_is_refused() -> None:
    batch = bytearray(build([(b"k1", b"v" * 10, (), 0)]))
    batch[HEADER_SIZE + 4] = 126
    with pytest.raises(MalformedRecords):
        check_sample(batch, HEADER_SIZE, 1)
    with pytest.raises(MalformedRecords):
        list(decompress_batch(bytes(batch)).summaries())


def test_a_header_without_a_name_is_refused() -> None:
    batch = bytearray(build([(b"k", b"v", [("n", b"x")], 0)]))
    # Length, attributes, time, offset, key, value, count, then the length of the name.
    assert batch[-4] == 2
    batch[-4] = 1
    with pytest.raises(MalformedRecords):
        check_sample(batch, HEADER_SIZE, 1)
