"""An ordinary client beside the fuzzer: it writes a record, reads it back, and takes the time.

It runs in a process of its own, so that it measures the broker and not the fuzzer, until its
standard input ends; then it prints what it saw as JSON. A second connection asks for API
versions every few milliseconds: the longest wait is how long the broker's loop stood still.

On a machine that does other things as well, processes wait for a processor. Linux counts how
long each waited. What the broker and this process waited is taken off, where the broker's
process is known; what they did or were blocked in is not. The figures with it are kept too.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder, decode_records
from odradek.protocol.types import Offset
from tests.fuzz.wire import Wire

TOPIC = "canary"
_BETWEEN_PROBES_S = 0.005
_BETWEEN_ROUND_TRIPS_S = 0.01
_STALL_MS = 100.0


class Stopwatch:
    """Milliseconds since it was made: by the clock, and less the time waited for a processor."""

    def __init__(self, pid: int | None) -> None:
        self._paths = (
            [] if pid is None else [f"/proc/{pid}/schedstat", "/proc/thread-self/schedstat"]
        )
        self._waited_s = self._waits()
        self._begun = perf_counter()

    def read(self) -> tuple[float, float]:
        elapsed_s = perf_counter() - self._begun
        waited_s = self._waits() - self._waited_s
        return elapsed_s * 1000, max(0.0, elapsed_s - waited_s) * 1000

    def _waits(self) -> float:
        try:
            return sum(int(Path(path).read_text().split()[1]) for path in self._paths) / 1e9
        except OSError:
            return 0.0


class Canary:
    def __init__(self, host: str, port: int, pid: int | None) -> None:
        self._address = (host, port)
        self._pid = pid
        self.round_trips_ms: list[tuple[float, float]] = []
        self.probes_ms: list[tuple[float, float]] = []
        self.failures: list[str] = []

    async def run(self) -> None:
        setup = await Wire.open(*self._address)
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        await setup.call(CreateTopicsRequest(topics=[topic]), 5)
        setup.close()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sing())
            tasks.create_task(self._probe())

    async def _sing(self) -> None:
        writer, reader = await Wire.open(*self._address), await Wire.open(*self._address)
        number = 0
        while True:
            number += 1
            value = b"tweet %d" % number
            watch = Stopwatch(self._pid)
            try:
                offset = await self._produce(writer, value)
                if await self._fetch(reader, Offset(offset)) != value:
                    self.failures.append(f"the record at offset {offset} is not what was written")
            except (ConnectionError, LookupError) as error:
                self.failures.append(f"round trip {number}: {error!r}")
                await asyncio.sleep(0.1)
                if isinstance(error, ConnectionError):
                    writer, reader = (
                        await Wire.open(*self._address),
                        await Wire.open(*self._address),
                    )
            else:
                self.round_trips_ms.append(watch.read())
            await asyncio.sleep(_BETWEEN_ROUND_TRIPS_S)

    async def _produce(self, wire: Wire, value: bytes) -> int:
        builder = BatchBuilder()
        builder.append(None, value, (), 1)
        data = PartitionProduceData(index=0, records=builder.build())
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        answer = await wire.call(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
        assert isinstance(answer, ProduceResponse)
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code:
            raise LookupError(ErrorCode(partition.error_code).name)
        return partition.base_offset

    async def _fetch(self, wire: Wire, offset: Offset) -> bytes | None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 16)
        request = FetchRequest(
            max_wait_ms=2000,
            min_bytes=1,
            max_bytes=1 << 16,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = await wire.call(request, 11)
        assert isinstance(answer, FetchResponse)
        found = answer.responses[0].partitions[0]
        if found.error_code or not found.records:
            raise LookupError(f"fetched nothing at {offset}: {ErrorCode(found.error_code).name}")
        records = memoryview(found.records)  # type: ignore[arg-type] # what was read is bytes
        return decode_records(records)[0].value

    async def _probe(self) -> None:
        wire = await Wire.open(*self._address)
        while True:
            await asyncio.sleep(_BETWEEN_PROBES_S)
            watch = Stopwatch(self._pid)
            try:
                await wire.call(ApiVersionsRequest(), 0)
            except ConnectionError as error:
                self.failures.append(f"probe: {error!r}")
                wire = await Wire.open(*self._address)
                continue
            self.probes_ms.append(watch.read())

    def summary(self) -> dict[str, object]:
        by_clock = [clock for clock, _ in self.round_trips_ms]
        own = [own for _, own in self.round_trips_ms]
        return {
            "round_trips": len(own),
            "p50_ms": percentile(own, 50),
            "p99_ms": percentile(own, 99),
            "max_ms": percentile(own, 100),
            "clock_p99_ms": percentile(by_clock, 99),
            "longest_stall_ms": percentile([own for _, own in self.probes_ms], 100),
            "clock_longest_stall_ms": percentile([clock for clock, _ in self.probes_ms], 100),
            "stalls": sum(own > _STALL_MS for _, own in self.probes_ms),
            "probes": len(self.probes_ms),
            "failures": self.failures[:20],
        }


def percentile(values: list[float], percent: float) -> float:
    """Nearest rank; infinite when nothing was measured."""
    if not values:
        return float("inf")
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 3)


async def main(host: str, port: int, pid: int | None) -> None:
    canary = Canary(host, port, pid)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    singing = asyncio.create_task(canary.run())
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait({singing, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if singing.done() and (error := singing.exception()):
        canary.failures.append(repr(error))
    singing.cancel()
    waiting.cancel()
    print(json.dumps(canary.summary()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("pid", type=int, nargs="?")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.host, arguments.port, arguments.pid))
