"""Retention by time and size, as Kafka does it: whole segments, below the high watermark."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count

import pytest

from odradek.config import BrokerSettings, InvalidSetting
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.storage import Log, LogDirectory, LogManager
from odradek.storage.housekeeping import Housekeeping
from odradek.storage.recovery import LogLoader
from odradek.storage.validation import AppendRules
from odradek.world import MemoryDisk, World
from odradek.world.timeslice import measured_by
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_batch,
    make_log,
    make_manager,
    make_world,
    read_all,
    run_deletions,
    topic,
)

_NO_TIMESTAMP = -1


def fill(log: Log, count: int, *, timestamp_ms: Callable[[int], int] = lambda _: NOW_MS) -> None:
    """One batch a segment, where segments hold 200 bytes."""
    for number in range(count):
        log.append(
            make_batch([bytes(100)], timestamp_ms=timestamp_ms(number)), leader_epoch=LeaderEpoch(0)
        )


async def started(world: World, **properties: str) -> LogManager:
    manager = make_manager(world, **properties)
    await manager.load()
    return manager


def test_the_age_of_a_segment_is_that_of_its_youngest_record() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=400, retention_ms=1000))
    fill(log, 6, timestamp_ms=lambda number: NOW_MS + (900 if number == 1 else 0))
    assert len(log.segments) == 3
    clock_of(world).advance(1500)
    assert log.delete_old_segments() == 0  # The first segment has a younger record.
    clock_of(world).advance(401)
    assert log.delete_old_segments() == 3


def test_exactly_the_retention_time_is_not_too_old() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000))
    fill(log, 2)
    clock_of(world).advance(1000)
    assert log.delete_old_segments() == 0
    clock_of(world).advance(1)
    assert log.delete_old_segments() == 2


def test_a_segment_without_timestamps_ages_from_its_last_write() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000))
    fill(log, 2, timestamp_ms=lambda _: _NO_TIMESTAMP)
    assert log.segments[0].load_max_timestamp() == _NO_TIMESTAMP
    clock_of(world).advance(1001)
    assert log.delete_old_segments() == 2


def test_after_a_restart_the_file_says_when_it_was_written() -> None:
    class DatedDisk(MemoryDisk):
        def modified_ms(self, path: str) -> int | None:
            return NOW_MS - 5000

    world = make_world(DatedDisk())
    log = make_log(world, topic(segment_bytes=200, retention_ms=4999))
    fill(log, 2, timestamp_ms=lambda _: _NO_TIMESTAMP)
    assert log.delete_old_segments() == 2


def test_a_timestamp_from_the_future_keeps_its_segment() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000))
    fill(log, 3, timestamp_ms=lambda number: NOW_MS + (60_000 if number == 1 else 0))
    clock_of(world).advance(2000)
    assert log.delete_old_segments() == 1
    assert log.log_start_offset == 1


def test_minus_one_keeps_everything() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=-1, retention_bytes=-1))
    fill(log, 5)
    clock_of(world).advance(10**12)
    assert log.delete_old_segments() == 0


@pytest.mark.parametrize("policy", [("delete",), ("compact", "delete")])
def test_size_counts_whole_segments(policy: tuple[str, ...]) -> None:
    settings = topic(segment_bytes=200, retention_ms=-1, cleanup_policy=policy)
    log = make_log(settings=settings)
    fill(log, 6)
    size = log.segments[0].size
    assert log.size_bytes == 6 * size
    for kept_bytes, gone in ((6 * size, 0), (5 * size + 1, 0), (5 * size, 1), (2 * size - 1, 3)):
        limited = topic(
            segment_bytes=200, retention_ms=-1, retention_bytes=kept_bytes, cleanup_policy=policy
        )
        log.configure(AppendRules(limited))
        assert log.delete_old_segments() == gone
    assert log.size_bytes == 2 * size


def test_no_bytes_at_all_begin_a_new_segment() -> None:
    log = make_log(settings=topic(segment_bytes=200, retention_ms=-1, retention_bytes=0))
    fill(log, 3)
    assert log.delete_old_segments() == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.delete_old_segments() == 0
    fill(log, 1)
    assert read_all(log) == [(3, bytes(100))]


def test_whichever_limit_takes_more_decides() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000, retention_bytes=700))
    fill(log, 10, timestamp_ms=lambda number: NOW_MS + (0 if number < 2 else 5000))
    clock_of(world).advance(1500)
    log.delete_old_segments()
    assert log.log_start_offset == 5
    assert 700 <= log.size_bytes < 700 + log.segments[0].size
    clock_of(world).advance(4501)
    log.delete_old_segments()
    assert log.log_start_offset == 10


def test_nothing_passes_the_high_watermark() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000, retention_bytes=0))
    fill(log, 4)
    clock_of(world).advance(60_000)
    for high_watermark, start in ((0, 0), (1, 1), (3, 3), (3, 3), (4, 4)):
        log.delete_old_segments(Offset(high_watermark))
        assert log.log_start_offset == start


def test_compacted_logs_only_lose_what_their_start_has_passed() -> None:
    world = make_world()
    log = make_log(
        world,
        topic(segment_bytes=200, retention_ms=1, retention_bytes=0, cleanup_policy=("compact",)),
    )
    fill(log, 6)
    clock_of(world).advance(60_000)
    assert log.delete_old_segments() == 0
    log._local.advance_start(Offset(4))  # As DeleteRecords left it before the policy was changed.
    assert log.delete_old_segments() == 4
    assert [segment.base_offset for segment in log.segments] == [4, 5]


def test_removed_files_stay_for_the_delay_that_was_set() -> None:
    world = make_world()
    log = make_log(world, topic(segment_bytes=200, retention_ms=1000, file_delete_delay_ms=2000))
    fill(log, 2)
    clock_of(world).advance(1001)
    log.delete_old_segments()

    def deleted() -> int:
        names = world.disk.list_directory(log.path)
        return len([name for name in names if name.endswith(".log.deleted")])

    run_deletions(log.directory, world.clock.monotonic_s() + 1.9)
    assert deleted() == 2
    run_deletions(log.directory, world.clock.monotonic_s() + 2.0)
    assert deleted() == 0


async def test_settings_count_from_the_next_look_on() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_ms=-1))
    fill(log, 3)
    log.high_watermark = Offset(3)
    clock_of(world).advance(5000)
    housekeeping = Housekeeping(manager, world)
    await housekeeping.apply_retention()
    assert log.log_start_offset == 0
    manager.configure(PARTITION.topic, topic(segment_bytes=200, retention_ms=4000))
    moved: list[TopicPartition] = []
    manager.on_start_moved.add(moved.append)
    await housekeeping.apply_retention()
    await housekeeping.apply_retention()
    assert log.log_start_offset == 3
    assert moved == [PARTITION]


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_the_start_survives(how: str) -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_ms=1000))
    fill(log, 5, timestamp_ms=lambda number: NOW_MS + (0 if number < 3 else 60_000))
    log.high_watermark = Offset(5)
    clock_of(world).advance(2000)
    await Housekeeping(manager, world).apply_retention()
    assert log.log_start_offset == 3
    if how == "closed":
        await manager.close()
    else:
        manager.abandon()
    again = await started(world)
    assert again.logs[PARTITION].log_start_offset == 3
    assert [offset for offset, _ in read_all(again.logs[PARTITION])] == [3, 4]


async def test_an_empty_log_remembers_where_it_goes_on_after_a_kill() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_ms=1000))
    fill(log, 5)
    log.high_watermark = Offset(5)
    clock_of(world).advance(2000)
    await Housekeeping(manager, world).apply_retention()
    manager.abandon()
    again = (await started(world)).logs[PARTITION]
    assert (again.log_start_offset, again.log_end_offset) == (5, 5)


async def test_a_deletion_that_was_asked_for_survives_a_kill_at_once() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    fill(log, 5)
    log.advance_log_start(Offset(3))
    await manager.checkpoint_log_start_offsets()
    manager.abandon()
    assert (await started(world)).logs[PARTITION].log_start_offset == 3


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        (
            {
                "log.retention.hours": "2",
                "log.retention.minutes": "3",
                "log.retention.ms": "4",
            },
            4,
        ),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "1"}, -1),
    ],
)
def test_the_finest_unit_wins(properties: dict[str, str], retention_ms: int) -> None:
    settings = BrokerSettings.from_properties(properties)
    assert settings.topic_defaults.retention_ms == retention_ms
    assert settings.topic({"retention.ms": "9"}).retention_ms == 9


@pytest.mark.parametrize(
    "name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
)
def test_a_broker_keeps_records_for_no_time_at_all_only_by_topic(name: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        BrokerSettings.from_properties({name: "0"})


async def turns_during(work: Coroutine[None, None, None]) -> int:
    """How often others had a turn, if every look at the stopwatch takes two milliseconds."""
    readings = count()
    with measured_by(lambda: 0.002 * next(readings)):
        task = asyncio.ensure_future(work)
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        task.result()
    return turns


async def test_retention_of_many_segments_lets_others_have_turns() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_bytes=0))
    fill(log, 200)
    assert len(log.segments) == 200
    log.high_watermark = Offset(200)
    told: list[TopicPartition] = []
    manager.on_start_moved.add(told.append)
    assert await turns_during(Housekeeping(manager, world).apply_retention()) > 10
    assert (len(log.segments), log.log_start_offset) == (1, 200)
    assert told == [PARTITION]


async def test_a_deletion_of_many_segments_is_finished_by_housekeeping() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200))
    fill(log, 200)
    log.advance_log_start(Offset(150))
    assert log.log_start_offset == 150
    assert len(log.segments) > 150
    assert await turns_during(Housekeeping(manager, world).remove_passed()) > 5
    assert len(log.segments) == 50


class Crashed(BaseException):
    """The machine went down."""


class CrashingDisk(MemoryDisk):
    """Crashes once so many more files have been renamed to be deleted."""

    renames_left = 1_000

    def rename(self, old: str, new: str) -> None:
        if new.endswith(".deleted"):
            if not self.renames_left:
                raise Crashed
            self.renames_left -= 1
        super().rename(old, new)


@pytest.mark.parametrize("renames", range(0, 25, 3))
async def test_a_crash_while_first_segments_are_removed_leaves_no_hole(renames: int) -> None:
    """Everything is synced, and the recovery point was not noted yet."""
    disk = CrashingDisk()
    world = make_world(disk)
    log = make_log(world, topic(segment_bytes=200))
    fill(log, 12)
    await log.flusher.close()
    log.high_watermark = log.log_end_offset
    disk.renames_left = renames
    with suppress(Crashed):
        log.advance_log_start(log.segments[6].base_offset)
    disk.renames_left = 1_000
    loaded = LogLoader(PARTITION, LogDirectory("/data", disk), log.settings, world).load(
        recovery_point=Offset(0), log_start_offset=Offset(0), is_clean=False
    )
    assert loaded.log_end_offset == 12
