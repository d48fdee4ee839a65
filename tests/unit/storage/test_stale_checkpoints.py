"""Each checkpoint file, made stale in a way that a crash allows: what a kill must keep is kept.

`test_crash_model` looks for such ways by chance. Here are those that are known to have lost
records, or to have come close.
"""

import asyncio
import errno
import time
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from odradek.protocol.types import LeaderEpoch, Offset, ProducerId, TopicId, TopicPartition
from odradek.storage import Log, LogManager
from odradek.storage.file_names import CLEAN_SHUTDOWN
from odradek.storage.text_files import decode_offsets
from odradek.world import World
from odradek.world.timeslice import measured_by
from simulation.disk import SimulatedDisk
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    make_batch,
    make_manager,
    make_world,
    numbered,
    read_all,
    topic,
)

OTHER_ID = TopicId(bytes(range(16, 32)))
LOG_STARTS = "/data/log-start-offset-checkpoint"
HIGH_WATERMARKS = "/data/replication-offset-checkpoint"


async def started(world: World, **properties: str) -> LogManager:
    manager = make_manager(world, **properties)
    await manager.load()
    manager.begin_run(7)
    return manager


def fresh_world() -> World:
    return replace(make_world(SimulatedDisk(Random(1))), boot_id="first boot")


def disk_of(world: World) -> SimulatedDisk:
    assert isinstance(world.disk, SimulatedDisk)
    return world.disk


async def killed(world: World, **properties: str) -> LogManager:
    """The process dies, its kernel goes on, and another process starts."""
    disk_of(world).drop_handles()
    return await started(world, **properties)


async def without_power(world: World, **properties: str) -> LogManager:
    disk_of(world).crash()
    return await started(replace(world, boot_id="second boot"), **properties)


def log_of(manager: LogManager) -> Log:
    log = manager.get(PARTITION)
    assert log is not None
    return log


def fill(log: Log, first: int, count: int, epoch: LeaderEpoch) -> None:
    for number in range(first, first + count):
        log.append(make_batch(numbered(number)), leader_epoch=epoch)


def copy(log: Log, first: int, count: int, epoch: int, leader_epoch: LeaderEpoch) -> None:
    for number in range(first, first + count):
        batch = make_batch(numbered(number), base_offset=number, leader_epoch=epoch)
        log.append(batch, leader_epoch=leader_epoch, as_follower=True)


# leader-epoch-checkpoint


@pytest.mark.parametrize("knows_the_boot", [True, False])
async def test_records_of_an_older_epoch_than_the_file_names_are_kept(
    *, knows_the_boot: bool
) -> None:
    """It led in epoch 5 and wrote nothing; then it copied what was written in epoch 4."""
    world = fresh_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    fill(log, 0, 10, epoch=LeaderEpoch(4))
    log.leader_epochs.assign(LeaderEpoch(5), Offset(10))
    await manager.close()
    manager = await started(world)
    assert b"5 10" in world.disk.read("/data/orders-0/leader-epoch-checkpoint")
    log = log_of(manager)
    log.leader_epochs.truncate_from_end(Offset(10))
    copy(log, 10, 5, epoch=4, leader_epoch=LeaderEpoch(6))
    copy(log, 15, 20, epoch=6, leader_epoch=LeaderEpoch(6))
    if not knows_the_boot:
        world = replace(world, boot_id="")
    log = log_of(await killed(world))
    assert [offset for offset, _ in read_all(log)] == list(range(35))
    epochs = zip(log.leader_epochs.epochs, log.leader_epochs.start_offsets, strict=True)
    assert list(epochs) == [(4, 0), (6, 15)]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
async def test_a_stop_that_could_not_write_the_leader_epochs_is_not_a_clean_one(error: int) -> None:
    world = fresh_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    fill(log, 0, 3, epoch=LeaderEpoch(4))
    disk_of(world).fail_next("open", error, under="/data/orders-0/leader-epoch-checkpoint.tmp")
    await manager.close()
    assert not world.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
    assert log_of(await killed(world)).leader_epochs.epochs == [4]


async def test_leader_epochs_are_written_by_a_stop_though_the_active_segment_is_empty() -> None:
    world = fresh_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    fill(log, 0, 3, epoch=LeaderEpoch(4))
    log.roll()
    await log.flush()
    log.leader_epochs.assign(LeaderEpoch(5), Offset(3))
    await manager.close()
    assert b"5 3" in world.disk.read("/data/orders-0/leader-epoch-checkpoint")


# log-start-offset-checkpoint, recovery-point-offset-checkpoint, replication-offset-checkpoint


async def used_topic(world: World) -> LogManager:
    """A topic with an entry in every checkpoint."""
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=1000))
    fill(log, 0, 100, epoch=LeaderEpoch(0))
    log.high_watermark = Offset(100)
    log.advance_log_start(Offset(50))
    await log.flush()
    for file in manager.checkpoints.of_directory(log.directory):
        assert await file.write()
    return manager


@pytest.mark.parametrize("is_kill", [True, False])
async def test_a_new_topic_inherits_nothing_from_a_deleted_one_of_its_name(
    *, is_kill: bool
) -> None:
    world = fresh_world()
    manager = await used_topic(world)
    manager.delete(PARTITION)
    log = manager.create(PARTITION, OTHER_ID, topic())
    fill(log, 0, 30, epoch=LeaderEpoch(0))
    if is_kill:
        manager = await killed(world)
        assert len(read_all(log_of(manager))) == 30
    else:
        await log.flush()
        manager = await without_power(world)
        assert len(read_all(log_of(manager))) == 30
    log = log_of(manager)
    assert (log.log_start_offset, log.high_watermark) == (0, 0)
    assert log.topic_id == OTHER_ID
    # Recovery has read it from the start, and says so.
    assert log.recovery_point == 0


async def test_entries_that_a_dead_process_left_go_before_the_name_is_used_again() -> None:
    world = fresh_world()
    manager = await used_topic(world)
    manager.delete(PARTITION)
    manager = await killed(world)
    assert manager.get(PARTITION) is None
    fill(manager.create(PARTITION, OTHER_ID, topic()), 0, 30, epoch=LeaderEpoch(0))
    log = log_of(await killed(world))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 30, 0)


async def test_a_checkpoint_under_way_does_not_bring_a_deleted_topic_back() -> None:
    """Its offsets were taken before the deletion, and it is named after the new log was made."""
    world = fresh_world()
    manager = await used_topic(world)
    log_of(manager).advance_log_start(Offset(60))
    writing = asyncio.ensure_future(manager.checkpoint_log_start_offsets())
    await asyncio.sleep(0)
    manager.delete(PARTITION)
    fill(manager.create(PARTITION, OTHER_ID, topic()), 0, 70, epoch=LeaderEpoch(0))
    await writing
    assert b"orders" not in world.disk.read(LOG_STARTS)
    log = log_of(await killed(world))
    assert (log.log_start_offset, log.log_end_offset) == (0, 70)


async def test_offsets_that_fall_with_a_truncation_fall_on_disk_before_it_returns() -> None:
    world = fresh_world()
    manager = await used_topic(world)
    log = log_of(manager)
    log.truncate_fully_and_start_at(Offset(10))
    assert b"orders 0" not in world.disk.read(LOG_STARTS)
    assert b"orders 0 10\n" in world.disk.read(HIGH_WATERMARKS)
    fill(log, 10, 60, epoch=LeaderEpoch(1))
    log = log_of(await killed(world))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (10, 70, 10)


async def test_a_log_start_beyond_the_end_is_not_believed_after_a_kill() -> None:
    world = fresh_world()
    manager = await started(world)
    fill(manager.create(PARTITION, TOPIC_ID, topic()), 0, 30, epoch=LeaderEpoch(0))
    world.disk.replace(LOG_STARTS, b"0\n1\norders 0 50\n")
    log = log_of(await killed(world))
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)


async def test_a_log_that_once_was_compacted_keeps_its_holes_after_a_kill() -> None:
    """Without a recovery point, as a full disk may leave it, every segment is read again."""
    world = fresh_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    fill(log, 0, 5, epoch=LeaderEpoch(0))
    log.roll()
    copy(log, 9, 3, epoch=0, leader_epoch=LeaderEpoch(0))
    disk = disk_of(world)
    disk.rename(
        "/data/orders-0/00000000000000000005.log", "/data/orders-0/00000000000000000009.log"
    )
    log = log_of(await killed(world))
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    assert log.log_end_offset == 12


# producer snapshots


async def test_a_snapshot_that_a_power_cut_brought_back_is_not_used() -> None:
    world = fresh_world()
    disk = disk_of(world)
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    for number in range(5):
        log.append(
            make_batch(numbered(number), producer=(9, 0, number)), leader_epoch=LeaderEpoch(0)
        )
    await manager.close()
    snapshot = "/data/orders-0/00000000000000000005.snapshot"
    content = world.disk.read(snapshot)
    log = log_of(await started(world))
    log.truncate_to(Offset(2))
    for number in range(2, 8):
        log.append(make_batch(numbered(number)), leader_epoch=LeaderEpoch(1))
    await log.flush()
    disk.replace(snapshot, content)
    manager = await without_power(world)
    assert not disk.exists(snapshot)
    log = log_of(manager)
    log.truncate_to(Offset(6))
    assert log.producers.entries[ProducerId(9)].last_sequence == 1


# partition.metadata


async def test_the_topic_id_is_durable_before_the_first_record_is() -> None:
    """Else records of a deleted topic, brought back, would pass for those of a new one."""
    for seed in range(30):
        world = replace(make_world(SimulatedDisk(Random(seed))), boot_id="first boot")
        manager = await started(world)
        log = manager.create(PARTITION, TOPIC_ID, topic())
        fill(log, 0, 3, epoch=LeaderEpoch(0))
        await log.flush()
        log = log_of(await without_power(world))
        assert log.topic_id == TOPIC_ID
        assert log.log_end_offset == 3


async def test_a_log_that_is_replaced_before_its_offset_is_collected() -> None:
    """The offsets of many logs are collected in several turns; the list of logs is older."""
    world = fresh_world()
    manager = await started(world)
    names = [TopicPartition("wide", index) for index in range(2_000)]
    for name in names:
        manager.create(name, TOPIC_ID, topic())
    last = manager.logs[names[-1]]
    fill(last, 0, 5, epoch=LeaderEpoch(1))
    last.high_watermark = Offset(5)
    ticks = count(start=int(time.perf_counter() * 1000) + 1000)
    with measured_by(lambda: next(ticks) / 1000):
        writing = asyncio.create_task(
            manager.checkpoints.write_high_watermarks(manager.directories[0])
        )
        for _ in range(2):
            await asyncio.sleep(0)
        assert not writing.done()
        manager.delete(names[-1])
        manager.create(names[-1], OTHER_ID, topic())
        await writing
    on_disk = decode_offsets(world.disk.read(HIGH_WATERMARKS))
    assert len(on_disk) >= len(names) - 1
    assert on_disk.get(names[-1], 0) == 0
