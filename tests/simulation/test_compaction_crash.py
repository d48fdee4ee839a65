"""Compaction on the simulated disk, which dies during every single operation of a pass."""

import asyncio
import logging
from collections.abc import Iterator
from random import Random

import pytest

from odradek.config import BrokerSettings
from odradek.protocol.records import (
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    decode_records,
    encode_end_transaction_marker,
    split_batches,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, ProducerId, TopicId, TopicPartition
from odradek.storage import Log, LogManager
from odradek.storage.producer_state import Verification
from odradek.world import Randomness, World
from simulation.disk import PowerCut, SimulatedDisk
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import InlineWorkers, StillClock, read_slice, run_deletions

PARTITION = TopicPartition("states", 0)
PROPERTIES = {
    "log.dirs": "/data",
    "log.cleanup.policy": "compact",
    "log.segment.bytes": "600",
    "log.index.interval.bytes": "100",
    "log.segment.delete.delay.ms": "0",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.delete.retention.ms": "0",
}
PRODUCER = 7


async def start(disk: SimulatedDisk) -> LogManager:
    world = World(StillClock(), disk, Randomness(1), InlineWorkers())
    manager = LogManager(
        BrokerSettings.from_properties(PROPERTIES), world, cluster_id="cluster", node_id=BrokerId(1)
    )
    await manager.load()
    return manager


def write(log: Log, random: Random, newest: dict[bytes, bytes], sequence: int) -> int:
    """Eight batches of five records over eight keys; some in transactions that are aborted.

    Returns where the producer's sequence goes on, however often its batches were compacted.
    """
    for _ in range(8):
        builder, written = BatchBuilder(), {}
        for _ in range(5):
            key, value = b"%d" % random.randrange(8), b"%d" % random.randrange(1 << 30)
            is_tombstone = random.random() < 0.2
            builder.append(key, None if is_tombstone else value, (), 1_000_000)
            written[key] = b"" if is_tombstone else value
        if random.random() < 0.7:
            log.append(builder.build(), leader_epoch=LeaderEpoch(0))
            newest.update(written)
            continue
        batch = builder.build(0, PRODUCER, 0, sequence, is_transactional=True)
        sequence += 5
        last_marker = log.producers.last_marker_offset(ProducerId(PRODUCER))
        log.append(batch, leader_epoch=LeaderEpoch(0), verification=Verification(last_marker))
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 0),
            producer_id=PRODUCER,
            producer_epoch=0,
            timestamp_ms=1_000_000,
        )
        log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True)
    return sequence


async def make_compactable(log: Log) -> None:
    log.roll()
    log.high_watermark = log.log_end_offset
    log.flusher.request(log.log_end_offset)
    while log.recovery_point < log.active_segment.base_offset:  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)


def newest_values(log: Log) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    aborted = list(log.aborted)
    offset = log.log_start_offset
    while data := read_slice(log, offset):
        for position, header in split_batches(data):
            offset = header.next_offset
            if header.is_control or any(
                header.is_transactional and one.first_offset <= header.base_offset < one.last_offset
                for one in aborted
            ):
                continue
            for record in decode_records(data, position):
                assert record.key is not None
                found[record.key] = record.value or b""
    return found


def without_deleted(values: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: value for key, value in values.items() if value}


async def one_life(seed: int, operations: int, *, is_power_cut: bool) -> bool:
    """A log that is compacted once and written again, compacted until it dies, and loaded."""
    disk = SimulatedDisk(Random(seed))
    if not is_power_cut:
        disk.on_power_cut = disk.drop_handles
    manager = await start(disk)
    log = manager.create(PARTITION, TopicId(bytes(range(16))), manager.settings.topic_defaults)
    newest: dict[bytes, bytes] = {}
    random = Random(seed)
    sequence = write(log, random, newest, 0)
    await make_compactable(log)
    assert await manager.cleaner.clean_one()
    run_deletions(log.directory, 1e12)
    sequence = write(log, random, newest, sequence)
    await make_compactable(log)
    await manager.checkpoints.write_high_watermarks(log.directory)
    disk.cut_power_after(operations)
    died = False
    try:
        await manager.cleaner.clean_one()
        run_deletions(log.directory, 1e12)
        disk.keep_power()
    except PowerCut:
        died = True
        disk.power_on()
    manager.abandon()
    if not died:
        disk.drop_handles()
    manager = await start(disk)
    log = manager.logs[PARTITION]
    assert without_deleted(newest_values(log)) == without_deleted(newest)
    leftovers = [
        name
        for name in disk.list_directory(log.path)
        if name.endswith((".cleaned", ".swap", ".deleted"))
    ]
    assert leftovers == []
    assert verify_log(disk, log.path, deep=True).problems == []
    # Life goes on: what was interrupted is done again.
    write(log, random, newest, sequence)
    await make_compactable(log)
    assert await manager.cleaner.clean_one()
    assert without_deleted(newest_values(log)) == without_deleted(newest)
    assert not manager.cleaner.uncleanable
    await manager.close()
    return died


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("is_power_cut", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_pass_that_dies_anywhere_loses_nothing_and_leaves_nothing(
    seed: int, *, is_power_cut: bool
) -> None:
    operations, died = 0, True
    while died:
        died = asyncio.run(one_life(seed, operations, is_power_cut=is_power_cut))
        operations += 1
    assert operations > 30
