"""The cost of the log alone, without network and broker: appends, reads, start-up.

    python -m benchmarks.micro_log [--partitions 3000] [--directory DIR]

Times are microseconds of processor time a call, user and system, so a busy machine does not
disturb them. The plain system call is measured beside each, to separate our cost from the kernel's.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable

from odradek.config import BrokerSettings, TopicSettings
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import (
    FIRST_OFFSET,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from odradek.storage import Log, LogDirectory, LogManager, create_log
from odradek.world import World

ROUNDS = 5
EPOCH = LeaderEpoch(0)
TOPIC_ID = TopicId(bytes(range(16)))


def make_batch(
    records: int, value_bytes: int, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    builder = BatchBuilder()
    now_ms = time.time_ns() // 1_000_000
    for _ in range(records):
        builder.append(None, bytes(value_bytes), (), now_ms)
    return builder.build(0, *producer)


def measure(name: str, calls: int, work: Callable[[int], None]) -> float:
    """Measures the best of several rounds, which other processes disturbed least."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work(calls)
        best = min(best, time.process_time() - start)
    microseconds = best / calls * 1e6
    print(f"{name:<44}{microseconds:>8.2f} µs")
    return microseconds


class LogBench:
    def __init__(self, root: str) -> None:
        self._root = root
        self._world = World()
        self._directory = LogDirectory(root, self._world.disk)
        self._partition = 0

    def log(self, **settings: object) -> Log:
        self._partition += 1
        partition = TopicPartition("bench", self._partition)
        made = TopicSettings(settings)
        return create_log(partition, TOPIC_ID, self._directory, made, self._world)

    def bare_write(self, name: str, batch: bytes, calls: int) -> float:
        descriptor = os.open(f"{self._root}/bare", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        prefix, rest = batch[:16], memoryview(batch)[16:]

        def work(count: int) -> None:
            os.ftruncate(descriptor, 0)
            position = 0
            for _ in range(count):
                position += os.pwritev(descriptor, (prefix, rest), position)

        try:
            return measure(name, calls, work)
        finally:
            os.close(descriptor)

    def appends(self, name: str, batch: bytes, calls: int) -> None:
        bare = self.bare_write(f"pwritev alone, {name}", batch, calls)
        view = memoryview(batch)

        def work(count: int) -> None:
            log = self.log()
            for _ in range(count):
                log.append(view, leader_epoch=EPOCH)

        total = measure(f"append, {name}", calls, work)
        print(f"{'  of which ours':<44}{total - bare:>8.2f} µs")

    def idempotent_appends(self, calls: int) -> None:
        batches = [memoryview(make_batch(1, 100, (7, 0, number))) for number in range(calls)]

        def work(_: int) -> None:
            log = self.log()
            for batch in batches:
                log.append(batch, leader_epoch=EPOCH)

        measure("append, 1 record of an idempotent producer", calls, work)

    def tail_reads(self, calls: int) -> None:
        log = self.log()
        batch = memoryview(make_batch(1, 100))
        for _ in range(1000):
            log.append(batch, leader_epoch=EPOCH)

        def work(count: int) -> None:
            end = log.log_end_offset
            last = Offset(end - 1)
            for _ in range(count):
                found = log.read(last, 1 << 20, end_offset=end)
                if found is not None:
                    found.release()

        def work_at_end(count: int) -> None:
            end = log.log_end_offset
            for _ in range(count):
                log.read(end, 1 << 20, end_offset=end)

        measure("read, last batch", calls, work)
        measure("read, at the end: nothing there", calls, work_at_end)

    def sequential_reads(self, max_bytes: int) -> None:
        log = self.log(segment_bytes=16 << 20)
        batch = memoryview(make_batch(10, 100))
        for _ in range(50_000):
            log.append(batch, leader_epoch=EPOCH)
        calls = 0

        def work(_: int) -> None:
            nonlocal calls
            calls, offset = 0, FIRST_OFFSET
            while (found := log.read(offset, max_bytes)) is not None:
                offset += len(found) // len(batch) * 10
                found.release()
                calls += 1

        work(0)
        measure(
            f"read, on through {len(log.segments)} segments, {max_bytes >> 10} KiB", calls, work
        )

    def random_reads(self, calls: int) -> None:
        log = self.log(segment_bytes=16 << 20)
        batch = memoryview(make_batch(10, 100))
        for _ in range(50_000):
            log.append(batch, leader_epoch=EPOCH)
        offsets = [Offset(number * 7919 % 400_000) for number in range(calls)]

        def work(_: int) -> None:
            for offset in offsets:
                found = log.read(offset, 1 << 16)
                if found is not None:
                    found.release()

        measure("read, anywhere, 64 KiB", calls, work)


async def start_up(root: str, partitions: int) -> None:
    """Creating, closing and loading logs with ten small batches each."""
    world = World()
    settings = BrokerSettings.from_properties({"log.dirs": root})

    def manager() -> LogManager:
        return LogManager(
            settings, world, cluster_id="bench", node_id=BrokerId(1), max_open_files=1 << 20
        )

    async def timed(name: str, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        if asyncio.iscoroutine(done):
            await done
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{name:<44}{wall:>8.2f} s  ({cpu:.2f} s processor)")

    logs = manager()
    await logs.load()
    names = [TopicPartition(f"topic-{number // 3}", number % 3) for number in range(partitions)]

    def create() -> None:
        for name in names:
            logs.create(name, TOPIC_ID, settings.topic_defaults)

    batch = make_batch(1, 100)

    def append() -> None:
        for _ in range(10):
            for log in logs.logs.values():
                log.append(batch, leader_epoch=EPOCH)

    await timed(f"create {partitions} logs", create)
    await timed("append 10 batches to each", append)
    await timed("close", logs.close)
    logs = manager()
    await timed("load after a clean close", logs.load)
    logs.abandon()
    logs = manager()
    await timed("load after a kill", logs.load)
    logs.abandon()
    world.workers.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    root = tempfile.mkdtemp(prefix="odradek-micro-log-", dir=arguments.directory)
    try:
        bench = LogBench(root)
        bench.appends("1 record of 100 B", make_batch(1, 100), 20_000)
        bench.appends("16 KB", make_batch(150, 100), 5_000)
        bench.idempotent_appends(20_000)
        bench.tail_reads(50_000)
        for max_bytes in (16 << 10, 1 << 20):
            bench.sequential_reads(max_bytes)
        bench.random_reads(5_000)
        asyncio.run(start_up(f"{root}/logs", arguments.partitions))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
