"""Brokers with a management port in this process, on sockets of the loopback interface."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from urllib.parse import quote, urlsplit

from prometheus_client.parser import text_string_to_metric_families

from odradek.broker import Broker
from odradek.config import BrokerSettings
from odradek.metadata.memory import MemoryMetadata
from odradek.world import MemoryDisk, World

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def get(url: str, accept: str = "*/*") -> tuple[int, str]:
    """Returns the status and the body of what is at an address."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    path = quote(parts.path, safe="/:=,*!?")
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: {accept}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    content = (await reader.read()).decode()
    writer.close()
    head, _, body = content.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


class Running:
    """A broker that runs, and what its management port says."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        assert self.broker.management_url is not None
        return self.broker.management_url

    async def text(self, path: str) -> str:
        status, body = await get(self.url + path)
        assert status == 200, body
        return body

    async def json(self, path: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(await self.text(path))
        return found

    async def series(self) -> Series:
        """Scrapes, and parses as Prometheus does."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(await self.text("/metrics"))
            for sample in family.samples
        }

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def value(series: Series, name: str, **labels: str) -> float:
    return series[name, frozenset(labels.items())]


@asynccontextmanager
async def running(
    properties: Mapping[str, str] | None = None,
    *,
    node_id: int = 1,
    metadata: MemoryMetadata | None = None,
) -> AsyncIterator[Running]:
    settings = BrokerSettings.from_properties(
        {
            "node.id": str(node_id),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "management.listener": "http://127.0.0.1:0",
            "odradek.metadata.store": "memory",
            "log.dirs": "/data",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            **(properties or {}),
        }
    )
    one = Running(Broker(settings, World(disk=MemoryDisk()), metadata))
    ready = asyncio.Event()
    one.task = asyncio.create_task(one.broker.run(on_ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([one.task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if one.task.done():
        waiting.cancel()
        await one.task
    try:
        yield one
    finally:
        await one.stop()


@asynccontextmanager
async def running_cluster(
    brokers: int = 3, properties: Mapping[str, str] | None = None
) -> AsyncIterator[list[Running]]:
    async with AsyncExitStack() as stack:
        metadata = MemoryMetadata()
        shared = {
            "default.replication.factor": str(brokers),
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": str(brokers),
            "odradek.metrics.lag.interval.ms": "100",
            **(properties or {}),
        }
        yield [
            await stack.enter_async_context(running(shared, node_id=number, metadata=metadata))
            for number in range(1, brokers + 1)
        ]
