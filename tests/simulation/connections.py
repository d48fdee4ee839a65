"""Servers and connections on a simulated network."""

import asyncio

from odradek.world import World
from simulation import Simulation


async def echo_server(_: World) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "0.0.0.0", 9092)
    await server.serve_forever()


async def echo(payload: bytes, host: str = "server") -> bytes:
    reader, writer = await asyncio.open_connection(host, 9092)
    writer.write(payload)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


class Recorder(asyncio.Protocol):
    """Notes everything that is called on a protocol."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.received = bytearray()
        self.transport: asyncio.Transport
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.events.append("data")

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)


async def pair(simulation: Simulation) -> tuple[Recorder, Recorder]:
    """A client and a server end, both in the main process's hands but on two hosts."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    connected: asyncio.Queue[Recorder] = asyncio.Queue()

    def accept() -> Recorder:
        accepted.put_nowait(Recorder())
        return accepted._queue[-1]  # type: ignore[attr-defined,no-any-return]

    async def server(_: World) -> None:
        listening = await asyncio.get_running_loop().create_server(accept, "server", 9092)
        await listening.serve_forever()

    async def client(_: World) -> None:
        _transport, protocol = await asyncio.get_running_loop().create_connection(
            Recorder, "server", 9092
        )
        connected.put_nowait(protocol)
        await asyncio.Event().wait()

    simulation.host("server").start(server)
    await asyncio.sleep(0.1)
    simulation.host("client").start(client)
    return await connected.get(), await accepted.get()


async def connect_to(simulation: Simulation, host: str, port: int = 9092) -> None:
    async def client(_: World) -> None:
        _reader, writer = await asyncio.open_connection(host, port)
        writer.close()

    await simulation.host("client").start(client)
