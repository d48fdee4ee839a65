"""The server lets clients in, and sends them away, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Pending
from odradek.broker.network.server import Server
from odradek.config import BrokerSettings
from odradek.protocol.types import Buffer
from odradek.world import MemoryDisk, World


class QuietLog:
    """In place of the request log: remembers which connections it was told of."""

    def __init__(self) -> None:
        self.followed: list[Connection] = []
        self.is_closed = False

    def follow(self, connection: Connection) -> None:
        self.followed.append(connection)

    def close(self) -> None:
        self.is_closed = True


class Echo:
    """Answers each frame with itself; a frame that begins with w waits until it is told."""

    def __init__(self) -> None:
        self.answer_waiting = asyncio.Event()

    def serve(self, _: Connection, frame: Buffer) -> Parts | Pending | None:
        reply: Parts = [len(frame).to_bytes(4, "big") + bytes(frame)]
        if frame[:1] != b"w":
            return reply

        async def wait() -> object:
            await self.answer_waiting.wait()
            return reply

        return Pending(wait(), lambda _: reply, is_pipelined=False)


@asynccontextmanager
async def bound_server(**properties: str) -> AsyncIterator[Server]:
    settings = BrokerSettings.from_properties(
        {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", **properties}
    )
    server = Server(settings, World(disk=MemoryDisk()))
    await server.bind()
    try:
        yield server
    finally:
        await server.drain(1.0)
        await server.close()


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    [listener] = server.advertised()
    return await asyncio.open_connection(listener.host, listener.port)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def test_clients_are_let_in_when_the_server_accepts_and_not_when_it_is_bound() -> None:
    async with asyncio.timeout(30), bound_server() as server:
        with pytest.raises(ConnectionRefusedError):
            await connect(server)
        log = QuietLog()
        await server.accept(Echo().serve, log)
        reader, writer = await connect(server)
        writer.write(frame(b"hello"))
        assert await reader.readexactly(9) == frame(b"hello")
        assert log.followed == list(server.connections.open)
        writer.close()
    assert log.is_closed


async def test_a_server_that_stops_answers_what_is_under_way_and_closes() -> None:
    async with asyncio.timeout(30), bound_server() as server:
        echo = Echo()
        await server.accept(echo.serve, QuietLog())
        waiting, idle = await connect(server), await connect(server)
        waiting[1].write(frame(b"wait"))
        idle[1].write(frame(b"once"))
        assert await idle[0].readexactly(8) == frame(b"once")
        [listener] = server.advertised()
        await server.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(listener.host, listener.port)
        draining = asyncio.ensure_future(server.drain(20.0))
        assert await idle[0].read() == b""
        assert not draining.done()
        echo.answer_waiting.set()
        assert await waiting[0].read() == frame(b"wait")
        await draining
        assert not server.connections.open
        for _, writer in (waiting, idle):
            writer.close()
