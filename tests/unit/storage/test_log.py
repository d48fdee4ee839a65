"""One log: what it takes, what it gives back, and where it begins a new segment."""

import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import crc_is_valid, decode_records, read_header, split_batches
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import AppendRejected, LogClosed, OffsetOutOfRange
from odradek.storage.log import Log
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    NOW_MS,
    clock_of,
    headers_at,
    make_batch,
    make_log,
    make_world,
    numbered,
    read_all,
    read_slice,
    run_deletions,
    topic,
)


def refused(log: Log, records: bytes) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(AppendRejected) as caught:
        log.append(records, leader_epoch=LeaderEpoch(0))
    assert log.log_end_offset == end
    return caught.value.code


def changed(records: bytes, position: int, byte: int) -> bytes:
    return records[:position] + bytes([byte]) + records[position + 1 :]


def test_appends_get_offsets_and_are_read_as_they_came() -> None:
    log = make_log()
    first, second = make_batch([b"a", b"b"]), make_batch([b"c"])
    assert log.append(first, leader_epoch=LeaderEpoch(3))[:4] == (0, 1, -1, 0)
    assert log.append(memoryview(second), leader_epoch=LeaderEpoch(3)).base_offset == 2
    data = read_slice(log, Offset(0))
    assert data[16:][: len(first) - 16] == first[16:]
    assert [header.base_offset for header in headers_at(log, Offset(0))] == [0, 2]
    assert {header.leader_epoch for header in headers_at(log, Offset(0))} == {3}
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_read_starts_at_the_batch_that_holds_the_offset() -> None:
    log = make_log()
    for first in range(0, 9, 3):
        log.append(make_batch(numbered(first, 3)), leader_epoch=LeaderEpoch(0))
    assert [header.base_offset for header in headers_at(log, Offset(4))] == [3, 6]
    assert log.read(Offset(9), 100) is None
    for offset in (-1, 10):
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(offset), 100)


def test_a_read_is_cut_at_whole_batches_and_below_the_end_offset() -> None:
    log = make_log(settings=topic(index_interval_bytes=200))
    for number in range(40):
        log.append(make_batch(numbered(100 + number, padding=50)), leader_epoch=LeaderEpoch(0))
    size = len(read_slice(log, Offset(0))) // 40
    for start in (0, 7, 39):
        for batches in (1, 2, 5):
            found = split_batches(read_slice(log, Offset(start), batches * size + size - 1))
            assert len(found) <= min(batches, 40 - start)
            assert found[0][1].base_offset == start
        assert len(read_slice(log, Offset(start), 1)) == size
        assert log.read(Offset(start), 1, min_one=False) is None
        assert len(read_slice(log, Offset(start), end_offset=Offset(start + 1))) == size
        assert log.read(Offset(start), 1000, end_offset=Offset(start)) is None


def test_a_batch_that_reaches_beyond_the_end_offset_is_not_shown() -> None:
    log = make_log()
    log.append(make_batch(numbered(0, 3)), leader_epoch=LeaderEpoch(0))
    assert log.read(Offset(0), 1000, end_offset=Offset(2)) is None
    assert log.read(Offset(0), 1000, end_offset=Offset(3)) is not None


@pytest.mark.parametrize("max_bytes", [1, 300, 5000, 1 << 20])
def test_reading_on_from_where_the_last_read_ended_shows_everything(max_bytes: int) -> None:
    log = make_log(settings=topic(segment_bytes=3000, index_interval_bytes=100))
    expected: list[tuple[int, bytes | None]] = []
    for number in range(0, 1500, 3):
        log.append(make_batch(numbered(number, 3)), leader_epoch=LeaderEpoch(0))
        expected += enumerate(numbered(number, 3), number)
    assert len(log.segments) > 10
    assert read_all(log, max_bytes) == expected


def test_a_slice_stays_readable_when_its_segment_is_deleted() -> None:
    log = make_log(settings=topic(segment_bytes=300, file_delete_delay_ms=0))
    for number in range(10):
        log.append(make_batch(numbered(number, padding=100)), leader_epoch=LeaderEpoch(0))
    kept = log.read(Offset(0), 1000)
    assert kept is not None
    expected = kept.read(0, len(kept))
    log.advance_log_start(Offset(8))
    run_deletions(log.directory, 1e12)
    assert kept.read(0, len(kept)) == expected
    kept.release()
    with pytest.raises(ValueError, match="released"):
        kept.read(0, 1)


def test_damaged_and_inconsistent_batches_are_refused() -> None:
    log = make_log()
    good = make_batch([b"a", b"b"])
    assert refused(log, b"") == ErrorCode.INVALID_RECORD
    assert refused(log, good[:-1]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, good + good) == ErrorCode.INVALID_RECORD
    assert refused(log, changed(good, 70, good[70] ^ 1)) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, changed(good, 16, 1)) == ErrorCode.INVALID_RECORD
    assert refused(log, make_batch([b"a"], base_offset=7)) == ErrorCode.INVALID_RECORD
    assert refused(log, make_batch([b"a"], producer=(5, 0, -1))) == ErrorCode.INVALID_RECORD
    assert read_all(log) == []


def test_sizes_are_limited() -> None:
    batch = make_batch([bytes(500)])
    assert refused(make_log(settings=topic(max_message_bytes=200)), batch) == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    assert refused(make_log(settings=topic(segment_bytes=200)), batch) == (
        ErrorCode.RECORD_LIST_TOO_LARGE
    )


def test_timestamps_are_bounded() -> None:
    log = make_log(settings=topic(message_timestamp_before_max_ms=1000))
    assert refused(log, make_batch(timestamp_ms=NOW_MS - 1001)) == ErrorCode.INVALID_TIMESTAMP
    assert refused(log, make_batch(timestamp_ms=NOW_MS + 3_600_001)) == ErrorCode.INVALID_TIMESTAMP
    log.append(make_batch(timestamp_ms=NOW_MS - 1000), leader_epoch=LeaderEpoch(0))
    log.append(make_batch(timestamp_ms=-1), leader_epoch=LeaderEpoch(0))


def test_a_compacted_topic_needs_keys() -> None:
    log = make_log(settings=topic(cleanup_policy=("compact",)))
    with pytest.raises(AppendRejected) as caught:
        log.append(make_batch(key=None), leader_epoch=LeaderEpoch(0))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0]
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))


def test_log_append_time_replaces_the_producers() -> None:
    log = make_log(settings=topic(message_timestamp_type="LogAppendTime"))
    result = log.append(make_batch([b"a", b"b"], timestamp_ms=5), leader_epoch=LeaderEpoch(0))
    assert result.append_time_ms == NOW_MS
    data = read_slice(log, Offset(0))
    assert crc_is_valid(data, 0, read_header(data))
    assert {record.timestamp_ms for record in decode_records(data)} == {NOW_MS}


@pytest.mark.parametrize("codec", list(Codec))
def test_a_topic_with_its_own_codec_stores_in_that_codec(codec: Codec) -> None:
    log = make_log(settings=topic(compression_type="zstd"))
    log.append(make_batch([b"a" * 100], codec=codec), leader_epoch=LeaderEpoch(0))
    data = read_slice(log, Offset(0))
    header = read_header(data)
    assert header.codec is Codec.ZSTD
    assert crc_is_valid(data, 0, header)
    assert decode_records(data)[0].value == b"a" * 100


def test_a_batch_that_grows_too_large_when_stored_is_refused() -> None:
    log = make_log(settings=topic(compression_type="uncompressed", max_message_bytes=500))
    batch = make_batch([bytes(5000)], codec=Codec.ZSTD)
    assert len(batch) < 500
    assert refused(log, batch) == ErrorCode.MESSAGE_TOO_LARGE


def test_segments_roll_by_size_time_and_index() -> None:
    by_size = make_log(settings=topic(segment_bytes=500))
    by_index = make_log(settings=topic(segment_index_bytes=40, index_interval_bytes=0))
    for number in range(20):
        by_size.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
        by_index.append(make_batch(timestamp_ms=NOW_MS + number), leader_epoch=LeaderEpoch(0))
    assert all(segment.size <= 500 for segment in by_size.segments)
    assert len(by_size.segments) == 10
    assert len(by_index.segments) > 5
    by_time = make_log(settings=topic(segment_ms=1000))
    for timestamp in (0, 1000, 1001, 1002):
        by_time.append(make_batch(timestamp_ms=NOW_MS + timestamp), leader_epoch=LeaderEpoch(0))
    assert [segment.base_offset for segment in by_time.segments] == [0, 2]
    for log in (by_size, by_index, by_time):
        assert verify_log(log.directory.disk, log.path).problems == []


def test_a_follower_takes_many_batches_with_the_leaders_offsets_and_epochs() -> None:
    log = make_log(settings=topic(segment_bytes=400))
    run = b"".join(
        make_batch([bytes(100)] * 2, base_offset=10 + 2 * number, leader_epoch=number // 4)
        for number in range(8)
    )
    result = log.append(run + run[:30], leader_epoch=LeaderEpoch(9), as_follower=True)
    assert (result.base_offset, result.last_offset) == (10, 25)
    assert log.leader_epochs.epochs == [0, 1]
    assert log.leader_epochs.start_offsets == [10, 18]
    assert len(log.segments) == 8
    assert [header.base_offset for header in headers_at(log, Offset(10))] == [10]
    again = make_batch(base_offset=25)
    with pytest.raises(AppendRejected):
        log.append(again, leader_epoch=LeaderEpoch(9), as_follower=True)


def test_a_follower_may_be_given_offsets_far_ahead() -> None:
    log = make_log()
    log.append(make_batch(base_offset=5 << 32), leader_epoch=LeaderEpoch(0), as_follower=True)
    log.append(make_batch(base_offset=9 << 32), leader_epoch=LeaderEpoch(0), as_follower=True)
    assert [segment.base_offset for segment in log.segments] == [5 << 32, 9 << 32]
    assert log.log_end_offset == (9 << 32) + 1
    assert headers_at(log, Offset(6 << 32))[0].base_offset == 9 << 32


def test_offsets_are_found_by_time() -> None:
    log = make_log(settings=topic(segment_bytes=2000, index_interval_bytes=300))
    for number in range(200):
        log.append(
            make_batch(timestamp_ms=NOW_MS + 10 * (number // 2)),
            leader_epoch=LeaderEpoch(number // 50),
        )
    assert len(log.segments) > 3
    for number in range(0, 200, 2):
        found = log.offset_for_timestamp(NOW_MS + 5 * number - 3)
        assert found == (NOW_MS + 5 * number, number, number // 50)
    assert log.offset_for_timestamp(NOW_MS + 10_000) is None
    assert log.max_timestamp() == (NOW_MS + 990, 198, 3)
    log.advance_log_start(Offset(101))
    assert log.offset_for_timestamp(0) == (NOW_MS + 500, 101, 2)


def test_out_of_order_times_are_found_too() -> None:
    log = make_log(settings=topic(index_interval_bytes=0))
    for timestamp in (50, 10, 70, 20, 70, 30):
        log.append(make_batch(timestamp_ms=timestamp), leader_epoch=LeaderEpoch(0))
    assert log.offset_for_timestamp(60) == (70, 2, 0)
    assert log.offset_for_timestamp(20) == (50, 0, 0)
    assert log.max_timestamp() == (70, 2, 0)


def test_an_empty_log_has_no_times() -> None:
    log = make_log()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None


def test_truncation_cuts_whole_batches() -> None:
    log = make_log(settings=topic(segment_bytes=600, index_interval_bytes=0))
    for number in range(0, 60, 2):
        log.append(make_batch(numbered(number, 2, 50)), leader_epoch=LeaderEpoch(number // 10))
    log.truncate_to(Offset(100))
    assert log.log_end_offset == 60
    log.truncate_to(Offset(31))
    assert log.log_end_offset == 30
    assert log.leader_epochs.latest == 2
    assert len(read_all(log)) == 30
    log.append(make_batch(numbered(30, 2)), leader_epoch=LeaderEpoch(7))
    assert [offset for offset, _ in read_all(log)] == list(range(32))
    assert log.offset_for_leader_epoch(LeaderEpoch(6)) == (2, 30)
    assert verify_log(log.directory.disk, log.path).problems == []
    log.truncate_to(Offset(0))
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def test_a_log_can_start_over_elsewhere() -> None:
    log = make_log()
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    log.truncate_fully_and_start_at(Offset(500))
    assert (log.log_start_offset, log.log_end_offset, log.flushed.value) == (500, 500, 500)
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(1)).base_offset == 500
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(0), 10)


def test_the_log_start_only_rises_and_takes_segments_with_it() -> None:
    log = make_log(settings=topic(segment_bytes=200))
    for _ in range(10):
        log.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
    log.advance_log_start(Offset(5))
    log.advance_log_start(Offset(3))
    assert log.log_start_offset == 5
    assert log.segments[0].base_offset == 5
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(Offset(11))
    log.advance_log_start(Offset(10))
    assert read_all(log) == []


def test_retention_removes_old_segments_below_the_high_watermark() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000, file_delete_delay_ms=60_000))
    for number in range(10):
        log.append(
            make_batch([bytes(100)], timestamp_ms=NOW_MS + 100 * number),
            leader_epoch=LeaderEpoch(0),
        )
    clock_of(world).advance(1350)
    assert log.delete_old_segments(Offset(2)) == 2
    assert log.delete_old_segments() == 2
    assert log.log_start_offset == 4
    names = world.disk.list_directory(log.path)
    assert len([name for name in names if name.endswith(".log.deleted")]) == 4
    run_deletions(log.directory, world.clock.monotonic_s() + 61)
    assert not [name for name in world.disk.list_directory(log.path) if "deleted" in name]
    clock_of(world).advance(10_000)
    assert log.delete_old_segments() == 6
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(0)).base_offset == 10


def test_retention_by_size_keeps_at_least_as_much() -> None:
    log = make_log(settings=topic(segment_bytes=200, retention_bytes=500, retention_ms=-1))
    for _ in range(10):
        log.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
    size = log.segments[0].size
    log.delete_old_segments()
    assert 500 <= log.size_bytes < 500 + size
    compacted = make_log(
        settings=topic(segment_bytes=200, retention_bytes=0, cleanup_policy=("compact",))
    )
    for _ in range(3):
        compacted.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
    assert compacted.delete_old_segments() == 0


def test_a_deleted_log_refuses_everything() -> None:
    log = make_log()
    log.mark_deleted()
    with pytest.raises(LogClosed):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    with pytest.raises(LogClosed):
        log.read(Offset(0), 1)
