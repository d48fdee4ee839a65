"""Who makes key indexes, when, and what happens where it cannot."""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import Log, StorageError
from odradek.storage.key_index.index import KeyIndexLimits
from odradek.storage.key_index.key_indexes import KeyIndexes
from odradek.storage.key_index.run import KEYS_SUFFIX
from odradek.storage.key_index.search import BytesRead
from odradek.world import MemoryDisk, World
from odradek.world.disk import Buffer
from odradek.world.memory_disk import MemoryFile
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    clock_of,
    make_log,
    make_manager,
    make_world,
    topic,
)

LIMITS = KeyIndexLimits(min_bytes=1000, job_bytes=20_000, job_entries=1000)
SETTINGS = topic(segment_bytes=30_000, index_interval_bytes=500)


def fill(log: Log, count: int, keys: int = 500, first: int = 0) -> None:
    for start in range(first, first + count, 10):
        builder = BatchBuilder()
        for number in range(start, start + 10):
            builder.append(b"key %d" % (number % keys), b"value %d" % number, (), NOW_MS)
        log.append(builder.build(), leader_epoch=LeaderEpoch(0))
    log.high_watermark = log.log_end_offset


async def value_of(indexes: KeyIndexes, log: Log, key: bytes) -> tuple[bytes | None, int]:
    index, read = indexes.of(log), BytesRead()
    found = await index.look_up(key, end_offset=log.high_watermark, committed_only=False, read=read)
    indexes.looked_up(index)
    return (None if found is None else found.record.value), read.total


@asynccontextmanager
async def keeping(world: World) -> AsyncIterator[KeyIndexes]:
    indexes = KeyIndexes(world, LIMITS)
    task = asyncio.get_running_loop().create_task(indexes.run())
    try:
        yield indexes
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_indexed(indexes: KeyIndexes, log: Log) -> None:
    async with asyncio.timeout(20):
        while indexes.looked_up(indexes.of(log)) >= LIMITS.min_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0)


def runs_on(disk: MemoryDisk, log: Log) -> list[str]:
    return [name for name in disk.list_directory(log.path) if name.endswith(KEYS_SUFFIX)]


async def test_the_first_look_up_reads_the_log_and_later_ones_an_index() -> None:
    world = make_world(disk := MemoryDisk())
    log = make_log(world, SETTINGS)
    fill(log, 5000)
    async with keeping(world) as indexes:
        assert runs_on(disk, log) == []
        value, scanned = await value_of(indexes, log, b"nobody")
        assert value is None
        assert scanned == log.size_bytes
        await until_indexed(indexes, log)
        for number in (0, 17, 499):
            value, read = await value_of(indexes, log, b"key %d" % number)
            assert value == b"value %d" % (4500 + number)
            assert read < 20_000
        assert runs_on(disk, log)


async def test_what_is_appended_is_indexed_without_being_asked() -> None:
    world = make_world()
    log = make_log(world, SETTINGS)
    async with keeping(world) as indexes:
        await value_of(indexes, log, b"x")
        fill(log, 2000)
        async with asyncio.timeout(20):
            while indexes.of(log).unindexed_bytes() >= LIMITS.min_bytes:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await value_of(indexes, log, b"key 3"))[0] == b"value 1503"


async def test_runs_are_few_however_many_there_were() -> None:
    world = make_world(disk := MemoryDisk())
    log = make_log(world, SETTINGS)
    async with keeping(world) as indexes:
        for first in range(0, 20_000, 1000):
            fill(log, 1000, first=first)
            await until_indexed(indexes, log)
        assert len(runs_on(disk, log)) <= 10
        assert (await value_of(indexes, log, b"key 7"))[0] == b"value 19507"


async def test_a_restart_finds_the_index_again() -> None:
    world = make_world()
    manager = make_manager(world, "/data")
    await manager.load(lambda _: SETTINGS)
    log = manager.create(PARTITION, bytes(range(16)), SETTINGS)  # type: ignore[arg-type]
    fill(log, 3000)
    async with keeping(world) as indexes:
        await until_indexed(indexes, log)
    await manager.close()
    again = make_manager(world, "/data")
    await again.load(lambda _: SETTINGS)
    log = again.logs[PARTITION]
    log.high_watermark = log.log_end_offset
    value, read = await value_of(KeyIndexes(world, LIMITS), log, b"key 5")
    assert value == b"value 2505"
    assert read < 20_000
    again.abandon()


class FullDisk(MemoryDisk):
    """No room for an index, whoever else finds some."""

    is_full = True

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        file = super().open(path, create=create, writable=writable)
        return _FullFile(file, self) if ".keys" in path else file


class _FullFile(MemoryFile):
    __slots__ = ("_disk",)

    def __init__(self, file: MemoryFile, disk: FullDisk) -> None:
        super().__init__(file.path, file.contents)
        self._disk = disk

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        super().write_at(position, buffers)


async def test_a_full_disk_costs_the_index_and_nothing_else() -> None:
    world = make_world(disk := FullDisk())
    log = make_log(world, SETTINGS)
    fill(log, 2000)
    async with keeping(world) as indexes:
        for _ in range(50):
            assert (await value_of(indexes, log, b"key 9"))[0] == b"value 1509"
            await asyncio.sleep(0)
        assert log.is_usable
        assert runs_on(disk, log) == []
        fill(log, 10, first=2000)
        disk.is_full = False
        clock_of(world).advance(600_000)
        await until_indexed(indexes, log)
        assert (await value_of(indexes, log, b"key 9"))[0] == b"value 2009"
        assert runs_on(disk, log)


async def test_a_log_that_is_gone_is_refused_and_forgotten() -> None:
    world = make_world()
    log = make_log(world, SETTINGS)
    fill(log, 100)
    async with keeping(world) as indexes:
        await value_of(indexes, log, b"key 1")
        log.mark_deleted()
        with pytest.raises(StorageError):
            await value_of(indexes, log, b"key 1")


async def test_retention_takes_runs_with_the_segments() -> None:
    world = make_world(disk := MemoryDisk())
    log = make_log(world, SETTINGS)
    fill(log, 3000, keys=3000)
    async with keeping(world) as indexes:
        await until_indexed(indexes, log)
        log.advance_log_start(Offset(2995))
        assert (await value_of(indexes, log, b"key 10"))[0] is None
        assert (await value_of(indexes, log, b"key 2994"))[0] is None
        assert (await value_of(indexes, log, b"key 2995"))[0] == b"value 2995"
        log.advance_log_start(Offset(3000))
        assert (await value_of(indexes, log, b"key 2995"))[0] is None
        assert runs_on(disk, log) == []
