"""What the storage tests share: batches, a clock that stands still, logs and managers on a disk."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from odradek.config import BrokerSettings, TopicSettings
from odradek.protocol.compression import Codec
from odradek.protocol.records import BatchBuilder, BatchHeader, decode_records, split_batches
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.storage import AppendResult, Log, LogDirectory, LogManager, create_log
from odradek.storage.staging import room_for
from odradek.storage.validation import CannotAppendAtOnce
from odradek.world import Disk, MemoryDisk, Randomness, World

T = TypeVar("T")

NOW_MS = 1_700_000_000_000
TOPIC_ID = TopicId(bytes(range(16)))
PARTITION = TopicPartition("orders", 0)


class StillClock:
    """Time moves when the test says so."""

    def __init__(self) -> None:
        self.time_ms = NOW_MS

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_s(self) -> float:
        return self.time_ms / 1000

    def advance(self, by_ms: int) -> None:
        self.time_ms += by_ms


class InlineWorkers:
    """Blocking calls run at once, after the loop had a turn."""

    def __init__(self) -> None:
        self.calls = 0

    async def run_blocking(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        self.calls += 1
        return call()

    compute = run_blocking

    def close(self) -> None:
        """There are no threads."""


def make_world(disk: Disk | None = None) -> World:
    return World(StillClock(), disk or MemoryDisk(), Randomness(1), InlineWorkers())


def clock_of(world: World) -> StillClock:
    assert isinstance(world.clock, StillClock)
    return world.clock


def topic(**values: object) -> TopicSettings:
    """Settings by attribute: `topic(segment_bytes=500)`."""
    return TopicSettings(values)


def make_log(
    world: World | None = None, settings: TopicSettings | None = None, root: str = "/data"
) -> Log:
    world = world or make_world()
    world.disk.make_directories(root)
    directory = LogDirectory(root, world.disk)
    return create_log(PARTITION, TOPIC_ID, directory, settings or topic(), world)


def make_manager(world: World, *roots: str, **properties: str) -> LogManager:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    settings = BrokerSettings.from_properties({"log.dirs": ",".join(roots or ("/data",)), **named})
    return LogManager(settings, world, cluster_id="cluster", node_id=BrokerId(1))


def make_batch(
    values: Iterable[bytes | None] = (b"value",),
    *,
    key: bytes | None = b"key",
    timestamp_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> bytes:
    """`producer` is id, epoch and first sequence."""
    builder = BatchBuilder(codec)
    for value in values:
        builder.append(key, value, (), timestamp_ms)
    return builder.build(
        base_offset, *producer, leader_epoch=leader_epoch, is_transactional=is_transactional
    )


async def append_when_ready(log: Log, batch: bytes) -> AppendResult:
    """As the produce handler does it: in pieces if the batch is large."""
    try:
        return log.append(batch, leader_epoch=LeaderEpoch(0))
    except CannotAppendAtOnce:
        validated = await log.validate_in_steps(batch)
    async with room_for(log, validated.records):
        return log.append(batch, leader_epoch=LeaderEpoch(0), validated=validated)


def numbered(first: int, count: int = 1, padding: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(padding) for number in range(first, first + count)]


def run_deletions(directory: LogDirectory, now_s: float) -> None:
    while due := directory.take_due_deletions(now_s):
        for delete in due:
            with suppress(FileNotFoundError):  # As housekeeping does: two files may share a name.
                delete()


def read_slice(log: Log, offset: Offset, max_bytes: int = 1 << 20, **limits: Offset) -> bytes:
    found = log.read(offset, max_bytes, end_offset=limits.get("end_offset"))
    if found is None:
        return b""
    try:
        return found.read(0, len(found))
    finally:
        found.release()


def headers_at(log: Log, offset: Offset, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    return [header for _, header in split_batches(read_slice(log, offset, max_bytes))]


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record from the log start on."""
    records: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while data := read_slice(log, offset, max_bytes):
        for position, header in split_batches(data):
            records += [
                (record.offset, record.value)
                for record in decode_records(data, position)
                if record.offset >= log.log_start_offset
            ]
            assert header.next_offset > offset
            offset = header.next_offset
    assert offset == log.log_end_offset
    return records
