"""Look-ups by key on a large topic: how long, how many bytes, what the index takes.

    python -m benchmarks.look_up [--records 10000000] [--keys 1000000] [--look-ups 20000]

Records of 100 bytes are written in batches of 16 KiB, as producers send them unless told
otherwise. Then keys are looked up at random over one connection, one after the other, with our
own client: first before there is an index, then with it, keys that are missing too, and while
others write. Times are the client's; bytes are what the broker says it has read from its files.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.broker_process import BrokerProcess, odradek_broker
from odradek.client import Admin, NewTopic
from odradek.client.cluster import Cluster
from odradek.client.consumer.key_lookup import LookUp, look_up
from odradek.client.settings import ConsumerSettings
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import TopicPartition

TOPIC = "table"
WHERE = TopicPartition(TOPIC, 0)
RECORD_BYTES = 100
BATCH_BYTES = 16 << 10
IN_FLIGHT = 16
PRODUCED = 5000
# The number of bytes that a broker leaves unindexed and reads at each look-up.
TAIL_BYTES = 1 << 20


class Timing(NamedTuple):
    took_ms: list[float]
    bytes_read: list[int]
    found: int

    def __str__(self) -> str:
        times, sizes = sorted(self.took_ms), sorted(self.bytes_read)
        return (
            f"p50 {_share(times, 0.5):.2f} ms, p99 {_share(times, 0.99):.2f} ms,"
            f" longest {times[-1]:.2f} ms; bytes read p50 {_share(sizes, 0.5):,.0f},"
            f" p99 {_share(sizes, 0.99):,.0f}; {self.found:,} of {len(times):,} found"
        )


def _share(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def key_of(number: int) -> bytes:
    return b"customer-%09d" % number


def batches(
    records: int, keys: int, chance: random.Random, batch_bytes: int = BATCH_BYTES
) -> Iterator[bytes]:
    written = 0
    padding = bytes(RECORD_BYTES)
    while written < records:
        builder = BatchBuilder()
        now_ms = int(time.time() * 1000)
        while written < records and (not builder.record_count or builder.size_bytes < batch_bytes):
            # Every key once, then again at random.
            number = written if written < keys else chance.randrange(keys)
            key = key_of(number)
            value = b"%d:" % written
            builder.append(key, value + padding[: RECORD_BYTES - 32 - len(value)], (), now_ms)
            written += 1
        yield builder.build()


class Bench:
    def __init__(self, broker: BrokerProcess, cluster: Cluster) -> None:
        self.broker = broker
        self.cluster = cluster
        self.process = psutil.Process(broker.process_id)

    async def produce(self, content: Iterator[bytes], per_second: float | None = None) -> None:
        leader = self.cluster.view.leader(WHERE)
        connection = await self.cluster.connection(leader, "produce")
        under_way: list[asyncio.Future[ProduceResponse]] = []
        begun_s = time.monotonic()
        for sent, batch in enumerate(content, 1):
            request = self._request(batch)
            under_way.append(connection.send(request, ProduceResponse))
            if len(under_way) >= IN_FLIGHT:
                await under_way.pop(0)
            if per_second is not None:
                await asyncio.sleep(max(0.0, begun_s + sent / per_second - time.monotonic()))
        for response in await asyncio.gather(*under_way):
            code = response.responses[0].partition_responses[0].error_code
            assert not code, code

    def _request(self, batch: bytes) -> ProduceRequest:
        data = PartitionProduceData(index=0, records=batch)
        topic_id = self.cluster.view.topics[TOPIC].id
        topic = TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[data])
        return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])

    async def time_produce(self, count: int) -> str:
        """One record after the other."""
        connection = await self.cluster.connection(self.cluster.view.leader(WHERE), "produce")
        took_ms = []
        for batch in batches(count, 1, random.Random(1), 1):
            begun_s = time.perf_counter()
            await connection.request(self._request(batch), ProduceResponse)
            took_ms.append(1000 * (time.perf_counter() - begun_s))
        took_ms.sort()
        return f"p50 {_share(took_ms, 0.5):.2f} ms, p99 {_share(took_ms, 0.99):.2f} ms"

    async def ask(self, key: bytes) -> LookUp:
        answers = await look_up(
            self.cluster, {WHERE: [key]}, read_committed=True, timeout_ms=60_000
        )
        return answers[WHERE]

    async def time(self, keys: Sequence[bytes]) -> Timing:
        took_ms, sizes, found = [], [], 0
        for key in keys:
            begun_s = time.perf_counter()
            answer = await self.ask(key)
            took_ms.append(1000 * (time.perf_counter() - begun_s))
            sizes.append(answer.bytes_read)
            found += answer.records[0] is not None
        return Timing(took_ms, sizes, found)

    async def wait_for_index(self) -> float:
        begun_s = time.monotonic()
        while (await self.ask(key_of(0))).unindexed_bytes > TAIL_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        return time.monotonic() - begun_s

    @property
    def memory_mb(self) -> float:
        return float(self.process.memory_info().rss) / 1e6


class WorkerWatch(threading.Thread):
    """Records the peak memory of the broker's child processes."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._over = threading.Event()
        self.max_mb = 0.0
        self.cpu_s = 0.0

    def run(self) -> None:
        while not self._over.wait(0.05):
            try:
                for child in self._process.children():
                    self.max_mb = max(self.max_mb, child.memory_info().rss / 1e6)
                    times = child.cpu_times()
                    self.cpu_s = max(self.cpu_s, times.user + times.system)
            except psutil.Error:
                continue

    def end(self) -> None:
        self._over.set()
        self.join()


def say(name: str, value: object) -> None:
    print(f"{name:<44}{value}", flush=True)


async def measure(broker: BrokerProcess, arguments: argparse.Namespace) -> None:
    chance = random.Random(4711)
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        # Prevents compaction, so that the topic keeps its size.
        config = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(10**9)}
        await admin.create_topics([NewTopic(TOPIC, partitions=1, configs=config)])
    cluster = Cluster(ConsumerSettings(bootstrap_servers=broker.bootstrap))
    try:
        await cluster.topic(TOPIC, 30_000)
        await measure_topic(Bench(broker, cluster), arguments, chance)
    finally:
        await cluster.close()


async def measure_topic(bench: Bench, arguments: argparse.Namespace, chance: random.Random) -> None:
    records, keys = arguments.records, arguments.keys
    begun_s = time.monotonic()
    await bench.produce(batches(records, keys, chance))
    directory = bench.broker.data_directory / f"{TOPIC}-0"
    say("records, keys", f"{records:,}, {keys:,}")
    say("log", f"{size_of(directory, '.log') / 1e6:,.0f} MB")
    say("written in", f"{time.monotonic() - begun_s:.0f} s")
    say("memory of the broker before", f"{bench.memory_mb:.0f} MB")
    present = [key_of(chance.randrange(keys)) for _ in range(arguments.look_ups)]
    missing = [b"nobody-%d" % number for number in range(arguments.look_ups // 4)]

    say("one record written, before", await bench.time_produce(PRODUCED))
    watch = WorkerWatch(bench.process)
    watch.start()
    say("first look-up, no index", await bench.time(present[:1]))
    say("a missing key, no index", await bench.time(missing[:1]))
    say("one record written, index in the making", await bench.time_produce(PRODUCED))
    say("index made after", f"{await bench.wait_for_index():.1f} s more")
    watch.end()
    say("CPU of the worker, its most memory", f"{watch.cpu_s:.1f} s, {watch.max_mb:.0f} MB")
    say("index on disk", f"{size_of(directory, '.keys') / 1e6:,.0f} MB")
    say("memory of the broker after", f"{bench.memory_mb:.0f} MB")

    await bench.time(present[:100])
    say("look-ups", await bench.time(present))
    say("look-ups of missing keys", await bench.time(missing))
    rate = arguments.records_per_second
    writing = asyncio.ensure_future(
        bench.produce(batches(10**9, keys, chance), rate * RECORD_BYTES / BATCH_BYTES)
    )
    while_writing = await bench.time(present[: arguments.look_ups // 4])
    assert not writing.done()
    writing.cancel()
    await asyncio.wait([writing])
    say(f"look-ups while {rate:,} records/s come", while_writing)
    say("memory of the broker at the end", f"{bench.memory_mb:.0f} MB")
    by_command(bench.broker, present[0].decode(), arguments.look_ups // 4)


def by_command(broker: BrokerProcess, key: str, times: int) -> None:
    command = ["odradek", "get", "--topic", TOPIC, "--key", key, "--stats"]
    command[0] = str(Path(sys.executable).parent / "odradek")
    where = ["--bootstrap-server", broker.bootstrap]
    for more in ([], ["--repeat", str(times)]):
        done = subprocess.run([*command, *more, *where], capture_output=True, text=True, check=True)
        say(" ".join(["odradek get --stats", *more]), done.stderr.strip())


def size_of(directory: Path, suffix: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"*{suffix}"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--look-ups", type=int, default=20_000)
    parser.add_argument("--records-per-second", type=int, default=50_000)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="look-up-") as directory,
        odradek_broker(Path(directory)) as broker,
    ):
        asyncio.run(measure(broker, arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
