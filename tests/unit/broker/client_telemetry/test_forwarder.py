"""Pushes that are sent on to a collector, which is a small HTTP server here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.broker.client_telemetry import forwarder as module
from odradek.broker.client_telemetry.forwarder import OtlpForwarder
from odradek.telemetry.otlp.decoding import Point, decode
from tests.unit.broker.client_telemetry.test_pushes import METRIC, clients
from tests.unit.broker.management.running import running, value


class Collector:
    """Answers with the next of its statuses, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.bodies: list[bytes] = []
        self.heads: list[str] = []
        self.received = asyncio.Event()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].split()[0])
        body = await reader.readexactly(length)
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        if status == 200:
            self.heads.append(head)
            self.bodies.append(body)
        self.received.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/metrics"


@asynccontextmanager
async def collecting(*statuses: int) -> AsyncIterator[Collector]:
    collector = Collector(*statuses)
    server = await asyncio.start_server(collector.answer, "127.0.0.1", 0)
    collector.port = server.sockets[0].getsockname()[1]
    try:
        yield collector
    finally:
        server.close()
        await server.wait_closed()


async def sent(forwarder: OtlpForwarder, count: int, result: str = "sent") -> None:
    while forwarder.counts[result] < count:  # noqa: ASYNC110 - it runs on this loop
        await asyncio.sleep(0)


async def test_a_broker_forwards_with_what_it_knows_of_the_client() -> None:
    async with asyncio.timeout(30), collecting(200) as collector:
        properties = {"odradek.telemetry.otlp.endpoint": collector.url}
        async with running(properties) as one, clients(one, "app") as [client]:
            await client.ask()
            await client.push()
            await collector.received.wait()
            name = "odradek_client_telemetry_forwarded_total"
            while not value(await one.series(), name, result="sent"):
                pass
    assert collector.heads[0].startswith("POST /v1/metrics HTTP/1.1\r\n")
    assert "application/x-protobuf" in collector.heads[0]
    (point,) = decode(memoryview(collector.bodies[0]))
    assert isinstance(point, Point)
    assert point.name == METRIC
    attributes = dict(point.attributes)
    assert (attributes["client_id"], attributes["client_source_address"]) == ("app", "127.0.0.1")


async def test_a_busy_collector_gets_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)
    async with asyncio.timeout(30), collecting(503, 503, 200) as collector:
        forwarder = OtlpForwarder(collector.url)
        running_ = asyncio.create_task(forwarder.run())
        forwarder.offer(b"one")
        forwarder.offer(b"two")
        await sent(forwarder, 2)
        running_.cancel()
    # What waits together is sent together.
    assert b"".join(collector.bodies) == b"onetwo"


async def test_what_a_collector_refuses_is_counted_and_gone() -> None:
    async with asyncio.timeout(30), collecting(400, 200) as collector:
        forwarder = OtlpForwarder(collector.url)
        running_ = asyncio.create_task(forwarder.run())
        forwarder.offer(b"bad")
        await sent(forwarder, 1, "failed")
        forwarder.offer(b"good")
        await sent(forwarder, 1)
        running_.cancel()
    assert collector.bodies == [b"good"]


async def test_no_more_than_four_megabytes_wait() -> None:
    forwarder = OtlpForwarder("http://127.0.0.1:1/v1/metrics")
    for _ in range(6):
        forwarder.offer(bytes(1 << 20))
    assert forwarder.counts["dropped"] == 2
