"""Durability: who waits for a sync, how many syncs there are, what a failed one means."""

import asyncio
import errno
from random import Random

import pytest

from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import LogClosed, LogDirectoryFailed
from odradek.storage.housekeeping import Housekeeping
from odradek.world import MemoryDisk
from odradek.world.memory_disk import MemoryFile
from simulation.disk import SimulatedDisk
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    InlineWorkers,
    clock_of,
    make_batch,
    make_log,
    make_manager,
    make_world,
    read_all,
    topic,
)


class CountingDisk(MemoryDisk):
    """Counts the syncs of each file, and fails if two of them overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        file = super().open(path, create=create, writable=writable)
        return CountingFile(self, file)


class CountingFile(MemoryFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: CountingDisk, file: MemoryFile) -> None:
        super().__init__(file.path, file.contents)
        self._disk = disk

    def sync(self) -> None:
        self._disk.syncs[self.path] = self._disk.syncs.get(self.path, 0) + 1


LOG = "/data/orders-0/00000000000000000000.log"


async def test_one_sync_serves_everyone_who_waits() -> None:
    disk = CountingDisk()
    log = make_log(make_world(disk))
    waiting = []
    for _ in range(50):
        end = log.append(make_batch(), leader_epoch=LeaderEpoch(0)).last_offset + 1
        waiting.append(asyncio.create_task(log.flush_to(end)))
    await asyncio.gather(*waiting)
    assert log.flushed.value == 50
    assert disk.syncs[LOG] == 1
    await log.flush_to(Offset(50))
    assert disk.syncs[LOG] == 1


async def test_what_comes_during_a_sync_is_taken_by_the_next() -> None:
    disk = CountingDisk()
    log = make_log(make_world(disk))
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    first = asyncio.create_task(log.flush_to(Offset(1)))
    for _ in range(2):
        await asyncio.sleep(0)  # Now the first sync is under way.
    late = []
    for _ in range(10):
        end = log.append(make_batch(), leader_epoch=LeaderEpoch(0)).last_offset + 1
        late.append(asyncio.create_task(log.flush_to(end)))
    await asyncio.gather(first, *late)
    assert log.flushed.value == 11
    assert disk.syncs[LOG] == 2


async def test_flush_messages_starts_syncs_by_itself() -> None:
    log = make_log(settings=topic(flush_messages=3))
    assert not log.flushes_before_acknowledging
    for _ in range(2):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert log.flushed.value == 0
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await log.flushed.wait_for(Offset(3))
    assert make_log(settings=topic(flush_messages=1)).flushes_before_acknowledging


async def test_flush_ms_and_nothing_sooner() -> None:
    world = make_world()
    manager = make_manager(world)
    await manager.load()
    log = manager.create(PARTITION, TOPIC_ID, topic(flush_ms=100))
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    housekeeping = Housekeeping(manager, world)
    for age_ms in (0, 99):
        clock_of(world).advance(age_ms)
        housekeeping.flush_by_age()
        await asyncio.sleep(0)
        assert log.flushed.value == 0
    clock_of(world).advance(2)
    housekeeping.flush_by_age()
    await log.flushed.wait_for(Offset(1))


async def test_a_closed_segment_is_synced_without_being_asked() -> None:
    disk = CountingDisk()
    log = make_log(make_world(disk), topic(segment_bytes=200))
    for _ in range(3):
        log.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
    await log.flushed.wait_for(Offset(2))
    assert log.flushed.value == 2
    assert disk.syncs["/data/orders-0/00000000000000000000.index"] == 1
    assert disk.syncs["/data/orders-0/00000000000000000001.snapshot"] == 1
    assert disk.read("/data/orders-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


async def test_truncation_fails_those_who_wait_for_what_is_gone() -> None:
    log = make_log()
    for _ in range(4):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await log.flush()
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    waiting = asyncio.create_task(log.flush_to(Offset(5)))
    await asyncio.sleep(0)
    log.truncate_to(Offset(2))
    with pytest.raises(LogClosed):
        await waiting
    assert (log.flushed.value, log.log_end_offset) == (2, 2)
    log.append(make_batch(), leader_epoch=LeaderEpoch(1))
    await log.flush()
    assert log.flushed.value == 3


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
async def test_the_first_failed_sync_takes_the_directory_offline(operation: str) -> None:
    disk = SimulatedDisk(Random(1))
    world = make_world(disk)
    manager = make_manager(world, "/one", "/two")
    await manager.load()
    settings = topic(flush_messages=1)
    logs = [manager.create(PARTITION._replace(partition=n), TOPIC_ID, settings) for n in range(4)]
    broken, sound = logs[0], logs[1]
    assert broken.directory is not sound.directory
    for log in logs:
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    disk.fail_next(operation, under=broken.directory.path)
    with pytest.raises(LogDirectoryFailed):
        await broken.flush_to(Offset(1))
    await sound.flush_to(Offset(1))
    assert manager.offline_directories == [broken.directory]
    workers = world.workers
    assert isinstance(workers, InlineWorkers)
    calls = workers.calls
    for call in (
        lambda: broken.append(make_batch(), leader_epoch=LeaderEpoch(0)),
        lambda: broken.read(Offset(0), 1),
    ):
        with pytest.raises(LogDirectoryFailed):
            call()
    with pytest.raises(LogDirectoryFailed):
        await logs[2].flush_to(Offset(1))
    assert workers.calls == calls
    assert sound.append(make_batch(), leader_epoch=LeaderEpoch(0)).base_offset == 1
    created = manager.create(PARTITION._replace(partition=9), TOPIC_ID, settings)
    assert created.directory is sound.directory
    await manager.close()
    assert not disk.exists("/one/.kafka_cleanshutdown") or broken.directory.path != "/one"
    assert disk.exists(f"{sound.directory.path}/.kafka_cleanshutdown")
    assert not disk.exists(f"{broken.directory.path}/.kafka_cleanshutdown")


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
async def test_the_first_failed_write_takes_the_directory_offline(error: int) -> None:
    disk = SimulatedDisk(Random(1))
    log = make_log(make_world(disk))
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    disk.fail_next("write", error)
    with pytest.raises(LogDirectoryFailed):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    with pytest.raises(LogDirectoryFailed):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))


async def test_too_many_open_files_is_no_fault_of_the_disk() -> None:
    disk = SimulatedDisk(Random(1))
    log = make_log(make_world(disk))
    disk.fail_next("open", errno.EMFILE)
    with pytest.raises(Exception, match="too many open files"):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    assert read_all(log) == [(0, b"value")]


async def test_a_segment_that_is_deleted_during_a_sync_that_fails_is_not_synced_again() -> None:
    """Its file is gone, and the directory of a broker without descriptors went offline for that
    (the seed 7000045 of `topics`)."""
    disk = SimulatedDisk(Random(1))
    world = make_world(disk)
    settings = topic(segment_bytes=200, retention_ms=1000, file_delete_delay_ms=0)
    log = make_log(world, settings)
    while len(log.segments) < 2:
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await asyncio.sleep(0)  # The sync of the first segment has begun.
    clock_of(world).advance(5000)
    disk.fail_next("open", errno.EMFILE, under=LOG.replace(".log", ".index"))
    assert log.delete_old_segments() > 0
    for _ in range(3):
        await asyncio.sleep(0)
    for delete in log.directory.take_due_deletions(world.clock.monotonic_s()):
        delete()
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await log.flush()
    assert log.directory.is_online
