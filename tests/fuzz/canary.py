"""An ordinary client beside the fuzzer: it writes a record, reads it back, and takes the time.

It runs in a process of its own, so that it measures the broker and not the fuzzer, until its
standard input ends; then it prints what it saw as JSON. A second connection asks for API
versions every few milliseconds: the longest wait is how long the broker's loop stood still,
less what this process itself was late.
"""

import argparse
import asyncio
import json
import sys
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
from tests.fuzz.wire import Wire

TOPIC = "canary"
_BETWEEN_PROBES_S = 0.005
_BETWEEN_ROUND_TRIPS_S = 0.01
_STALL_MS = 100.0


class Canary:
    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self.round_trips_ms: list[float] = []
        self.probes_ms: list[float] = []
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
            begun = perf_counter()
            try:
                offset = await self._produce(writer, value)
                if await self._fetch(reader, offset) != value:
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
                self.round_trips_ms.append((perf_counter() - begun) * 1000)
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

    async def _fetch(self, wire: Wire, offset: int) -> bytes | None:
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
            begun = perf_counter()
            await asyncio.sleep(_BETWEEN_PROBES_S)
            asked = perf_counter()
            late = asked - begun - _BETWEEN_PROBES_S
            try:
                await wire.call(ApiVersionsRequest(), 0)
            except ConnectionError as error:
                self.failures.append(f"probe: {error!r}")
                wire = await Wire.open(*self._address)
                continue
            self.probes_ms.append(max(0.0, perf_counter() - asked - late) * 1000)

    def summary(self) -> dict[str, object]:
        return {
            "round_trips": len(self.round_trips_ms),
            "p50_ms": percentile(self.round_trips_ms, 50),
            "p99_ms": percentile(self.round_trips_ms, 99),
            "max_ms": percentile(self.round_trips_ms, 100),
            "longest_stall_ms": percentile(self.probes_ms, 100),
            "stalls": sum(probe > _STALL_MS for probe in self.probes_ms),
            "probes": len(self.probes_ms),
            "failures": self.failures[:20],
        }


def percentile(values: list[float], percent: float) -> float:
    """Nearest rank; infinite when nothing was measured."""
    if not values:
        return float("inf")
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 3)


async def main(host: str, port: int) -> None:
    canary = Canary(host, port)
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
    arguments = parser.parse_args()
    asyncio.run(main(arguments.host, arguments.port))
