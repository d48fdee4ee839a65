"""A partition as a coordinator's log: what a replay gives, or how it fails."""

import asyncio
import errno
from itertools import count
from random import Random
from typing import Never

import pytest

from odradek.metadata import ClusterImage, PartitionImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import HEADER_SIZE
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from odradek.replication.partition import Partition
from odradek.replication.partition_log import PartitionLog
from odradek.replication.pending_append import TransactionMarker
from odradek.statemachine.machine import (
    LogRecord,
    Marker,
    Outcome,
    ProducerIdentity,
    Written,
    no_effects,
)
from odradek.statemachine.runner import Runner
from odradek.storage import CorruptLog, LogDirectoryFailed
from odradek.world import SystemClock
from odradek.world.timeslice import SLICE_S, measured_by
from simulation.disk import SimulatedDisk
from tests.unit.storage.storage_world import PARTITION, TOPIC_ID, make_log, make_world


def written_log(disk: SimulatedDisk) -> PartitionLog:
    partition = Partition(PARTITION, TOPIC_ID, make_log(make_world(disk)), BrokerId(1))
    led = PartitionImage(0, (BrokerId(1),), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 0, 0)
    partition.lead(led, 0.0)
    log = PartitionLog(partition, lambda: True)
    log.append([LogRecord(b"key", b"value")], None, 0)
    return log


async def replayed(log: PartitionLog) -> int:
    return sum([len(entries) async for entries in log.replay(log.end_offset)])


async def test_a_partition_that_was_resigned_answers_nothing_from_memory() -> None:
    log = written_log(SimulatedDisk(Random(1)))
    assert log.refusal() is None
    log._partition.resign(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    refusal = log.refusal()
    assert isinstance(refusal, ApiError)
    assert refusal.code is ErrorCode.NOT_COORDINATOR


async def test_a_failed_read_takes_the_directory_offline() -> None:
    disk = SimulatedDisk(Random(1))
    log = written_log(disk)
    assert await replayed(log) == 1
    disk.fail_next("read", errno.EIO)
    with pytest.raises(LogDirectoryFailed):
        await replayed(log)


async def test_a_damaged_batch_is_no_error_of_the_code() -> None:
    disk = SimulatedDisk(Random(1))
    log = written_log(disk)
    directory = f"/data/{PARTITION.topic}-{PARTITION.partition}"
    (name,) = [name for name in disk.list_directory(directory) if name.endswith(".log")]
    disk.open(f"{directory}/{name}").write_at(HEADER_SIZE, [b"\x7f"])
    with pytest.raises(CorruptLog):
        await replayed(log)


def append_plain(log: PartitionLog, *records: LogRecord) -> None:
    log.append(records, None, 0)


async def test_a_replay_leaves_out_what_a_later_record_replaces() -> None:
    log = written_log(SimulatedDisk(Random(1)))
    append_plain(log, LogRecord(b"a", b"1"), LogRecord(b"b", b"1"))
    append_plain(log, LogRecord(b"a", b"2"), LogRecord(b"c", b"1"), LogRecord(b"c", None))
    entries = [entry async for part in log.replay(log.end_offset) for entry in part]
    assert entries == [
        Written(LogRecord(b"key", b"value"), Offset(0)),
        Written(LogRecord(b"b", b"1"), Offset(2)),
        Written(LogRecord(b"a", b"2"), Offset(3)),
        Written(LogRecord(b"c", None), Offset(5)),
    ]


async def test_a_replay_keeps_transactions_in_their_place() -> None:
    """What a transaction wrote counts from its marker on, so nothing may move across either."""
    log = written_log(SimulatedDisk(Random(1)))
    producer = ProducerIdentity(ProducerId(7), ProducerEpoch(0))
    append_plain(log, LogRecord(b"a", b"1"))
    log.append([LogRecord(b"a", b"2"), LogRecord(b"a", b"3")], producer, 0)
    append_plain(log, LogRecord(b"a", b"4"))
    marker = TransactionMarker(producer, committed=True, coordinator_epoch=0, is_bumped=False)
    log._partition.append_marker(marker, 0)
    append_plain(log, LogRecord(b"a", b"5"))
    entries = [entry async for part in log.replay(log.end_offset) for entry in part]
    assert entries[1:] == [
        Written(LogRecord(b"a", b"1"), Offset(1)),
        Written(LogRecord(b"a", b"2"), Offset(2), producer),
        Written(LogRecord(b"a", b"3"), Offset(3), producer),
        Written(LogRecord(b"a", b"4"), Offset(4)),
        Marker(producer, committed=True),
        Written(LogRecord(b"a", b"5"), Offset(6)),
    ]


class CountingMachine:
    """Takes a millisecond for each record, by the stopwatch of the test."""

    def __init__(self) -> None:
        self.applied = 0

    def apply(self, entry: object) -> None:
        self.applied += 1

    def decide(self, command: object, caller: object, now: object) -> Outcome[None, Never]:
        return Outcome()

    def subjects_of(self, marker: object) -> tuple[()]:
        return ()

    def expire(self, key: object, now: object) -> Outcome[None, Never]:
        return Outcome()

    def after_load(self, now: object) -> Outcome[None, Never]:
        return Outcome()


async def test_loading_gives_the_others_a_turn_by_time() -> None:
    """Several partitions are loaded at once, and together they take no more than one slice."""
    logs = [written_log(SimulatedDisk(Random(1))) for _ in range(4)]
    for log in logs:
        for number in range(200):
            append_plain(log, LogRecord(b"%d" % number, b"value"))
    machines = [CountingMachine() for _ in logs]
    reads = count()
    steps_in_a_turn: list[int] = []

    async def look_on() -> None:
        before = 0
        while True:
            await asyncio.sleep(0)
            now = next(reads)
            steps_in_a_turn.append(now - before)
            before = now

    # Every question whether the slice is over costs a millisecond.
    with measured_by(lambda: next(reads) / 1000):
        onlooker = asyncio.create_task(look_on())
        await asyncio.gather(
            *(
                Runner(machine, log, SystemClock(), image=ClusterImage, perform=no_effects).load()
                for machine, log in zip(machines, logs, strict=True)
            )
        )
        onlooker.cancel()
    assert [machine.applied for machine in machines] == [201] * 4
    assert len(steps_in_a_turn) > 100
    assert max(steps_in_a_turn) <= SLICE_S * 1000 + 3 * len(logs)


async def test_logs_that_are_loaded_at_once_are_not_all_read_in_one_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = [written_log(SimulatedDisk(Random(1))) for _ in range(20)]
    for log in logs:
        append_plain(log, *(LogRecord(b"%d" % number, b"value") for number in range(600)))
    time_s = 0.0
    reads_in_a_turn = [0]
    read = PartitionLog._read

    def slow_read(
        log: PartitionLog, offset: Offset, end_offset: Offset
    ) -> tuple[bytes, int] | None:
        nonlocal time_s
        time_s += 0.6 * SLICE_S
        reads_in_a_turn[-1] += 1
        return read(log, offset, end_offset)

    async def look_on() -> None:
        while True:
            await asyncio.sleep(0)
            reads_in_a_turn.append(0)

    monkeypatch.setattr(PartitionLog, "_read", slow_read)
    with measured_by(lambda: time_s):
        onlooker = asyncio.create_task(look_on())
        time_s += 1
        assert await asyncio.gather(*map(replayed, logs)) == [601] * 20
        onlooker.cancel()
    assert sum(reads_in_a_turn) == 20
    assert max(reads_in_a_turn) <= 2
