"""A coordinator's log that cannot be read: its directory or its machine fails, not the broker."""

import errno
from random import Random

import pytest

from odradek.metadata import PartitionImage
from odradek.protocol.records import HEADER_SIZE
from odradek.protocol.types import BrokerId, LeaderEpoch
from odradek.replication.partition import Partition
from odradek.replication.partition_log import PartitionLog
from odradek.statemachine.machine import LogRecord
from odradek.storage import CorruptLog, LogDirectoryFailed
from simulation.disk import SimulatedDisk
from tests.unit.storage.storage_world import PARTITION, TOPIC_ID, make_log, make_world


def written_log(disk: SimulatedDisk) -> PartitionLog:
    partition = Partition(PARTITION, TOPIC_ID, make_log(make_world(disk)), BrokerId(1))
    led = PartitionImage(0, (1,), BrokerId(1), LeaderEpoch(0), (1,), 0, 0)
    partition.lead(led, 0.0)
    log = PartitionLog(partition, lambda: True)
    log.append([LogRecord(b"key", b"value")], None, 0)
    return log


async def replayed(log: PartitionLog) -> int:
    return sum([len(entries) async for entries in log.replay(log.end_offset)])


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
