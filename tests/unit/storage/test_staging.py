"""Large batches: written in pieces behind the end of the log, then appended."""

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar, cast

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import crc_is_valid, read_header
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import Log, LogDirectoryFull, StorageError
from odradek.storage.errors import AppendRejected
from odradek.storage.validation import CannotAppendAtOnce
from odradek.world import World
from odradek.world.disk import Buffer, File
from simulation.batch_staging import large_from
from simulation.run import run
from simulation.world import Simulation
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    InlineWorkers,
    append_when_ready,
    make_batch,
    make_log,
    make_manager,
    make_world,
    read_all,
    topic,
)

T = TypeVar("T")

PIECE = 1000
LARGE = make_batch([b"L" * 10_000])
SMALL = make_batch([b"small"])


@pytest.fixture(autouse=True)
def _small_sizes() -> Iterator[None]:
    with large_from(2000, PIECE):
        yield


class WithoutRoom:
    """A file that takes no more bytes."""

    def __init__(self, file: File) -> None:
        self._file = file

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._file.write_at(position, [memoryview(buffers[0])[:10]])
        raise OSError(errno.ENOSPC, "no room")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Interrupted(InlineWorkers):
    """Something happens after some calls."""

    def __init__(self, after: int, event: Callable[[], object]) -> None:
        super().__init__()
        self.after = after
        self.event = event

    async def run_blocking(self, call: Callable[[], T]) -> T:
        value = await super().run_blocking(call)
        if self.calls == self.after:
            self.event()
        return value

    compute = run_blocking


def log_with(after: int, event: Callable[[Log], object]) -> Log:
    world = make_world()
    log = make_log(replace(world, workers=Interrupted(after, lambda: event(log))))
    return log


def file_size(log: Log) -> int:
    return log.directory.disk.size(log.active_segment.file.path)


async def test_no_more_than_a_piece_is_written_in_a_turn() -> None:
    world = make_world()
    log = make_log(world)
    sizes: list[int] = []
    done = asyncio.ensure_future(append_when_ready(log, LARGE))
    while not done.done():
        await asyncio.sleep(0)
        if world.disk.exists(log.active_segment.file.path):
            sizes.append(file_size(log))
        assert log.log_end_offset == 0 or done.done()
    assert (await done).base_offset == 0
    steps = [after - before for before, after in pairwise(sizes)]
    assert len(sizes) > len(LARGE) // PIECE
    assert max(steps) <= PIECE + 16
    assert read_all(log) == [(0, b"L" * 10_000)]


async def test_a_large_batch_is_not_appended_at_once() -> None:
    log = make_log()
    with pytest.raises(CannotAppendAtOnce):
        log.append(LARGE, leader_epoch=LeaderEpoch(0))
    validated = await log.validate_in_steps(LARGE)
    with pytest.raises(CannotAppendAtOnce):
        log.append(LARGE, leader_epoch=LeaderEpoch(0), validated=validated)
    assert log.log_end_offset == 0


async def test_others_wait_for_a_batch_that_is_being_written_and_keep_their_order() -> None:
    log = make_log()
    batches = [LARGE, SMALL, make_batch([b"M" * 5000]), make_batch([b"second"])]
    results = await asyncio.gather(*(append_when_ready(log, batch) for batch in batches))
    offsets = [result.base_offset for result in results]
    assert sorted(offsets) == [0, 1, 2, 3]
    assert len(read_all(log)) == 4
    assert offsets[1] < offsets[3]


async def test_a_marker_does_not_wait_and_the_batch_is_written_again() -> None:
    """Three times; then the batch is written at once."""
    log = log_with(
        4, lambda log: log.append(SMALL, leader_epoch=LeaderEpoch(0), by_coordinator=True)
    )
    assert (await append_when_ready(log, LARGE)).base_offset == 1
    assert read_all(log) == [(0, b"small"), (1, b"L" * 10_000)]
    assert file_size(log) == len(SMALL) + len(LARGE)


async def test_markers_without_end_do_not_keep_a_batch_out() -> None:
    log = make_log()
    writing = asyncio.ensure_future(append_when_ready(log, LARGE))
    markers = 0
    while not writing.done():
        await asyncio.sleep(0)
        log.append(SMALL, leader_epoch=LeaderEpoch(0), by_coordinator=True)
        markers += 1
        assert markers < 100
    assert len(read_all(log)) == markers + 1


@pytest.mark.parametrize(
    "event",
    [
        lambda log: log.roll(),
        lambda log: log.truncate_to(1),
        lambda log: log.truncate_fully_and_start_at(7),
        lambda log: log.append(
            make_batch([b"from the leader"], base_offset=log.log_end_offset, leader_epoch=0),
            leader_epoch=0,
            as_follower=True,
        ),
    ],
)
async def test_what_cannot_wait_leaves_a_clean_log(event: Callable[[Log], object]) -> None:
    log = log_with(4, event)
    for _ in range(2):
        log.append(SMALL, leader_epoch=LeaderEpoch(0))
    result = await append_when_ready(log, LARGE)
    assert read_all(log)[-1] == (result.base_offset, b"L" * 10_000)
    assert file_size(log) == log.active_segment.size
    assert log.active_segment.stage is None


async def test_a_clean_stop_cuts_off_what_is_not_appended() -> None:
    world = make_world()
    manager = make_manager(world)
    log = manager.create(PARTITION, TOPIC_ID, topic())
    log.append(SMALL, leader_epoch=LeaderEpoch(0))
    writing = asyncio.ensure_future(append_when_ready(log, LARGE))
    for _ in range(6):
        await asyncio.sleep(0)
    assert file_size(log) > len(SMALL)
    await manager.close()
    assert world.disk.size("/data/orders-0/00000000000000000000.log") == len(SMALL)
    with pytest.raises(StorageError):
        await writing


async def test_a_client_that_goes_away_leaves_nothing() -> None:
    log = make_log()
    log.append(SMALL, leader_epoch=LeaderEpoch(0))
    writing = asyncio.ensure_future(append_when_ready(log, LARGE))
    for _ in range(6):
        await asyncio.sleep(0)
    assert file_size(log) > len(SMALL)
    writing.cancel()
    await asyncio.wait([writing])
    assert file_size(log) == len(SMALL)
    assert (await append_when_ready(log, LARGE)).base_offset == 1


async def test_a_duplicate_and_a_damaged_batch_are_told_before_they_are_written() -> None:
    log = make_log()
    batch = make_batch([b"P" * 5000], producer=(7, 0, 0))
    await append_when_ready(log, batch)
    again = await append_when_ready(log, batch)
    assert again.duplicate
    assert again.base_offset == 0
    with pytest.raises(AppendRejected) as caught:
        await append_when_ready(log, batch[:-1] + b"x")
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert file_size(log) == len(batch)


async def test_a_full_disk_refuses_and_keeps_what_is_there() -> None:
    log = make_log()
    log.append(SMALL, leader_epoch=LeaderEpoch(0))
    await append_when_ready(log, make_batch([b"x" * 3000]))
    before = file_size(log)
    staged = asyncio.ensure_future(append_when_ready(log, LARGE))
    for _ in range(5):
        await asyncio.sleep(0)
    stage = log.active_segment.stage
    assert stage is not None

    stage.handle = cast("File", WithoutRoom(stage.handle))
    with pytest.raises(LogDirectoryFull):
        await staged
    assert file_size(log) == before
    assert log.log_end_offset == 2


async def test_the_brokers_time_is_put_into_a_large_batch() -> None:
    log = make_log(settings=topic(message_timestamp_type="LogAppendTime"))
    batch = make_batch([b"T" * 5000], timestamp_ms=NOW_MS - 5000)
    result = await append_when_ready(log, batch)
    assert result.append_time_ms == NOW_MS
    found = log.read(Offset(0), 1 << 20)
    assert found is not None
    raw = found.read(0, len(found))
    found.release()
    header = read_header(raw)
    assert header.max_timestamp == NOW_MS
    assert header.is_log_append_time
    assert crc_is_valid(raw, 0, header)


async def test_a_large_batch_rolls_first_where_it_does_not_fit() -> None:
    log = make_log(settings=topic(segment_bytes=12_000))
    log.append(make_batch([b"x" * 1500]), leader_epoch=LeaderEpoch(0))
    log.append(make_batch([b"x" * 1500]), leader_epoch=LeaderEpoch(0))
    assert (await append_when_ready(log, LARGE)).base_offset == 2
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_or_a_power_cut_in_between_leaves_what_was_appended(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        host = simulation.host("broker")
        random = simulation.random("test")
        appended: list[bytes] = []

        async def work(world: World) -> None:
            manager = make_manager(world)
            await manager.load(lambda _: topic())
            log = manager.get(PARTITION) or manager.create(PARTITION, TOPIC_ID, topic())
            for number in range(10):
                value = b"%d" % number + bytes(random.choice((10, 4000)))
                await append_when_ready(log, make_batch([value], timestamp_ms=world.clock.now_ms()))
                appended.append(value)

        host.start(work)
        await asyncio.sleep(random.uniform(0, 0.1))
        kills = random.random() < 0.5
        if kills:
            host.kill()
        else:
            host.power_off()

        async def look(world: World) -> None:
            manager = make_manager(world)
            await manager.load(lambda _: topic())
            log = manager.get(PARTITION)
            found = [] if log is None else [value for _, value in read_all(log)]
            assert found == appended[: len(found)]
            assert not kills or len(found) == len(appended)
            await manager.close()

        await host.start(look)

    with large_from(2000, PIECE):
        run(main, seed=seed)
