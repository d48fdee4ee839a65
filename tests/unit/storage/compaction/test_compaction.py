"""What a compaction pass keeps, drops and leaves as it was."""

import asyncio
from random import Random

import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    Record,
    decode_records,
    encode_end_transaction_marker,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId, TopicPartition
from odradek.storage import Log, LogManager
from odradek.storage.producer_state import Verification
from odradek.world import World
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_manager,
    make_world,
    read_slice,
    run_deletions,
)

DAY_MS = 86_400_000

COMPACTING = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "400",
    "log_index_interval_bytes": "100",
    "log_cleaner_min_cleanable_ratio": "0",
}


async def start(world: World, **properties: str) -> LogManager:
    manager = make_manager(world, **{**COMPACTING, **properties})
    await manager.load()
    return manager


async def make_log(world: World | None = None, **properties: str) -> tuple[LogManager, Log]:
    manager = await start(world or make_world(), **properties)
    log = manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)
    return manager, log


def put(
    log: Log,
    *records: tuple[bytes | None, bytes | None],
    codec: Codec = Codec.NONE,
    timestamp_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> int:
    builder = BatchBuilder(codec)
    for key, value in records:
        builder.append(key, value, (), timestamp_ms)
    batch = builder.build(0, *producer, is_transactional=is_transactional)
    verification = Verification(log.producers.last_marker_offset(ProducerId(producer[0])))
    return log.append(batch, leader_epoch=LeaderEpoch(0), verification=verification).base_offset


def put_marker(log: Log, kind: ControlType, producer: int, epoch: int = 0) -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer,
        producer_epoch=epoch,
        timestamp_ms=NOW_MS,
    )
    log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True)


async def settle(log: Log) -> None:
    """Everything so far can be compacted."""
    log.roll()
    log.high_watermark = log.log_end_offset
    log.flusher.request(log.log_end_offset)
    while log.recovery_point < log.active_segment.base_offset:  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)


async def compact(manager: LogManager) -> bool:
    for log in manager.logs.values():
        await settle(log)
    return await manager.cleaner.clean_one()


def unfinished(log: Log) -> list[str]:
    names = log.directory.disk.list_directory(log.path)
    return [name for name in names if name.endswith((".cleaned", ".swap"))]


def batches(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    found = []
    offset = log.log_start_offset
    while data := read_slice(log, offset):
        for position, header in split_batches(data):
            found.append((header, decode_records(data, position)))
            offset = header.next_offset
    return found


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for header, found in batches(log)
        for record in found
        if not header.is_control
    ]


async def test_the_newest_value_of_each_key_stays_at_its_offset() -> None:
    manager, log = await make_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"), (b"c", b"1"))
    put(log, (b"b", b"2"))
    assert await compact(manager)
    assert records(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert (log.log_start_offset, log.log_end_offset, log.first_dirty_offset) == (0, 5, 5)


async def test_what_came_after_the_last_pass_makes_older_records_superfluous() -> None:
    manager, log = await make_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    assert await compact(manager)
    put(log, (b"a", b"2"))
    assert await compact(manager)
    assert records(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


@pytest.mark.parametrize("codec", list(Codec))
async def test_batches_keep_codec_offsets_and_timestamps(codec: Codec) -> None:
    manager, log = await make_log()
    builder = BatchBuilder(codec)
    for number in range(5):
        builder.append(b"%d" % (number % 2), b"%d" % number, [("h", b"x")], NOW_MS - number)
    log.append(builder.build(), leader_epoch=LeaderEpoch(3))
    assert await compact(manager)
    ((header, found),) = batches(log)
    assert (header.codec, header.leader_epoch) == (codec, 3)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 4, 2)
    assert header.max_timestamp == NOW_MS - 3
    assert [(one.offset, one.timestamp_ms, one.headers) for one in found] == [
        (3, NOW_MS - 3, [("h", b"x")]),
        (4, NOW_MS - 4, [("h", b"x")]),
    ]


async def test_a_batch_of_survivors_is_copied_as_it_is() -> None:
    manager, log = await make_log()
    put(log, (b"a", b"1"), (b"b", b"1"), codec=Codec.ZSTD)
    before = read_slice(log, Offset(0))
    assert await compact(manager)
    assert read_slice(log, Offset(0)) == before


async def test_tombstones_stay_for_delete_retention_ms_and_then_go() -> None:
    world = make_world()
    manager, log = await make_log(world)
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"))
    assert await compact(manager)
    assert records(log) == [(1, b"a", None), (2, b"b", b"1")]
    (header, found), *_ = batches(log)
    assert header.delete_horizon_ms == NOW_MS + DAY_MS
    assert found[0].timestamp_ms == NOW_MS
    clock_of(world).advance(DAY_MS - 1)
    put(log, (b"c", b"1"))
    assert await compact(manager)
    assert (1, b"a", None) in records(log)
    clock_of(world).advance(1)
    put(log, (b"d", b"1"))
    assert await compact(manager)
    assert records(log) == [(2, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


async def test_a_tombstone_that_came_with_a_past_horizon_takes_its_values_along() -> None:
    """As a follower gets them from a leader that compacted long ago."""
    world = make_world()
    leader_manager, leader = await make_log(world)
    put(leader, (b"a", None), (b"b", b"1"))
    assert await compact(leader_manager)
    sent = read_slice(leader, Offset(0))
    clock_of(world).advance(2 * DAY_MS)
    manager, log = await make_log(make_world())
    clock_of(manager._world).advance(2 * DAY_MS)
    log.append(sent, leader_epoch=LeaderEpoch(0), as_follower=True)
    assert await compact(manager)
    assert records(log) == [(1, b"b", b"1")]


async def test_records_without_a_key_go() -> None:
    """They were written before the topic was compacted."""
    manager, log = await make_log()
    builder = BatchBuilder()
    builder.append(None, b"x", (), NOW_MS)
    builder.append(b"a", b"1", (), NOW_MS)
    log.append(builder.build(), leader_epoch=LeaderEpoch(0), by_coordinator=True)
    assert await compact(manager)
    assert records(log) == [(1, b"a", b"1")]
    put(log, (b"b", b"1"))
    assert await compact(manager)
    assert records(log) == [(1, b"a", b"1"), (2, b"b", b"1")]


async def test_the_last_batch_of_a_producer_stays_empty_and_its_repetition_is_known() -> None:
    world = make_world()
    manager, log = await make_log(world)
    put(log, (b"a", b"1"), (b"a", b"2"), producer=(9, 0, 0))
    put(log, (b"a", b"3"))
    assert await compact(manager)
    (header, found), *_ = batches(log)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (9, 0, 1)
    assert found == []
    manager.abandon()
    manager = await start(world)
    log = manager.logs[PARTITION]
    builder = BatchBuilder()
    builder.append(b"a", b"1", (), NOW_MS)
    builder.append(b"a", b"2", (), NOW_MS)
    again = log.append(builder.build(0, 9, 0, 0), leader_epoch=LeaderEpoch(0))
    assert (again.base_offset, again.duplicate) == (0, True)


async def test_aborted_records_go_at_once_and_make_nothing_superfluous() -> None:
    manager, log = await make_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"aborted"), producer=(9, 0, 0), is_transactional=True)
    put_marker(log, ControlType.ABORT, 9)
    put(log, (b"b", b"1"))
    assert await compact(manager)
    assert records(log) == [(0, b"a", b"1"), (3, b"b", b"1")]
    # The marker stays for whoever is in the middle of the transaction, with its index entry.
    assert [header.base_offset for header, _ in batches(log) if header.is_control] == [2]
    assert [entry.last_offset for entry in log.aborted] == [2]


async def test_markers_go_when_nothing_of_their_transaction_is_left_and_time_has_passed() -> None:
    world = make_world()
    manager, log = await make_log(world, log_cleaner_delete_retention_ms="1000")

    async def markers() -> list[int]:
        put(log, (b"z", b"1"))
        assert await compact(manager)
        return [one.base_offset for one, found in batches(log) if one.is_control and found]

    put(log, (b"a", b"1"), producer=(9, 0, 0), is_transactional=True)
    put_marker(log, ControlType.ABORT, 9)
    put(log, (b"a", b"1"), producer=(9, 0, 1), is_transactional=True)
    put_marker(log, ControlType.COMMIT, 9)
    put(log, (b"a", b"2"), producer=(9, 0, 2), is_transactional=True)
    put_marker(log, ControlType.COMMIT, 9)
    assert await markers() == [1, 3, 5]
    # Nothing is left of the first two. Now they know when to go.
    assert await markers() == [1, 3, 5]
    assert list(log.aborted) == []
    clock_of(world).advance(1000)
    assert await markers() == [5]
    assert (4, b"a", b"2") in records(log)
    manager.abandon()
    log = (await start(world)).logs[PARTITION]
    assert log.producers.entries[ProducerId(9)].last_sequence == 2
    assert list(log.aborted) == []


async def test_open_transactions_and_what_others_lack_stay_as_they_are() -> None:
    manager, log = await make_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"a", b"3"), producer=(9, 0, 0), is_transactional=True)
    log.roll()
    put(log, (b"a", b"4"))
    assert await compact(manager)
    assert records(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]
    assert log.first_dirty_offset == 2
    put_marker(log, ControlType.COMMIT, 9)
    await settle(log)
    log.high_watermark = Offset(3)
    assert not await manager.cleaner.clean_one()
    log.high_watermark = log.log_end_offset
    assert await manager.cleaner.clean_one()
    assert [offset for offset, *_ in records(log)] == [3]


async def test_small_segments_become_one() -> None:
    world = make_world()
    manager, log = await make_log(world, log_segment_delete_delay_ms="0")
    for number in range(40):
        put(log, (b"%d" % (number % 4), b"x" * 50))
    many = len(log.segments)
    assert await compact(manager)
    run_deletions(log.directory, clock_of(world).monotonic_s() + 1)
    put(log, (b"0", b"y"))
    assert await compact(manager)
    assert len(log.segments) < many / 4
    assert verify_log(world.disk, log.path, deep=True).problems == []
    assert unfinished(log) == []
    assert records(log)[-1] == (40, b"0", b"y")
    assert log.offset_for_timestamp(NOW_MS) is not None


async def test_slices_of_replaced_segments_stay_readable() -> None:
    world = make_world()
    manager, log = await make_log(world, log_segment_delete_delay_ms="0")
    for _ in range(10):
        put(log, (b"a", b"x" * 50))
    found = log.read(Offset(0), 200)
    assert found is not None
    before = found.read(0, len(found))
    assert await compact(manager)
    run_deletions(log.directory, clock_of(world).monotonic_s() + 1)
    assert found.read(0, len(found)) == before
    found.release()


async def test_memory_for_few_keys_takes_several_passes() -> None:
    manager, log = await make_log(log_cleaner_dedupe_buffer_size="2000")
    random = Random(1)
    newest = {}
    for number in range(300):
        key = b"%d" % random.randrange(60)
        newest[key] = (number, key, b"%d" % number)
        put(log, (key, b"%d" % number))
    passes = 0
    while await compact(manager):
        passes += 1
    assert passes > 3
    assert records(log) == sorted(newest.values())


async def test_how_far_a_log_is_compacted_survives_restarts() -> None:
    world = make_world()
    manager, log = await make_log(world)
    put(log, (b"a", b"1"), (b"a", b"2"))
    assert await compact(manager)
    assert world.disk.read("/data/cleaner-offset-checkpoint") == b"0\n1\norders 0 2\n"
    await manager.close()
    manager = await start(world)
    assert manager.logs[PARTITION].first_dirty_offset == 2
    assert not await compact(manager)


async def test_a_truncation_into_the_compacted_part_is_remembered_at_once() -> None:
    world = make_world()
    manager, log = await make_log(world)
    for number in range(10):
        put(log, (b"%d" % number, b"1"))
        log.roll()
    assert await compact(manager)
    assert log.first_dirty_offset == 10
    log.truncate_to(Offset(4))
    for number in range(8):
        put(log, (b"%d" % number, b"2"))
    manager.abandon()
    manager = await start(world)
    log = manager.logs[PARTITION]
    assert log.first_dirty_offset == 4
    assert await compact(manager)
    assert [value for _, _, value in records(log)] == [b"2"] * 8


async def test_another_topic_of_the_same_name_starts_dirty() -> None:
    world = make_world()
    manager, log = await make_log(world)
    put(log, (b"a", b"1"))
    assert await compact(manager)
    manager.delete(PARTITION)
    log = manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)
    put(log, (b"a", b"1"), (b"a", b"2"))
    manager.abandon()
    assert (await start(world)).logs[PARTITION].first_dirty_offset == 0


async def test_a_damaged_log_is_set_aside_and_the_rest_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    manager, log = await make_log(world)
    put(log, (b"a", b"1"), (b"a", b"2"))
    other = manager.create(TopicPartition("other", 0), TOPIC_ID, manager.settings.topic_defaults)
    put(other, (b"a", b"1"), (b"a", b"2"))
    await settle(log)
    await settle(other)
    file = world.disk.open(f"{log.path}/{0:020d}.log")
    file.write_at(70, [b"rot"])
    while await manager.cleaner.clean_one():
        pass
    assert list(manager.cleaner.uncleanable) == [log]
    assert "orders-0 cannot be compacted" in caplog.text
    assert "checksum" in caplog.text
    assert records(other) == [(1, b"a", b"2")]
    assert manager.cleaner.metrics.uncleanable == 1


async def test_a_pass_is_given_up_when_the_log_changes_under_it() -> None:
    manager, log = await make_log()
    for number in range(30):
        put(log, (b"a", b"%d" % number + b"x" * 60))
    await settle(log)
    cleaning = asyncio.ensure_future(manager.cleaner.clean_one())
    while manager.cleaner.metrics.subject is None:  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)
    log.truncate_to(Offset(20))
    await cleaning
    assert log.first_dirty_offset == 0
    assert [offset for offset, *_ in records(log)][-1] == 19
    assert unfinished(log) == []


async def test_a_log_that_is_deleted_under_a_pass_stays_deleted() -> None:
    world = make_world()
    manager, log = await make_log(world)
    for number in range(30):
        put(log, (b"a", b"%d" % number + b"x" * 60))
    await settle(log)
    cleaning = asyncio.ensure_future(manager.cleaner.clean_one())
    while manager.cleaner.metrics.subject is None:  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)
    manager.delete(PARTITION)
    await cleaning
    assert not world.disk.exists(log.path)


async def test_a_cancelled_pass_leaves_nothing() -> None:
    manager, log = await make_log()
    for number in range(30):
        put(log, (b"a", b"%d" % number + b"x" * 60))
    await settle(log)
    cleaning = asyncio.ensure_future(manager.cleaner.clean_one())
    while not unfinished(log):  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)
    cleaning.cancel()
    await asyncio.gather(cleaning, return_exceptions=True)
    assert unfinished(log) == []
    assert len(records(log)) > 1
