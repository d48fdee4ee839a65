"""Record batches: what is built is read back, what is changed stays valid."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    MalformedRecords,
    Record,
    UnsupportedRecordFormat,
    crc_is_valid,
    decode_control_type,
    decode_end_transaction_marker,
    decode_records,
    decompress_batch,
    encode_end_transaction_marker,
    find_max_timestamp,
    find_timestamp,
    offset_prefix,
    read_header,
    recompress,
    set_log_append_time,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset
from tests.unit.protocol.record_strategies import Content, record_contents


def build(contents: list[Content], codec: Codec = Codec.NONE, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(codec)
    for key, value, headers, timestamp_ms in contents:
        builder.append(key, value, headers, timestamp_ms)
    return builder.build(base_offset)


def simple_batch(count: int = 3, codec: Codec = Codec.NONE, base_offset: int = 0) -> bytes:
    return build(
        [(b"key", b"value %d" % index, [], 1000 + 10 * index) for index in range(count)],
        codec,
        base_offset,
    )


@settings(deadline=None)
@given(st.lists(record_contents(), max_size=30), st.sampled_from(Codec), st.integers(0, 1 << 62))
def test_records_come_back(contents: list[Content], codec: Codec, base_offset: int) -> None:
    batch = build(contents, codec, base_offset)
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert header.codec == codec
    assert header.record_count == len(contents)
    assert header.max_timestamp == max((content[3] for content in contents), default=-1)
    assert decode_records(batch) == [
        Record(Offset(base_offset + index), timestamp_ms, key, value, headers)
        for index, (key, value, headers, timestamp_ms) in enumerate(contents)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_ten_thousand_records_come_back(codec: Codec) -> None:
    contents: list[Content] = [
        (None, b"%d" % index * (index % 50), [], 1_700_000_000_000 - index)
        for index in range(10_000)
    ]
    records = decode_records(build(contents, codec, 5))
    assert [(record.key, record.value, record.headers) for record in records] == [
        content[:3] for content in contents
    ]
    assert [record.timestamp_ms for record in records] == [content[3] for content in contents]
    assert [record.offset for record in records] == list(range(5, 10_005))


def test_a_record_larger_than_every_small_integer_comes_back() -> None:
    value = bytes(3_000_000)
    assert decode_records(build([(value, value, [("h", value)], 0)])) == [
        Record(Offset(0), 0, value, value, [("h", value)])
    ]


def test_the_size_is_known_before_the_batch_is_built() -> None:
    builder = BatchBuilder()
    assert builder.size_bytes == HEADER_SIZE
    for index in range(3000):
        assert builder.append(b"k", None, [("name", b"x" * index)], index * 7) == index
    assert builder.size_bytes == len(builder.build())


def test_a_batch_is_built_again_for_another_producer_but_takes_no_more_records() -> None:
    builder = BatchBuilder(Codec.LZ4)
    builder.append(None, b"value")
    first, second = builder.build(), builder.build(0, 7, 1, 42, is_transactional=True)
    assert decode_records(first) == decode_records(second)
    header = read_header(second)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 42)
    assert header.is_transactional
    assert not header.is_control
    size_bytes = builder.size_bytes
    with pytest.raises(ValueError, match="takes no more records"):
        builder.append(None, b"too late")
    assert (builder.record_count, builder.size_bytes) == (1, size_bytes)
    assert builder.build() == first


def test_the_header_is_where_kafka_has_it() -> None:
    batch = BatchBuilder().build(0x0102030405060708, 0x1112131415161718, 0x2122, 0x31323334)
    assert batch[:8] == bytes.fromhex("0102030405060708")
    assert batch[8:12] == struct.pack(">i", 49)
    assert batch[12:17] == b"\xff\xff\xff\xff\x02"
    assert batch[43:51] == bytes.fromhex("1112131415161718")
    assert batch[51:57] == bytes.fromhex("212231323334")
    assert batch[57:] == bytes(4)


def test_sequence_numbers_start_again_after_the_last() -> None:
    builder = BatchBuilder()
    for _ in range(4):
        builder.append(None, None)
    header = read_header(builder.build(0, 1, 0, (1 << 31) - 2))
    assert header.last_sequence == 1
    assert read_header(builder.build()).last_sequence == -1


def test_an_empty_batch_that_compaction_left_is_read() -> None:
    empty = bytearray(BatchBuilder().build(100, 7, 0, 20))
    struct.pack_into(">i", empty, 23, 9)
    header = read_header(empty)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (109, 110, 29)
    assert decode_records(empty) == []
    assert find_timestamp(empty, -1) is None
    assert find_max_timestamp(empty) is None


def test_batches_are_split_where_they_meet() -> None:
    batches = [simple_batch(count, Codec.ZSTD, count * 10) for count in (1, 5, 2)]
    joined = b"".join(batches)
    found = split_batches(memoryview(joined))
    assert [position for position, _ in found] == [0, len(batches[0]), len(batches[0] + batches[1])]
    assert [header.base_offset for _, header in found] == [10, 50, 20]
    for position, header in found:
        assert crc_is_valid(joined, position, header)
    assert [record.offset for record in decode_records(joined, found[1][0])] == list(range(50, 55))
    assert split_batches(b"") == []


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_a_torn_batch_is_malformed(cut: int) -> None:
    whole = simple_batch()
    torn = whole + whole[:-cut]
    with pytest.raises(MalformedRecords):
        split_batches(torn)
    with pytest.raises(MalformedRecords):
        decode_records(torn, len(whole))


def test_a_torn_batch_fails_its_checksum() -> None:
    whole = simple_batch()
    assert not crc_is_valid(whole[:-1], 0, read_header(whole))
    changed = bytearray(whole)
    changed[-3] ^= 1
    assert not crc_is_valid(changed, 0, read_header(changed))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_told_apart(magic: int) -> None:
    old = struct.pack(">qiIbb", 0, 14, 0, magic, 0) + bytes(10)
    with pytest.raises(UnsupportedRecordFormat):
        read_header(old)


# What the broker changes


def test_offset_and_epoch_change_outside_the_checksum() -> None:
    batch = simple_batch(3, Codec.GZIP)
    header = read_header(batch)
    changed = offset_prefix(header, Offset(1234), LeaderEpoch(56)) + batch[16:]
    after = read_header(changed)
    assert after == header._replace(base_offset=Offset(1234), leader_epoch=LeaderEpoch(56))
    assert crc_is_valid(changed, 0, after)
    assert [record.offset for record in decode_records(changed)] == [1234, 1235, 1236]


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_replaces_every_timestamp(codec: Codec) -> None:
    batch = set_log_append_time(simple_batch(3, codec, 8), 99_000)
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.is_log_append_time
    assert header.max_timestamp == 99_000
    assert header.codec == codec
    assert [record.timestamp_ms for record in decode_records(batch)] == [99_000] * 3
    assert find_timestamp(batch, 99_000) == (99_000, 8)
    assert find_timestamp(batch, 99_001) is None
    assert find_max_timestamp(batch) == (99_000, 8)


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_recompression_keeps_the_records(before: Codec, after: Codec) -> None:
    batch = set_log_append_time(simple_batch(200, before, 17), 5)
    other = recompress(batch, after)
    header = read_header(other)
    assert header.codec == after
    assert crc_is_valid(other, 0, header)
    assert header.size_bytes == len(other)
    assert decode_records(other) == decode_records(batch)
    assert header._replace(attributes=0, crc=0, batch_length=0) == read_header(batch)._replace(
        attributes=0, crc=0, batch_length=0
    )


@settings(deadline=None)
@given(
    st.lists(record_contents(), max_size=20),
    st.integers(0, 6000) | st.integers(-1, 1 << 60),
    st.sampled_from(Codec),
    st.integers(0, 25),
)
def test_timestamps_are_found_as_a_search_through_all_records_finds_them(
    contents: list[Content], target_ms: int, codec: Codec, min_offset: Offset
) -> None:
    batch = build(contents, codec, 3)
    records = decode_records(batch)
    later = [r for r in records if r.timestamp_ms >= target_ms and r.offset >= min_offset]
    expected = (later[0].timestamp_ms, later[0].offset) if later else None
    assert find_timestamp(batch, target_ms, min_offset=min_offset) == expected
    first = next(((r.timestamp_ms, r.offset) for r in records if r.timestamp_ms >= target_ms), None)
    assert find_timestamp(batch, target_ms) == first
    latest = max((r.timestamp_ms for r in records), default=None)
    found = next(((latest, r.offset) for r in records if r.timestamp_ms == latest), None)
    assert find_max_timestamp(batch) == found


@settings(deadline=None)
@given(st.lists(record_contents(), max_size=20), st.sampled_from(Codec), st.integers(1, 20))
def test_summaries_have_timestamp_deltas_and_keys(
    contents: list[Content], codec: Codec, max_count: int
) -> None:
    batch = decompress_batch(build(contents, codec, 3))
    base_ms = batch.base_timestamp
    summaries = [summary for part in batch.summaries(max_count) for summary in part]
    assert [(base_ms + delta_ms, has_key) for delta_ms, has_key in summaries] == [
        (timestamp_ms, key is not None) for key, _, _, timestamp_ms in contents
    ]


def test_summaries_are_made_of_offsets_of_every_width() -> None:
    batch = decompress_batch(build([(b"key", None, [], 7)] * 20_000, Codec.NONE, 0))
    assert batch.base_timestamp == 7
    assert list(batch.summaries(7_000)) == [[(0, True)] * count for count in (7_000, 7_000, 6_000)]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", 2, id="too few records"),
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", 1, id="not the first offset"),
        pytest.param(b"\x0c\x00\x00\xff\xff\xff\xff", 1, id="an offset without an end"),
        pytest.param(b"\x0d\x00\x00\x00\x01\x01\x00", 1, id="a negative length"),
        pytest.param(b"", 200_000, id="more records than a broker decompresses"),
    ],
)
def test_summaries_of_wrong_records_are_malformed(payload: bytes, count: int) -> None:
    with pytest.raises(MalformedRecords):
        list(decompress_batch(raw_batch(payload, count)).summaries())


def test_a_batch_that_cannot_be_searched_counts_as_one_record() -> None:
    large = build([(None, bytes(100_000), [], 5), (None, b"", [], 9)], Codec.ZSTD, 40)
    assert find_timestamp(large, 9) == (9, 41)
    assert find_timestamp(large, 9, max_bytes=100_000) == (9, 40)
    assert find_timestamp(large, 9, max_bytes=100_000, min_offset=Offset(41)) == (9, 41)
    assert find_timestamp(large, 9, max_bytes=100_000, min_offset=Offset(42)) is None
    assert find_max_timestamp(large, max_bytes=100_000) == (9, 40)
    damaged = bytearray(simple_batch(3, base_offset=7))
    damaged[HEADER_SIZE] = 0xFF
    assert find_timestamp(damaged, 1010) == (1020, 7)
    assert find_max_timestamp(damaged) == (1020, 7)
    assert find_timestamp(damaged, 1021) is None
    many = bytearray(damaged)
    struct.pack_into(">ii", many, 53, -1, 1 << 30)
    assert find_timestamp(many, 1010) == (1020, 7)


# Control records


@pytest.mark.parametrize("control_type", [ControlType.COMMIT, ControlType.ABORT])
def test_a_transaction_marker_comes_back(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 12)
    batch = encode_end_transaction_marker(
        marker, producer_id=5, producer_epoch=2, timestamp_ms=77, base_offset=9, leader_epoch=4
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert header.size_bytes == 78, "as large as Kafka's own"
    (record,) = decode_records(batch)
    assert (record.offset, record.timestamp_ms) == (9, 77)
    assert decode_end_transaction_marker(record) == marker


def test_control_records_of_other_types_are_named() -> None:
    def control(number: int, version: int = 0) -> Record:
        return Record(Offset(0), 0, struct.pack(">hh", version, number), b"", [])

    assert decode_control_type(control(2)) is ControlType.LEADER_CHANGE
    assert decode_control_type(control(77)) is ControlType.UNKNOWN
    assert decode_control_type(control(-3)) is ControlType.UNKNOWN
    for record in (
        control(2),
        control(1),
        control(1, version=-1),
        Record(Offset(0), 0, None, bytes(6), []),
        Record(Offset(0), 0, struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 0), []),
    ):
        with pytest.raises(MalformedRecords):
            decode_end_transaction_marker(record)


# Malformed


def raw_batch(payload: bytes, count: int, last_offset_delta: int | None = None) -> bytes:
    """A batch with a right header around any bytes."""
    header = struct.pack(
        ">qiibIhiqqqhii",
        0,
        49 + len(payload),
        -1,
        2,
        0,
        0,
        max(0, count - 1) if last_offset_delta is None else last_offset_delta,
        0,
        0,
        -1,
        -1,
        -1,
        count,
    )
    return header + payload


MINIMAL = b"\x0c\x00\x00\x00\x01\x01\x00"


def test_the_smallest_record_is_read() -> None:
    assert decode_records(raw_batch(MINIMAL, 1)) == [Record(Offset(0), 0, None, None, [])]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(MINIMAL, 2, id="fewer records than declared"),
        pytest.param(MINIMAL * 2, 1, id="more bytes than records"),
        pytest.param(MINIMAL * 2, 2, id="an offset twice"),
        pytest.param(b"", 1 << 30, id="a huge count"),
        pytest.param(b"\x0b\x00\x00\x00\x01\x01\x00", 1, id="a negative length"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", 1, id="a length beyond the end"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, id="a length beyond the fields"),
        pytest.param(b"\x0c\x00\x00\x01\x01\x01\x00", 1, id="a negative offset"),
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", 1, id="an offset behind the batch"),
        pytest.param(b"\x0c\x00\x00\x00\x03\x01\x00", 1, id="a key of length -2"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x05\x00", 1, id="a value of length -3"),
        pytest.param(b"\x0c\x00\x00\x00\x7e\x01\x00", 1, id="a key beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x7e\x00", 1, id="a value beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x01", 1, id="minus one headers"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x7e", 1, id="headers beyond the record"),
        pytest.param(
            b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f", 1, id="two thousand million headers"
        ),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, id="a header without a name"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x00\x05", 1, id="a header of length -3"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x00\x20", 1, id="a header value beyond"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01" + MINIMAL, 1, id="a length of six bytes"),
        pytest.param(b"\xfe\xff\xff\xff\x7f" + MINIMAL, 1, id="a length of 35 bits"),
        pytest.param(
            b"\x20\x00" + b"\xff" * 10 + b"\x01\x00\x01\x01\x00", 1, id="a time of eleven bytes"
        ),
        pytest.param(
            b"\x1e\x00" + b"\xfe" + b"\xff" * 8 + b"\x01\x00\x01\x01\x00", 1, id="a time of 2^63"
        ),
    ],
)
def test_wrong_records_are_malformed(payload: bytes, count: int) -> None:
    with pytest.raises(MalformedRecords):
        decode_records(raw_batch(payload, count))


@pytest.mark.parametrize(
    ("position", "field", "value"),
    [
        pytest.param(8, ">i", 48, id="a length shorter than the header"),
        pytest.param(8, ">i", -1, id="a negative length"),
        pytest.param(21, ">h", 5, id="an unknown codec"),
        pytest.param(23, ">i", -1, id="a negative offset delta"),
        pytest.param(57, ">i", -1, id="a negative count"),
        pytest.param(0, ">q", -1, id="a negative offset"),
        pytest.param(0, ">q", (1 << 63) - 1, id="offsets beyond 64 bits"),
        pytest.param(27, ">q", -(1 << 63), id="a time before all time"),
    ],
)
def test_wrong_headers_are_malformed(position: int, field: str, value: int) -> None:
    batch = bytearray(simple_batch())
    struct.pack_into(field, batch, position, value)
    with pytest.raises(MalformedRecords):
        decode_records(batch)


def test_a_header_name_that_is_not_utf_8_does_not_hide_the_record() -> None:
    payload = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    assert decode_records(raw_batch(payload, 1))[0].headers == [("\ufffd", None)]


def test_decompressed_records_have_a_limit() -> None:
    batch = build([(None, bytes(100_000), [], 0)], Codec.ZSTD)
    assert len(decode_records(batch, max_bytes=100_100)) == 1
    with pytest.raises(MalformedRecords):
        decode_records(batch, max_bytes=100_000)
    with pytest.raises(MalformedRecords):
        recompress(batch, Codec.NONE, max_bytes=100_000)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(Codec))
def test_mutated_batches_are_malformed_or_still_records(data: st.DataObject, codec: Codec) -> None:
    contents: list[Content] = [
        (b"key", b"value " * index, [("name", b"x"), ("none", None)], 1000 + index)
        for index in range(5)
    ]
    mutated = bytearray(build(contents, codec))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(mutated) - 1))
        mutated[position] = data.draw(st.integers(0, 255))
    try:
        records = decode_records(mutated, max_bytes=100_000)
    except MalformedRecords:
        records = []
    for record in records:
        assert -(1 << 63) <= record.timestamp_ms < 1 << 63
        assert 0 <= record.offset < 1 << 63
        assert record.key is None or len(record.key) <= 100_000
    with contextlib.suppress(MalformedRecords):
        find_timestamp(mutated, 1002, max_bytes=100_000)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_malformed_and_nothing_worse(noise: bytes) -> None:
    for attempt in (noise, b"\x00" * 8 + b"\x00\x00\x00\x60" + b"\x00" * 4 + b"\x02" + noise):
        for read in (split_batches, decode_records):
            with contextlib.suppress(MalformedRecords):
                read(attempt)
