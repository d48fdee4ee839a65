"""The broker's side of compaction: workers that die, disks that are full, limits, figures."""

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest

from odradek.protocol.types import Offset
from odradek.storage import Log, LogManager
from odradek.storage.compaction.job import Job
from odradek.storage.compaction.rewriting import compact as work_of
from odradek.storage.housekeeping import Housekeeping
from odradek.world import Disk, MemoryDisk, Randomness, World
from odradek.world.clock import Clock
from odradek.world.processes import (
    InlineWorker,
    Message,
    Work,
    Worker,
    WorkerDied,
    WorkFailed,
)
from simulation.disk import SimulatedDisk
from tests.unit.storage.compaction.test_compaction import make_log, put, records, settle, unfinished
from tests.unit.storage.storage_world import InlineWorkers, StillClock, clock_of, make_world

CHECKPOINT = "/data/cleaner-offset-checkpoint"


class StumblingWorker:
    """Does what it is asked, after it has failed as often as it was told to."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._inline = InlineWorker(disk, clock)
        self.failures: list[Exception] = []
        self.runs = 0
        self.ended = asyncio.Event()

    async def run(
        self, work: Work, argument: Message, on_message: Callable[[Message], None]
    ) -> Message:
        self.runs += 1
        if self.failures:
            steps = work(self._inline._disk, self._inline._clock, argument)
            for _ in range(3):
                next(steps)
            raise self.failures.pop(0)
        return await self._inline.run(work, argument, on_message)

    async def end(self) -> None:
        self.ended.set()


class OneWorker:
    def __init__(self) -> None:
        self.made: StumblingWorker | None = None

    def worker(self, disk: Disk, clock: Clock) -> Worker:
        self.made = StumblingWorker(disk, clock)
        return self.made


async def make_dirty(**properties: str) -> tuple[LogManager, Log, StumblingWorker, World]:
    processes = OneWorker()
    world = World(StillClock(), MemoryDisk(), Randomness(1), InlineWorkers(), processes)
    manager, log = await make_log(world, **properties)
    for number in range(20):
        put(log, (b"a", b"%d" % number + b"x" * 60))
    await settle(log)
    assert processes.made is not None
    return manager, log, processes.made, world


async def test_a_worker_that_dies_is_tried_again_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager, log, worker, world = await make_dirty()
    worker.failures = [WorkerDied("killed by signal 9") for _ in range(3)]
    for rest_ms in (1000, 2000, 4000):
        assert await manager.cleaner.clean_one()
        assert unfinished(log) == []
        assert not await manager.cleaner.clean_one()
        clock_of(world).advance(rest_ms - 1)
        assert not await manager.cleaner.clean_one()
        clock_of(world).advance(1)
    assert worker.runs == 3
    assert "killed by signal 9. Trying again in 4 s" in caplog.text
    assert len(records(log)) == 20
    assert await manager.cleaner.clean_one()
    assert [value[:2] for _, _, value in records(log) if value] == [b"19"]


async def test_a_full_disk_is_no_reason_to_take_it_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager, log, worker, world = await make_dirty()
    worker.failures = [WorkFailed("OSError", "no space left on device", errno.ENOSPC)]
    assert await manager.cleaner.clean_one()
    assert log.directory.is_online
    assert not manager.cleaner.uncleanable
    assert "the disk is full" in caplog.text
    clock_of(world).advance(1000)
    assert await manager.cleaner.clean_one()
    assert len(records(log)) == 1


async def test_no_pass_begins_where_there_is_no_room() -> None:
    manager, log, worker, _ = await make_dirty()
    log.directory.run_out_of_room(OSError(errno.ENOSPC, "no space left on device"))
    assert not await manager.cleaner.clean_one()
    assert worker.runs == 0
    manager.find_room()
    assert log.takes_appends
    assert await manager.cleaner.clean_one()
    assert len(records(log)) == 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
async def test_a_checkpoint_that_says_too_much_and_cannot_be_written_goes(error: int) -> None:
    disk = SimulatedDisk(Random(1))
    manager, log = await make_log(make_world(disk))
    for number in range(4):
        put(log, (b"%d" % number, b"x"))
    await settle(log)
    assert await manager.cleaner.clean_one()
    assert disk.read(CHECKPOINT) == b"0\n1\norders 0 4\n"
    disk.fail_next("write", error, under=f"{CHECKPOINT}.tmp")
    log.truncate_to(Offset(2))
    assert log.is_usable
    assert not disk.exists(CHECKPOINT)


async def test_a_pass_waits_for_a_recovery_point_that_cannot_be_written() -> None:
    """Without it a hole that a power cut makes could not be told from the gaps of the pass; and
    without a back-off the cleaner would try again at once."""
    disk = SimulatedDisk(Random(1))
    world = make_world(disk)
    manager, log = await make_log(world)
    put(log, (b"a", b"1"), (b"a", b"2"))
    await settle(log)
    disk.fail_next("write", errno.EMFILE, under="/data/recovery-point-offset-checkpoint.next")
    assert await manager.cleaner.clean_one()
    assert log.takes_appends
    assert len(records(log)) == 2
    assert not await manager.cleaner.clean_one(), "it does not wait"
    clock_of(world).advance(60_000)
    assert await manager.cleaner.clean_one()
    assert len(records(log)) == 1


async def test_a_checkpoint_that_finds_no_room_is_written_when_there_is_some() -> None:
    disk = SimulatedDisk(Random(1))
    world = make_world(disk)
    manager, log = await make_log(world)
    put(log, (b"a", b"1"), (b"a", b"2"))
    await settle(log)
    disk.fail_next("write", errno.ENOSPC, under=f"{CHECKPOINT}.next")
    assert await manager.cleaner.clean_one()
    assert log.is_usable
    assert not log.takes_appends
    assert not disk.exists(CHECKPOINT)
    await Housekeeping(manager, world).write_checkpoints()
    assert disk.read(CHECKPOINT) == b"0\n1\norders 0 2\n"


async def test_an_unexpected_fault_sets_the_log_aside_and_not_the_broker() -> None:
    manager, log, worker, _ = await make_dirty()
    worker.failures = [WorkFailed("KeyError", "'x'")]
    assert await manager.cleaner.clean_one()
    assert manager.cleaner.uncleanable == {log: "KeyError: 'x'"}
    assert not await manager.cleaner.clean_one()


async def test_files_that_went_away_end_the_pass_and_no_more() -> None:
    manager, log, worker, world = await make_dirty()
    worker.failures = [WorkFailed("FileNotFoundError", "no such file", errno.ENOENT)]
    assert await manager.cleaner.clean_one()
    assert not await manager.cleaner.clean_one()
    clock_of(world).advance(1000)
    assert await manager.cleaner.clean_one()
    assert len(records(log)) == 1


async def test_the_worker_is_let_go_when_there_is_nothing_to_do() -> None:
    manager, log, worker, _ = await make_dirty(log_cleaner_backoff_ms="1")
    running = asyncio.ensure_future(manager.cleaner.run())
    await worker.ended.wait()
    assert worker.runs == 1
    assert len(records(log)) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("setting", ["log_cleaner_enable", "log_cleaner_threads"])
async def test_the_cleaner_can_be_switched_off(setting: str) -> None:
    value = "false" if setting.endswith("enable") else "0"
    manager, log, worker, _ = await make_dirty(**{setting: value, "log_cleaner_backoff_ms": "1"})
    running = asyncio.ensure_future(manager.cleaner.run())
    await worker.ended.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert worker.runs == 0
    assert len(records(log)) == 20


async def test_a_limit_of_bytes_a_second_pauses_the_worker() -> None:
    _, log, _, world = await make_dirty()
    segments = log.segments[:-1]
    job = Job(
        directory=log.path,
        segments=[(segment.base_offset, segment.size) for segment in segments],
        end_offset=log.active_segment.base_offset,
        first_dirty_offset=Offset(0),
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=100,
        key_map_bytes=1 << 20,
        io_buffer_bytes=1,
        max_bytes_per_second=1000.0,
    )
    steps = work_of(world.disk, world.clock, job.as_message())
    paused_s = 0.0
    for message in steps:
        pause_s = message.get("pause_s", 0.0)
        assert isinstance(pause_s, float)
        paused_s += pause_s
        clock_of(world).advance(round(pause_s * 1000))
    read = 2 * sum(segment.size for segment in segments)
    assert read / 1000 <= paused_s < read / 1000 * 1.2


async def test_figures_of_the_last_pass() -> None:
    manager, log, _, _ = await make_dirty()
    size = log.size_bytes
    assert await manager.cleaner.clean_one()
    metrics = manager.cleaner.metrics
    assert metrics.max_dirty_percent == 100
    assert metrics.recopy_percent == pytest.approx(100 * log.size_bytes / size)
    assert metrics.passes == 1
    assert not await manager.cleaner.clean_one()
    assert metrics.max_dirty_percent == 0
    assert metrics.uncleanable == 0
