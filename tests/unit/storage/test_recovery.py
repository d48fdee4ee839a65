"""Starting again: after a clean stop, after a crash, with torn tails and damaged files."""

import asyncio
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.storage import LogManager, StorageError
from odradek.storage.file_names import CLEAN_SHUTDOWN, DELETED_SUFFIX, SNAPSHOT_SUFFIX
from odradek.storage.log import Log
from odradek.storage.text_files import parse_properties
from odradek.world import MemoryDisk, World
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append_when_ready,
    clock_of,
    make_batch,
    make_manager,
    make_world,
    numbered,
    read_all,
)

LOG = "/data/orders-0/00000000000000000000.log"


async def started(world: World, **properties: str) -> LogManager:
    manager = make_manager(world, **properties)
    await manager.load()
    return manager


def kill(world: World) -> World:
    """What a process that starts after kill -9 finds: everything written, no locks."""
    assert isinstance(world.disk, MemoryDisk)
    world.disk.locks.clear()
    return world


def log_of(manager: LogManager) -> Log:
    log = manager.get(PARTITION)
    assert log is not None
    return log


async def filled(world: World, *, batches: int = 30, **properties: str) -> LogManager:
    manager = await started(world, **properties)
    log = manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)
    for number in range(batches):
        batch = make_batch(
            numbered(number * 2, 2), timestamp_ms=NOW_MS + number, producer=(9, 0, number * 2)
        )
        log.append(batch, leader_epoch=LeaderEpoch(number // 10))
    return manager


class Small(TypedDict):
    log_segment_bytes: str
    log_index_interval_bytes: str


SMALL = Small(log_segment_bytes="700", log_index_interval_bytes="150")


@pytest.mark.parametrize("clean", [True, False])
async def test_everything_is_there_after_a_restart(clean: bool) -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    before = log_of(manager)
    records, producers = read_all(before), before.producers.encode()
    epochs, segments = before.leader_epochs.encode(), len(before.segments)
    youngest, found = before.max_timestamp(), before.offset_for_timestamp(NOW_MS + 17)
    if clean:
        await manager.close()
    else:
        kill(world)
    manager = await started(world, **SMALL)
    assert manager.had_clean_shutdown is clean
    assert not world.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
    log = log_of(manager)
    assert log.topic_id == TOPIC_ID
    assert read_all(log) == records
    assert log.producers.encode() == producers
    assert log.leader_epochs.encode() == epochs
    assert len(log.segments) == segments
    assert (log.max_timestamp(), log.offset_for_timestamp(NOW_MS + 17)) == (youngest, found)
    assert verify_log(world.disk, log.path, deep=True).problems == []
    again = make_batch(numbered(58, 2), timestamp_ms=NOW_MS + 29, producer=(9, 0, 58))
    assert log.append(again, leader_epoch=LeaderEpoch(3)).duplicate
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(3)).base_offset == 60


async def test_an_empty_log_and_an_emptied_one_start_where_they_stood() -> None:
    world = make_world()
    manager = await started(world)
    settings = manager.settings.topic_defaults
    manager.create(PARTITION, TOPIC_ID, settings)
    manager.create(TopicPartition("orders", 1), TOPIC_ID, settings).truncate_fully_and_start_at(
        Offset(40)
    )
    manager = await started(kill(world))
    assert log_of(manager).log_end_offset == 0
    other = manager.logs[TopicPartition("orders", 1)]
    assert (other.log_start_offset, other.log_end_offset) == (40, 40)
    await manager.close()
    manager = await started(world)
    assert manager.logs[TopicPartition("orders", 1)].log_end_offset == 40


async def test_a_tail_torn_at_any_byte_is_cut() -> None:
    world = make_world()
    log = log_of(await filled(world, batches=4))
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    whole = disk.read(LOG)
    ends = [0]
    for _ in range(4):
        ends.append(ends[-1] + len(whole) // 4)
    assert log.size_bytes == len(whole) == ends[-1]
    for size in range(len(whole) + 1):
        disk.files[LOG] = bytearray(whole[:size])
        recovered = log_of(await started(kill(world)))
        kept = sum(1 for end in ends[1:] if end <= size)
        assert recovered.log_end_offset == 2 * kept
        assert recovered.size_bytes == disk.size(LOG) == ends[kept]
        assert recovered.append(make_batch(), leader_epoch=LeaderEpoch(5)).base_offset == 2 * kept


async def test_a_damaged_byte_ends_the_log_before_its_batch() -> None:
    world = make_world()
    await filled(world, batches=3)
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    whole = disk.read(LOG)
    size = len(whole) // 3
    for position in range(size, 2 * size):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        disk.files[LOG] = damaged
        recovered = log_of(await started(kill(world)))
        # The leader epoch is outside the checksum: it shows as too low for what follows, or not
        # at all. Any other damage shows.
        if size + 12 <= position < size + 16:
            assert recovered.log_end_offset in (4, 6)
        elif not size <= position < size + 8:
            assert recovered.log_end_offset == 2


async def test_damage_in_a_segment_takes_the_later_segments_with_it() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    victim = log_of(manager).segments[2]
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    disk.files[victim.file.path][300] ^= 1
    recovered = log_of(await started(kill(world), **SMALL))
    assert recovered.segments[-1].base_offset == victim.base_offset
    assert victim.base_offset < recovered.log_end_offset < victim.base_offset + 14
    assert verify_log(disk, recovered.path).problems == []
    last = recovered.log_end_offset
    batch = make_batch(numbered(last), producer=(9, 0, last))
    assert recovered.append(batch, leader_epoch=LeaderEpoch(3)).base_offset == last


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("lost", ["tail", "file"])
async def test_a_log_ends_at_a_hole_between_segments(lost: str, policy: str) -> None:
    """A power cut may take what was written first and leave what was written later. That the topic
    may be compacted is no excuse: nothing above the recovery point was."""
    world = make_world()
    manager = await filled(world, **SMALL, log_cleanup_policy=policy)
    victim = log_of(manager).segments[1]
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    if lost == "file":
        disk.remove(victim.file.path)
        expected = victim.base_offset
    else:
        last = list(victim.headers(0))[-1]
        del disk.files[victim.file.path][last[0] :]
        expected = last[1].base_offset
    recovered = log_of(await started(kill(world), **SMALL, log_cleanup_policy=policy))
    assert recovered.log_end_offset == expected
    assert [offset for offset, _ in read_all(recovered)] == list(range(expected))


@pytest.mark.parametrize("known_by", ["recovery point", "cleaner's checkpoint", "nothing"])
async def test_gaps_that_compaction_left_are_no_hole(known_by: str) -> None:
    """Kafka's cleaner does not wait for the recovery point, but notes how far it came. A file that
    was lost says nothing, so the log is not judged by its gaps."""
    world = make_world()
    manager = await filled(world, **SMALL, log_cleanup_policy="compact")
    removed = log_of(manager).segments[1]
    after = log_of(manager).segments[2].base_offset
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    disk.remove(removed.file.path)
    entry = f"0\n1\norders 0 {after}\n".encode()
    if known_by == "recovery point":
        disk.replace("/data/recovery-point-offset-checkpoint", entry)
    elif known_by == "cleaner's checkpoint":
        disk.replace("/data/cleaner-offset-checkpoint", entry)
    else:
        disk.remove("/data/recovery-point-offset-checkpoint")
    recovered = log_of(await started(kill(world), **SMALL, log_cleanup_policy="compact"))
    assert recovered.log_end_offset == 60
    assert removed.base_offset not in [segment.base_offset for segment in recovered.segments]


async def test_a_cut_end_that_a_power_cut_brought_back_is_cut_again() -> None:
    """A truncation is not synced by itself; behind it a new leader's records may be on disk."""
    world = make_world()
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    manager = await filled(world, batches=10)
    log = log_of(manager)
    before = bytes(disk.files[LOG])
    log.truncate_to(Offset(14))
    log.roll()
    log.append(make_batch(numbered(70, 2)), leader_epoch=LeaderEpoch(7))
    disk.files[LOG][:] = before
    recovered = log_of(await started(kill(world)))
    assert recovered.log_end_offset == 14
    assert recovered.leader_epochs.latest == 0
    assert [offset for offset, _ in read_all(recovered)] == list(range(14))
    assert verify_log(disk, recovered.path).problems == []


@pytest.mark.parametrize("written", [4, 6, 8])
async def test_a_removed_segment_that_a_power_cut_brought_back_is_removed_again(
    written: int,
) -> None:
    """A new leader's records end before, at or behind where it begins."""
    world = make_world()
    disk = world.disk
    manager = await filled(world, batches=10)
    log = log_of(manager)
    log.roll()
    log.append(make_batch(numbered(20, 2), producer=(9, 0, 20)), leader_epoch=LeaderEpoch(0))
    removed = log.active_segment.file.path
    log.truncate_to(Offset(14))
    for number in range(written // 2):
        log.append(make_batch(numbered(70 + 2 * number, 2)), leader_epoch=LeaderEpoch(7))
    disk.rename(removed + DELETED_SUFFIX, removed)
    recovered = log_of(await started(kill(world)))
    assert recovered.log_end_offset == min(14 + written, 20)
    assert recovered.leader_epochs.latest == 7
    assert recovered.leader_epochs.epoch_for(Offset(recovered.log_end_offset - 1)) == 7
    assert verify_log(disk, recovered.path).problems == []


async def test_what_a_truncation_removed_is_gone_for_good_once_more_is_flushed() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    log = log_of(manager)
    await log.flush()
    assert not log._entries.has_changed
    log.truncate_to(Offset(14))
    assert log._entries.has_changed


async def test_an_emptied_log_keeps_its_offset() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    log = log_of(manager)
    log.high_watermark = Offset(60)
    clock_of(world).advance(30 * 86_400_000)
    log.delete_old_segments(Offset(60))
    assert (log.log_start_offset, log.size_bytes) == (60, 0)
    manager = await started(kill(world), **SMALL)
    assert (log_of(manager).log_start_offset, log_of(manager).log_end_offset) == (60, 60)
    await manager.close()
    log = log_of(await started(world, **SMALL))
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(5)).base_offset == 60


async def test_segments_below_the_recovery_point_are_not_read() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    await log_of(manager).flush()
    await manager.checkpoints.write_recovery_points(manager.directories[0])
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    # Damage that only a reader would notice.
    disk.files[log_of(manager).segments[0].file.path][80] ^= 1
    recovered = log_of(await started(kill(world), **SMALL))
    assert recovered.log_end_offset == 60
    assert recovered.recovery_point == recovered.active_segment.base_offset > 0


async def test_a_segment_that_was_closed_after_its_flush_is_read_again() -> None:
    """Its records were durable when the recovery point was written, its indexes were not."""
    world = make_world()
    manager = await filled(world, log_index_interval_bytes="150")
    log = log_of(manager)
    await log.flush()
    log.roll()
    await manager.checkpoints.write_recovery_points(manager.directories[0])
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    index = disk.files[LOG.replace(".log", ".index")]
    index[:] = bytes(len(index))
    recovered = log_of(await started(kill(world), log_index_interval_bytes="150"))
    assert len(recovered.segments[0].index) > 5
    assert verify_log(disk, recovered.path).problems == []


async def test_missing_and_stale_indexes_are_rebuilt() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    first, second = log_of(manager).segments[:2]
    records = read_all(log_of(manager))
    await manager.close()
    disk = world.disk
    disk.remove(f"{first.file.path.removesuffix('.log')}.index")
    disk.remove(f"{second.file.path.removesuffix('.log')}.timeindex")
    disk.replace("/data/orders-0/00000000000000000777.index", b"orphan")
    recovered = log_of(await started(world, **SMALL))
    assert read_all(recovered) == records
    assert verify_log(disk, recovered.path).problems == []
    assert not disk.exists("/data/orders-0/00000000000000000777.index")


async def test_a_damaged_snapshot_is_rebuilt_from_the_batches() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    producers = log_of(manager).producers.encode()
    await manager.close()
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    for path in [path for path in disk.files if path.endswith(SNAPSHOT_SUFFIX)]:
        disk.files[path][-1] ^= 1
    assert log_of(await started(world, **SMALL)).producers.encode() == producers


async def test_an_interrupted_compaction_is_finished_or_undone() -> None:
    world = make_world()
    manager = await filled(world, **SMALL)
    first, second = log_of(manager).segments[:2]
    await manager.close()
    disk = world.disk
    base = f"/data/orders-0/{first.base_offset:020d}"
    merged = disk.read(first.file.path) + disk.read(second.file.path)
    disk.replace(f"{base}.log.swap", merged)
    disk.replace(f"{base}.index.swap", b"")
    disk.replace(f"{base}.timeindex.swap", b"")
    disk.replace("/data/orders-0/00000000000000000014.log.cleaned", b"half")
    disk.replace("/data/orders-0/00000000000000000014.log.deleted", b"old")
    log = log_of(await started(world, **SMALL))
    assert len(read_all(log)) == 60
    assert second.base_offset not in [segment.base_offset for segment in log.segments]
    assert not [name for name in disk.list_directory(log.path) if name.endswith(("ed", "swap"))]


async def test_a_log_start_beyond_the_end_empties_the_log() -> None:
    world = make_world()
    await filled(world, batches=3)
    world.disk.replace("/data/log-start-offset-checkpoint", b"0\n1\norders 0 50\n")
    log = log_of(await started(kill(world)))
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(0)).base_offset == 50


async def test_the_log_start_survives() -> None:
    world = make_world()
    manager = await filled(world)
    log_of(manager).advance_log_start(Offset(7))
    await manager.close()
    assert log_of(await started(world)).log_start_offset == 7
    manager = await started(kill(world))
    assert log_of(manager).log_start_offset == 7
    assert read_all(log_of(manager))[0][0] == 7


async def test_a_large_batch_is_checked_in_pieces() -> None:
    world = make_world()
    manager = await started(world, message_max_bytes="9000000")
    log = manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)
    for size in (3_000_000, 10, 2_000_000):
        await append_when_ready(log, make_batch([bytes(size)]))
    assert log_of(await started(kill(world))).log_end_offset == 3
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    disk.files[LOG][3_500_000] ^= 1
    assert log_of(await started(kill(world))).log_end_offset == 2


async def test_one_directory_has_one_broker() -> None:
    world = make_world()
    await started(world)
    with pytest.raises(StorageError, match="in use by another process"):
        await started(world)


async def test_a_directory_of_another_cluster_is_refused() -> None:
    world = make_world()
    world.disk.make_directories("/data")
    world.disk.replace("/data/meta.properties", b"version=1\ncluster.id=other\nnode.id=1\n")
    with pytest.raises(StorageError, match=r"cluster\.id=other"):
        await started(world)


async def test_a_directory_of_another_kafka_broker_is_refused() -> None:
    """Version 0 of `meta.properties`, as Kafka wrote it with ZooKeeper, has `broker.id` only."""
    world = make_world()
    world.disk.make_directories("/data")
    content = b"version=0\nbroker.id=7\n"
    world.disk.replace("/data/meta.properties", content)
    with pytest.raises(StorageError, match=r"broker\.id=7.*this broker has broker\.id=1"):
        await started(world)
    assert world.disk.read("/data/meta.properties") == content


async def test_a_directory_of_this_kafka_broker_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    await filled(world, batches=1)
    world = kill(world)
    cluster_id = parse_properties(world.disk.read("/data/meta.properties"))["cluster.id"]
    world.disk.replace(
        "/data/meta.properties", f"version=0\nbroker.id=1\ncluster.id={cluster_id}\n".encode()
    )
    assert log_of(await started(world)).log_end_offset == 2
    assert parse_properties(world.disk.read("/data/meta.properties"))["node.id"] == "1"
    assert "does not name their owner" not in caplog.text


async def test_logs_without_an_owner_are_taken_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    await filled(world, batches=1)
    world = kill(world)
    assert "does not name their owner" not in caplog.text
    world.disk.remove("/data/meta.properties")
    assert log_of(await started(world)).log_end_offset == 2
    assert "/data: the directory has logs, but meta.properties does not name" in caplog.text
    assert "no cluster.id, no node.id" in caplog.text


@given(st.binary(min_size=1, max_size=300), st.integers(0, 3))
def test_junk_behind_the_last_batch_is_cut(junk: bytes, batches: int) -> None:
    async def scenario() -> None:
        world = make_world()
        await filled(world, batches=batches)
        disk = world.disk
        assert isinstance(disk, MemoryDisk)
        disk.files.setdefault(LOG, bytearray()).extend(junk)
        log = log_of(await started(kill(world)))
        assert log.log_end_offset == 2 * batches
        assert len(read_all(log)) == 2 * batches

    asyncio.run(scenario())
