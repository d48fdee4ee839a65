"""A real process on a real disk, killed while it appends: what it said it had written is there."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.config import BrokerSettings
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from odradek.storage import LogManager
from odradek.world import World
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import PARTITION, TOPIC_ID, make_batch, numbered, read_all

ROOT = Path(__file__).resolve().parents[3]
OTHER = TopicPartition("orders", 1)


def make_manager(directory: str) -> LogManager:
    settings = BrokerSettings.from_properties(
        {"log.dirs": directory, "log.segment.bytes": "20000", "log.index.interval.bytes": "500"}
    )
    return LogManager(settings, World(), cluster_id="cluster", node_id=BrokerId(1))


async def append_until_killed(directory: str) -> None:
    """Says the end offset of a log after every append: from then on it must survive."""
    manager = make_manager(directory)
    await manager.load()
    logs = [
        manager.create(partition, TOPIC_ID, manager.settings.topic_defaults)
        for partition in (PARTITION, OTHER)
    ]
    while True:
        for number, log in enumerate(logs):
            end = log.log_end_offset
            log.append(make_batch(numbered(end, 3)), leader_epoch=LeaderEpoch(0))
            os.write(1, b"%d %d\n" % (number, log.log_end_offset))
        await asyncio.sleep(0)


@pytest.mark.parametrize("lines", [1, 100, 3000])
def test_a_kill_loses_nothing(tmp_path: Path, lines: int) -> None:
    directory = str(tmp_path)
    acknowledged = [0, 0]
    for _ in range(2):
        code = f"from {__name__} import *; asyncio.run(append_until_killed({directory!r}))"
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout is not None
        for _ in range(lines):
            number, end = process.stdout.readline().split()
            acknowledged[int(number)] = int(end)
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().splitlines(keepends=True):
            if line.endswith(b"\n"):
                number, end = line.split()
                acknowledged[int(number)] = int(end)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        asyncio.run(check(directory, acknowledged))


async def check(directory: str, acknowledged: list[int]) -> None:
    manager = make_manager(directory)
    await manager.load()
    assert not manager.had_clean_shutdown
    for partition, end in zip((PARTITION, OTHER), acknowledged, strict=True):
        log = manager.get(partition)
        if log is None:
            assert end == 0
            continue
        assert log.log_end_offset >= end
        assert verify_log(World().disk, log.path, deep=True).problems == []
        records = read_all(log, 5000)
        assert records == list(enumerate(numbered(0, log.log_end_offset)))
    manager.abandon()
