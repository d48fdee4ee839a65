"""Every class of error of the operating system, in every place.

A passing shortage refuses the operation and no more, a full disk refuses records, and a broken disk
takes its own directory offline while the others go on.
"""

import asyncio
import errno
from random import Random

import pytest

from odradek.protocol.records import ControlType
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.storage import LogManager, StorageError
from odradek.storage.disk_errors import Answer, answer_to
from odradek.storage.errors import LogDirectoryFailed, LogDirectoryFull, ResourceShortage
from odradek.storage.file_names import CLEAN_SHUTDOWN
from odradek.storage.flusher import Flusher
from odradek.storage.housekeeping import Housekeeping
from odradek.world import World
from simulation.disk import SimulatedDisk
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_batch,
    make_manager,
    make_world,
    read_all,
    topic,
)
from tests.unit.storage.test_transactions import VERIFIED, end, send

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
BROKEN = (errno.EIO, errno.EROFS, errno.ENXIO, errno.ESTALE, errno.EACCES)
ALL = (*SHORTAGES, *NO_ROOM, *BROKEN)

OTHER = TopicPartition("orders", 1)
_TRANSACTION_INDEX = "00000000000000000000.txnindex"


def expected(error: int) -> type[StorageError]:
    if error in SHORTAGES:
        return ResourceShortage
    return LogDirectoryFull if error in NO_ROOM else LogDirectoryFailed


class Place:
    """Two directories with a log each; the disk of the first one fails."""

    def __init__(self, manager: LogManager, world: World) -> None:
        self.manager = manager
        self.world = world
        self.log = manager.create(PARTITION, TOPIC_ID, topic())
        self.other = manager.create(OTHER, TOPIC_ID, topic())
        assert self.log.directory is not self.other.directory
        self.housekeeping = Housekeeping(manager, world)

    async def restart(self) -> None:
        await self.manager.close()
        self.manager = make_manager(self.world, "/one", "/two")
        await self.manager.load()
        log, other = self.manager.get(PARTITION), self.manager.get(OTHER)
        assert log is not None
        assert other is not None
        self.log, self.other = log, other
        self.housekeeping = Housekeeping(self.manager, self.world)

    @property
    def disk(self) -> SimulatedDisk:
        assert isinstance(self.world.disk, SimulatedDisk)
        return self.world.disk

    def fail(self, operation: str, error: int, suffix: str = "", times: int = 1) -> None:
        path = f"{self.log.path}/{suffix}" if suffix else self.log.directory.path
        self.disk.fail_next(operation, error, under=path, times=times)

    async def check_after(self, error: int, end_offset: int) -> None:
        """Whoever is not offline goes on at once, or when there is room."""
        self.disk.heal()
        self.other.append(make_batch(), leader_epoch=LeaderEpoch(0))
        assert self.other.log_end_offset == 2
        if error in BROKEN:
            assert not self.log.is_usable
            return
        await self.housekeeping.make_room()
        assert self.log.log_end_offset == end_offset
        self.log.append(make_batch(), leader_epoch=LeaderEpoch(0))
        assert [offset for offset, _ in read_all(self.log)] == list(range(end_offset + 1))


async def place() -> Place:
    world = make_world(SimulatedDisk(Random(1)))
    manager = make_manager(world, "/one", "/two")
    await manager.load()
    found = Place(manager, world)
    for log in (found.log, found.other):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    return found


@pytest.mark.parametrize("error", ALL)
def test_each_class_has_one_answer(error: int) -> None:
    answer = Answer.REFUSE if error in SHORTAGES else Answer.OFFLINE
    answer = Answer.FULL if error in NO_ROOM else answer
    assert answer_to(OSError(error, "")) is answer
    assert answer_to(OSError(error, ""), is_halfway=True) is Answer.OFFLINE


@pytest.mark.parametrize("error", ALL)
async def test_an_append_that_fails_leaves_the_log_as_it_was(error: int) -> None:
    found = await place()
    found.fail("write", error)
    with pytest.raises(expected(error)):
        found.log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await found.check_after(error, 1)


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize("is_follower", [False, True])
async def test_an_append_whose_index_cannot_be_read_leaves_the_log_as_it_was(
    error: int, is_follower: bool
) -> None:
    """After a restart the index is read when the first entry is added. The batch was in the segment
    by then and not in the log, so the next one was refused (the seed 20000731 of `cluster`)."""
    found = await place()
    found.log.append(make_batch([bytes(5000)]), leader_epoch=LeaderEpoch(0))
    await found.restart()
    found.fail("read", error, "00000000000000000000.index")
    end_offset = 2

    def append_many() -> None:
        nonlocal end_offset
        for _ in range(10):
            base_offset, leader_epoch = (end_offset, 0) if is_follower else (0, -1)
            batch = make_batch([bytes(1000)], base_offset=base_offset, leader_epoch=leader_epoch)
            found.log.append(batch, leader_epoch=LeaderEpoch(0), as_follower=is_follower)
            end_offset += 1

    with pytest.raises(expected(error)):
        append_many()
    await found.check_after(error, end_offset)


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize(
    ("operation", "suffix"),
    [
        ("open", "00000000000000000000.index"),
        ("write", "00000000000000000000.timeindex"),
        ("open", "00000000000000000001.snapshot"),
        ("open", "00000000000000000001.log"),
    ],
)
async def test_a_roll_that_fails_leaves_the_old_segment_active(
    error: int, operation: str, suffix: str
) -> None:
    found = await place()
    found.fail(operation, error, suffix)
    with pytest.raises(expected(error)):
        found.log.roll()
    await found.check_after(error, 1)
    if error not in BROKEN:
        found.log.roll()
        assert len(found.log.segments) == 2


@pytest.mark.parametrize("error", ALL)
async def test_a_read_that_fails_can_be_tried_again(error: int) -> None:
    found = await place()
    log = found.log
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
        log.roll()
    await log.flush()
    log.segments[0].file.close()
    # With no descriptor left, idle files are closed, and the file is opened once more.
    found.fail("open", error, times=2)
    with pytest.raises(expected(error)):
        log.read(Offset(0), 1000)
    await found.check_after(error, 6)


@pytest.mark.parametrize("error", ALL)
async def test_a_search_by_time_that_fails_is_a_storage_error(error: int) -> None:
    found = await place()
    log = found.log
    log.roll()
    for segment in log.segments:
        segment.indexes.drop_indexes()
        segment.max_timestamp = -1
    found.fail("open", error)
    found.fail("read", error)
    with pytest.raises(expected(error)):
        log.offset_for_timestamp(0)
    await found.check_after(error, 1)


@pytest.mark.parametrize("error", ALL)
async def test_retention_that_cannot_read_ends_nothing_but_itself(error: int) -> None:
    """It reads the time index of a closed segment to learn how old its records are."""
    found = await place()
    log = found.log
    log.high_watermark = found.other.high_watermark = Offset(1)
    log.roll()
    log.segments[0].indexes.drop_indexes()
    log.segments[0].max_timestamp = -1
    found.fail("open", error, times=3)
    await found.housekeeping.apply_retention()
    await found.check_after(error, 1)
    if error not in BROKEN:
        clock_of(found.world).advance(30 * 86_400_000)
        log.high_watermark = Offset(2)
        await found.housekeeping.apply_retention()
        assert log.log_start_offset == 2


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
async def test_a_checkpoint_that_fails_is_written_later(error: int, name: str) -> None:
    found = await place()
    found.log.high_watermark = Offset(1)
    found.log.advance_log_start(Offset(1))
    path = f"{found.log.directory.path}/{name}-offset-checkpoint"
    found.disk.fail_next("open", error, under=f"{path}.next")
    await found.housekeeping.write_checkpoints()
    await found.manager.checkpoint_log_start_offsets()
    found.disk.heal()
    if error in BROKEN:
        assert not found.log.is_usable
        return
    await found.housekeeping.make_room()
    await found.housekeeping.write_checkpoints()
    await found.manager.checkpoint_log_start_offsets()
    assert b"orders 0" in found.disk.read(path)
    assert found.log.takes_appends


@pytest.mark.parametrize("error", ALL)
async def test_a_log_that_cannot_be_made_can_be_made_later(error: int) -> None:
    found = await place()
    where = TopicPartition("late", 0)
    found.manager.prefer_directory(where, found.log.directory)
    found.disk.fail_next("open", error, under=f"{found.log.directory.path}/late-0")
    with pytest.raises(expected(error)):
        found.manager.create(where, TOPIC_ID, topic())
    found.disk.heal()
    log = found.manager.create(where, TOPIC_ID, topic())
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    assert (log.directory is found.other.directory) is (error not in SHORTAGES)


@pytest.mark.parametrize("error", ALL)
async def test_a_failed_sync_takes_the_directory_offline_whatever_the_reason(error: int) -> None:
    found = await place()
    found.fail("sync", error)
    with pytest.raises(LogDirectoryFailed):
        await found.log.flush()
    assert found.other.is_usable


@pytest.mark.parametrize("error", SHORTAGES)
async def test_a_truncation_is_refused_before_it_changes_anything(error: int) -> None:
    found = await place()
    for _ in range(3):
        found.log.append(make_batch(), leader_epoch=LeaderEpoch(0))
        found.log.roll()
    for times in (1, 2):
        found.fail("open", error, times=times)
        with pytest.raises(ResourceShortage):
            found.log.truncate_to(Offset(1))
        found.disk.heal()
        assert found.log.log_end_offset == 4
    found.log.truncate_to(Offset(1))
    await found.check_after(error, 1)


@pytest.mark.parametrize("error", [*SHORTAGES, *NO_ROOM])
async def test_an_abort_marker_is_in_the_log_though_its_index_entry_has_to_wait(
    error: int,
) -> None:
    found = await place()
    log = found.log
    send(log, 7, 0, VERIFIED)
    found.fail("open", error, _TRANSACTION_INDEX)
    end(log, 7, ControlType.ABORT)
    assert log.log_end_offset == 3
    found.disk.heal()
    await found.housekeeping.make_room()
    assert not found.disk.exists(f"{log.path}/{_TRANSACTION_INDEX}")
    log.roll()
    assert found.disk.size(f"{log.path}/{_TRANSACTION_INDEX}") == 34
    await found.check_after(error, 3)


@pytest.mark.parametrize("error", SHORTAGES)
async def test_deletions_that_fail_are_tried_again(error: int) -> None:
    found = await place()
    found.manager.delete(PARTITION)
    clock_of(found.world).advance(120_000)
    found.disk.fail_next("remove", error, under="/")
    await found.housekeeping.delete_files()
    assert any("-delete" in name for name in found.disk.list_directory("/one"))
    clock_of(found.world).advance(60_000)
    await found.housekeeping.delete_files()
    assert not any("-delete" in name for name in found.disk.list_directory("/one"))


async def test_a_log_that_cannot_be_closed_is_recovered_though_others_close_after_it() -> None:
    world = make_world()
    manager = make_manager(world)
    await manager.load()
    logs = [manager.create(name, TOPIC_ID, topic()) for name in (PARTITION, OTHER)]
    for log in logs:
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    has_failed = asyncio.Event()

    async def close_later() -> bool:
        await has_failed.wait()
        return True

    async def fail_for_want_of_descriptors() -> bool:
        has_failed.set()
        return False

    closing = {logs[0].flusher: close_later, logs[1].flusher: fail_for_want_of_descriptors}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Flusher, "close", lambda flusher: closing[flusher]())
        await manager.close()
    assert manager.directories[0].must_recover
    assert not world.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
