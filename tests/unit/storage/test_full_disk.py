"""A full disk: records are refused, everything else goes on, and room is found again."""

import errno
from random import Random

import pytest

from odradek.protocol.types import LeaderEpoch, Offset, ProducerId
from odradek.storage import Log, LogDirectoryFull, LogManager
from odradek.storage.errors import LogDirectoryFailed
from odradek.storage.housekeeping import Housekeeping
from odradek.world import MemoryDisk, World
from odradek.world.memory_disk import MemoryFile
from simulation.disk import SimulatedDisk
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    clock_of,
    headers_at,
    make_batch,
    make_log,
    make_manager,
    make_world,
    read_all,
    topic,
)

_CAPACITY = 1 << 20
_RESERVE = "/data/.odradek_reserve"


def make_disk(seed: int = 1) -> SimulatedDisk:
    return SimulatedDisk(Random(seed), capacity_bytes=_CAPACITY)


async def started(world: World) -> tuple[LogManager, Housekeeping]:
    manager = make_manager(world, odradek_log_dirs_reserve_bytes="8192")
    await manager.load()
    housekeeping = Housekeeping(manager, world)
    await housekeeping.make_reserves()
    return manager, housekeeping


def fill_up(disk: SimulatedDisk, left_bytes: int) -> None:
    """Somebody else takes all but so much."""
    disk.allocate("/else", 0)
    disk.allocate("/else", disk.free_bytes("/") - left_bytes)


def append_until_full(log: Log, producer_id: int = 7) -> int:
    """How many batches there was room for."""
    for sequence in range(100_000):
        try:
            log.append(
                make_batch([bytes(900)], producer=(producer_id, 0, sequence)),
                leader_epoch=LeaderEpoch(0),
            )
        except LogDirectoryFull:
            return sequence
    raise AssertionError("the disk never got full")


def is_refusing(log: Log) -> bool:
    return log.is_usable and not log.takes_appends


@pytest.mark.parametrize("seed", range(5))
async def test_a_write_without_room_is_cut_back_and_refused(seed: int) -> None:
    disk = make_disk(seed)
    world = make_world(disk)
    manager, _ = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=50_000))
    fill_up(disk, 120_000)
    count = append_until_full(log)
    assert 100 < count < 130
    assert (log.is_usable, log.takes_appends, log.log_end_offset) == (True, False, count)
    assert log.directory.is_online
    assert not disk.exists(_RESERVE)
    assert disk.size(log.active_segment.file.path) == log.active_segment.size
    assert [offset for offset, _ in read_all(log)] == list(range(count))
    with pytest.raises(LogDirectoryFull, match="/data is full"):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    assert verify_log(disk, log.path).problems == []


async def test_room_is_found_again_without_a_restart() -> None:
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=50_000))
    changes: list[bool] = []
    manager.on_room_changed.add(lambda _: changes.append(bool(manager.full_directories)))
    fill_up(disk, 100_000)
    count = append_until_full(log)
    await housekeeping.make_room()
    assert is_refusing(log)
    disk.allocate("/else", 0)
    await housekeeping.make_room()
    assert not is_refusing(log)
    assert disk.exists(_RESERVE)
    assert changes == [True, False]
    appended = log.append(make_batch(producer=(7, 0, count)), leader_epoch=LeaderEpoch(0))
    assert (appended.base_offset, appended.duplicate) == (count, False)
    # What was refused is not taken for something that is there.
    assert log.append(make_batch(producer=(7, 0, count)), leader_epoch=LeaderEpoch(0)).duplicate


@pytest.mark.parametrize("is_clean", [True, False])
async def test_nothing_is_lost_when_a_broker_stops_on_a_full_disk(is_clean: bool) -> None:
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=50_000))
    fill_up(disk, 100_000)
    count = append_until_full(log)
    before = read_all(log)
    if is_clean:
        await manager.close()
    else:
        await housekeeping.write_indexes()
        manager.abandon()
        disk.drop_handles()
    manager, housekeeping = await started(make_world(disk))
    log = manager.logs[PARTITION]
    assert read_all(log) == before
    disk.allocate("/else", 0)
    await housekeeping.make_room()
    assert (
        log.append(make_batch(producer=(7, 0, count)), leader_epoch=LeaderEpoch(0)).base_offset
        == count
    )


async def test_a_segment_that_cannot_be_closed_stays_the_active_one() -> None:
    """There is room for the batch, but not for the indexes and the snapshot of a roll."""
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=3000, index_interval_bytes=0))
    for sequence in range(3):
        log.append(make_batch([bytes(800)], producer=(7, 0, sequence)), leader_epoch=LeaderEpoch(0))
    for failing in ("write", "open", "truncate"):
        disk.fail_next(failing, errno.ENOSPC, under=log.path)
        with pytest.raises(LogDirectoryFull):
            log.append(make_batch([bytes(800)], producer=(7, 0, 3)), leader_epoch=LeaderEpoch(0))
        assert len(log.segments) == 1
        await housekeeping.make_room()
        assert log.takes_appends
    # A smaller one still fits in: then it is the segment's last, in its indexes too.
    log.append(
        make_batch([b"small"], timestamp_ms=NOW_MS + 5, producer=(7, 0, 3)),
        leader_epoch=LeaderEpoch(0),
    )
    log.append(make_batch([bytes(800)], producer=(7, 0, 4)), leader_epoch=LeaderEpoch(0))
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert log.segments[0].load_max_timestamp() == NOW_MS + 5
    assert len(log.segments[0].index) == 3
    await manager.close()
    assert verify_log(disk, log.path).problems == []


async def test_index_entries_wait_for_room() -> None:
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(index_interval_bytes=0))
    for _ in range(10):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    disk.fail_next("write", errno.ENOSPC, under=log.path)
    await housekeeping.write_indexes()
    assert not log.takes_appends
    assert disk.size(f"{log.path}/{0:020d}.index") < 9 * 8
    await housekeeping.make_room()
    await housekeeping.write_indexes()
    assert disk.size(f"{log.path}/{0:020d}.index") == 9 * 8


async def test_what_may_go_goes_when_there_is_no_room() -> None:
    disk = make_disk()
    world = make_world(disk)
    manager, housekeeping = await started(world)
    settings = topic(segment_bytes=20_000, retention_ms=1000, file_delete_delay_ms=3_600_000)
    log = manager.create(PARTITION, TOPIC_ID, settings)
    fill_up(disk, 100_000)
    count = append_until_full(log)
    log.high_watermark = Offset(count)
    await housekeeping.make_room()
    assert is_refusing(log)
    clock_of(world).advance(1001)
    await housekeeping.make_room()
    assert not is_refusing(log)
    assert log.log_start_offset > 0
    assert not [name for name in disk.list_directory(log.path) if name.endswith(".deleted")]
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))


async def test_a_follower_keeps_the_part_that_fitted() -> None:
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=2000))
    sent = b"".join(
        make_batch([bytes(800)], base_offset=number, leader_epoch=number, producer=(7, 0, number))
        for number in range(6)
    )
    # The third segment finds no room: two were written, with two batches each.
    fill_up(disk, 6 * 900 - 1500)
    with pytest.raises(LogDirectoryFull):
        log.append(sent, leader_epoch=LeaderEpoch(9), as_follower=True)
    end = log.log_end_offset
    assert 0 < end < 6
    assert log.leader_epochs.latest == end - 1
    assert log.producers.entries[ProducerId(7)].last_sequence == end - 1
    disk.allocate("/else", 0)
    await housekeeping.make_room()
    rest = b"".join(
        make_batch([bytes(800)], base_offset=number, leader_epoch=number, producer=(7, 0, number))
        for number in range(end, 6)
    )
    log.append(rest, leader_epoch=LeaderEpoch(9), as_follower=True)
    assert [offset for offset, _ in read_all(log)] == list(range(6))


async def test_checkpoints_are_tried_again() -> None:
    disk = make_disk()
    manager, housekeeping = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic())
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    log.advance_log_start(Offset(3))
    disk.fail_next("write", errno.ENOSPC, under="/data/log-start-offset-checkpoint.next")
    await manager.checkpoint_log_start_offsets()
    assert not log.takes_appends
    await manager.checkpoint_log_start_offsets()
    assert b"orders 0 3" in disk.read("/data/log-start-offset-checkpoint")
    await housekeeping.make_room()
    assert log.takes_appends


async def test_a_truncation_whose_checkpoint_finds_no_room_costs_a_recovery() -> None:
    disk = make_disk()
    manager, _ = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=100))
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await log.flush()
    await manager.checkpoints.write_recovery_points(log.directory)
    disk.fail_next("write", errno.ENOSPC, under="/data/recovery-point-offset-checkpoint.tmp")
    log.truncate_to(Offset(2))
    assert log.is_usable
    assert not disk.exists("/data/recovery-point-offset-checkpoint")


async def test_a_failed_sync_is_a_broken_disk_even_for_want_of_room() -> None:
    disk = make_disk()
    manager, _ = await started(make_world(disk))
    log = manager.create(PARTITION, TOPIC_ID, topic())
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    disk.fail_next("sync", errno.ENOSPC, under=log.path)
    with pytest.raises(LogDirectoryFailed):
        await log.flush()
    assert not log.directory.is_online


async def test_new_logs_go_where_there_is_room() -> None:
    world = make_world(make_disk())
    manager = make_manager(world, "/one", "/two", odradek_log_dirs_reserve_bytes="8192")
    await manager.load()
    one, two = manager.directories
    one.run_out_of_room(OSError(errno.ENOSPC, "No space left on device"))
    for number in range(3):
        log = manager.create(PARTITION._replace(partition=number), TOPIC_ID, topic())
        assert log.directory is two
    two.run_out_of_room(OSError(errno.EDQUOT, "Disk quota exceeded"))
    with pytest.raises(LogDirectoryFull):
        manager.create(PARTITION._replace(partition=3), TOPIC_ID, topic())


def test_without_a_reserve_room_is_found_all_the_same() -> None:
    disk = make_disk()
    log = make_log(make_world(disk))
    fill_up(disk, 50_000)
    append_until_full(log)
    assert not log.directory.find_room()
    disk.allocate("/else", 0)
    assert log.directory.find_room()
    assert log.append(make_batch(producer=(1, 0, 0)), leader_epoch=LeaderEpoch(0)).base_offset > 0
    assert not disk.exists(_RESERVE)


class NoNewFiles(MemoryDisk):
    """Makes no new segment while `is_full`."""

    is_full = False

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        if self.is_full and create and path.endswith(".log") and not self.exists(path):
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().open(path, create=create, writable=writable)


def test_a_roll_from_an_empty_segment_that_finds_no_room_leaves_that_segment() -> None:
    disk = NoNewFiles()
    log = make_log(make_world(disk))
    log.truncate_fully_and_start_at(Offset(5))
    # Compaction left a gap in the leader's log: too wide for one segment.
    far = make_batch(base_offset=1 << 32, leader_epoch=0)
    disk.is_full = True
    with pytest.raises(LogDirectoryFull):
        log.append(far, leader_epoch=LeaderEpoch(0), as_follower=True)
    assert log.segments == [log.active_segment]
    assert disk.exists(log.active_segment.file.path)
    disk.is_full = False
    assert log.directory.find_room()
    log.append(far, leader_epoch=LeaderEpoch(0), as_follower=True)
    assert [header.base_offset for header in headers_at(log, Offset(5))] == [1 << 32]
