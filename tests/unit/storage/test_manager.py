"""The logs of a broker: where they go, how they are found, configured, deleted and described."""

import asyncio

import pytest

from odradek.protocol.types import NO_TOPIC_ID, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.storage import LogClosed, LogManager, StorageError
from odradek.storage.descriptors import Descriptors, SegmentFile
from odradek.storage.housekeeping import Housekeeping
from odradek.storage.text_files import CleanStop
from odradek.world import MemoryDisk, World
from simulation import run
from simulation.world import Simulation
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_batch,
    make_manager,
    make_world,
    read_all,
    run_deletions,
    topic,
)


async def started(world: World, *roots: str, **properties: str) -> LogManager:
    manager = make_manager(world, *roots, **properties)
    await manager.load()
    return manager


async def test_partitions_spread_over_the_directories() -> None:
    world = make_world()
    manager = await started(world, "/a", "/b", "/c")
    for partition in range(7):
        manager.create(TopicPartition("t", partition), TOPIC_ID, topic())
    assert [len(directory.logs) for directory in manager.directories] == [3, 2, 2]
    await manager.close()
    manager = await started(world, "/a", "/b", "/c")
    assert manager.had_clean_shutdown
    assert sorted(manager.logs) == [("t", partition) for partition in range(7)]
    identifiers = {directory.directory_id for directory in manager.directories}
    assert len(identifiers) == 3


async def test_a_first_start_does_not_speak_of_recovery(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = make_world()

    def said() -> list[str]:
        lines = [one.getMessage() for one in caplog.records if "; logs: " in one.getMessage()]
        caplog.clear()
        return lines

    manager = await started(world, "/a")
    (line,) = said()
    assert line.startswith("/a: no logs yet; logs: 0, ")
    manager.create(PARTITION, TOPIC_ID, topic())
    await manager.close()
    await started(world, "/a")
    (line,) = said()
    assert line.startswith("/a: loaded after a clean stop; logs: 1, ")


async def test_creating_twice_gives_the_same_log_unless_the_topic_is_another() -> None:
    manager = await started(make_world())
    log = manager.create(PARTITION, TOPIC_ID, topic())
    assert manager.create(PARTITION, TOPIC_ID, topic()) is log
    assert manager.get(PARTITION) is log
    with pytest.raises(StorageError, match="earlier topic"):
        manager.create(PARTITION, TopicId(b"x" * 16), topic())


async def test_a_log_without_an_id_gets_one() -> None:
    world = make_world()
    manager = await started(world)
    manager.create(PARTITION, NO_TOPIC_ID, topic())
    log = manager.create(PARTITION, TOPIC_ID, topic())
    assert log.topic_id == TOPIC_ID
    await manager.close()
    manager = await started(world)
    assert manager.logs[PARTITION].topic_id == TOPIC_ID


async def test_a_deleted_log_is_gone_and_its_files_follow() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(file_delete_delay_ms=1000))
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    reading = log.read(Offset(0), 1000)
    assert reading is not None
    manager.delete(PARTITION)
    manager.delete(PARTITION)
    assert manager.get(PARTITION) is None
    with pytest.raises(LogClosed):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    again = manager.create(PARTITION, TopicId(b"x" * 16), topic())
    assert read_all(again) == []
    names = [name for name in world.disk.list_directory("/data") if name.endswith("-delete")]
    assert len(names) == 1
    run_deletions(manager.directories[0], world.clock.monotonic_s())
    assert world.disk.exists(f"/data/{names[0]}")
    clock_of(world).advance(1000)
    run_deletions(manager.directories[0], world.clock.monotonic_s())
    assert not world.disk.exists(f"/data/{names[0]}")
    assert len(reading.read(0, 1000)) == len(reading)
    reading.release()


async def test_deleting_what_was_removed_by_hand_is_no_disk_error() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    world.disk.remove_tree(log.path)
    manager.delete(PARTITION)
    assert manager.offline_directories == []


async def test_an_interrupted_deletion_is_finished_after_a_restart() -> None:
    world = make_world()
    manager = await started(world)
    manager.create(PARTITION, TOPIC_ID, topic())
    manager.delete(PARTITION)
    await manager.close()
    manager = await started(world)
    assert manager.logs == {}
    await Housekeeping(manager, world).delete_files()
    assert not any(name.endswith("-delete") for name in world.disk.list_directory("/data"))


async def test_new_settings_hold_from_the_next_append() -> None:
    manager = await started(make_world())
    logs = [manager.create(TopicPartition("t", n), TOPIC_ID, topic()) for n in range(2)]
    manager.configure("t", topic(segment_bytes=200))
    manager.configure("unknown", topic())
    for log in logs:
        for _ in range(3):
            log.append(make_batch([bytes(100)]), leader_epoch=LeaderEpoch(0))
        assert len(log.segments) == 3


async def test_settings_of_topics_are_asked_for_when_logs_load() -> None:
    world = make_world()
    manager = await started(world)
    manager.create(PARTITION, TOPIC_ID, topic())
    await manager.close()
    manager = make_manager(world)
    await manager.load(lambda name: topic(segment_bytes=len(name)))
    assert manager.logs[PARTITION].settings.segment_bytes == len("orders")


async def test_no_usable_directory_is_one_clear_error() -> None:
    world = make_world()
    world.disk.replace("/data", b"a file")
    with pytest.raises(StorageError, match="log directory /data is offline"):
        await started(world)


async def test_one_unusable_directory_leaves_the_others() -> None:
    world = make_world()
    world.disk.replace("/bad", b"a file")
    manager = await started(world, "/bad", "/good")
    assert [directory.path for directory in manager.offline_directories] == ["/bad"]
    assert manager.create(PARTITION, TOPIC_ID, topic()).directory.path == "/good"
    assert not manager.had_clean_shutdown


async def test_a_partition_in_two_directories_is_refused() -> None:
    world = make_world()
    world.disk.make_directories("/a/orders-0")
    world.disk.make_directories("/b/orders-0")
    with pytest.raises(StorageError, match="remove the one"):
        await started(world, "/a", "/b")


async def test_high_watermarks_and_the_broker_epoch_are_kept() -> None:
    world = make_world()
    manager = await started(world)
    manager.begin_run(12)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    log.high_watermark = Offset(3)
    await manager.close()
    assert world.disk.read("/data/replication-offset-checkpoint") == b"0\n1\norders 0 3\n"
    manager = await started(world)
    assert manager.last_clean_stop == CleanStop(12)
    assert manager.logs[PARTITION].high_watermark == 3


async def test_housekeeping_applies_retention_and_forgets_producers() -> None:
    world = make_world()
    manager = await started(world, producer_id_expiration_ms="1000")
    log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_ms=1000))
    for sequence in range(3):
        log.append(make_batch([bytes(100)], producer=(1, 0, sequence)), leader_epoch=LeaderEpoch(0))
    log.high_watermark = Offset(2)
    clock_of(world).advance(2000)
    housekeeping = Housekeeping(manager, world)
    await housekeeping.apply_retention()
    assert log.log_start_offset == 2
    await housekeeping.expire_producers()
    assert log.producers.entries == {}


async def test_index_entries_reach_their_file_within_a_round() -> None:
    world = make_world()
    manager = await started(world)
    log = manager.create(PARTITION, TOPIC_ID, topic(index_interval_bytes=0))
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await Housekeeping(manager, world).write_indexes()
    assert world.disk.size(f"{log.path}/00000000000000000000.index") == 4 * 8


def test_housekeeping_runs_by_itself() -> None:
    """In virtual time: checkpoints after a minute, retention after half a minute and each five."""

    async def program(world: World) -> LogManager:
        manager = await started(world)
        log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=200, retention_ms=60_000))
        for _ in range(3):
            batch = make_batch([bytes(100)], timestamp_ms=world.clock.now_ms())
            log.append(batch, leader_epoch=LeaderEpoch(0))
        log.high_watermark = Offset(3)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(61)
        checkpoint = world.disk.read("/data/recovery-point-offset-checkpoint")
        assert checkpoint == b"0\n1\norders 0 2\n"
        assert log.log_start_offset == 0
        await asyncio.sleep(270)
        assert log.log_start_offset == 3
        running.cancel()
        await asyncio.wait([running])
        return manager

    async def main(simulation: Simulation) -> None:
        await simulation.host("broker").start(program)

    run(main, 1)


def test_descriptors_are_few_and_pinned_ones_stay() -> None:
    disk = MemoryDisk()
    descriptors = Descriptors(disk, limit=4)
    files = [SegmentFile(f"/{number}", descriptors) for number in range(20)]
    first = files[0].pin(create=True)
    first.write_at(0, [b"first"])
    for file in files[1:]:
        file.pin(create=True)
        file.unpin()
        assert descriptors.open_files <= 4
    assert files[0].handle is first
    files[0].unpin()
    for file in files:
        file.pin()
        file.unpin()
    assert sum(file.handle is not None for file in files) == descriptors.open_files <= 4
    files[0].pin()
    files[0].retire()
    assert files[0].handle is not None
    files[0].unpin()
    assert files[0].handle is None
