"""The simulated network, through streams and through bare protocols."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.world import World
from simulation import Simulation, SimulationError, run

Main = Callable[[Simulation], Coroutine[Any, Any, Any]]


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


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        payload = simulation.random("payload").randbytes(200_000)
        simulation.host("server").start(echo_server)

        async def client(_: World) -> bytes:
            return await echo(payload)

        await asyncio.sleep(0.1)
        assert await simulation.host("client").start(client) == payload

    run(main, seed)


def test_bytes_are_delivered_in_pieces() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        for _ in range(20):
            client.transport.write(b"0123456789")
        await asyncio.sleep(1)
        assert server.received == b"0123456789" * 20
        assert server.events.count("data") not in (1, 20)

    run(main, 3)


def test_names_and_addresses() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        address, port = client.transport.get_extra_info("peername")
        assert (address, port) == server.transport.get_extra_info("sockname")
        assert port == 9092
        near = client.transport.get_extra_info("sockname")
        assert near == server.transport.get_extra_info("peername")
        assert near[0] != address
        assert client.transport.get_extra_info("sslcontext") is None
        loop = asyncio.get_running_loop()
        assert (await loop.getaddrinfo("server", 9092))[0][4] == (address, 9092)

    run(main, 1)


async def _connect_to(simulation: Simulation, host: str, port: int = 9092) -> None:
    async def client(_: World) -> None:
        _reader, writer = await asyncio.open_connection(host, port)
        writer.close()

    await simulation.host("client").start(client)


def test_who_cannot_be_reached() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("server").start(echo_server)
        await asyncio.sleep(0.1)
        with pytest.raises(socket.gaierror):
            await _connect_to(simulation, "elsewhere")
        with pytest.raises(ConnectionRefusedError):
            await _connect_to(simulation, "server", 9093)
        simulation.network.refuse("server", 9092)
        with pytest.raises(ConnectionRefusedError):
            await _connect_to(simulation, "server")
        simulation.network.admit("server")
        simulation.network.cut("client", "server")
        with pytest.raises(TimeoutError):
            await _connect_to(simulation, "server")
        assert simulation.loop.time() > 100

    run(main, 1)


def test_a_loopback_listener_is_for_its_own_host() -> None:
    async def main(simulation: Simulation) -> None:
        async def server(_: World) -> None:
            listening = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
            port = listening.sockets[0].getsockname()[1]
            _reader, writer = await asyncio.open_connection("localhost", port)
            writer.close()
            with pytest.raises(OSError, match="in use"):
                await asyncio.start_server(lambda r, w: None, "127.0.0.1", port)
            with pytest.raises(OSError, match="not an address"):
                await asyncio.start_server(lambda r, w: None, "client", 1)
            with pytest.raises(ConnectionRefusedError):
                await _connect_to(simulation, "server", port)

        simulation.host("client")
        await simulation.host("server").start(server)

    run(main, 1)


def test_a_cut_holds_bytes_and_healing_brings_them() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        simulation.network.cut("client", "server", both_ways=False)
        client.transport.write(b"there")
        server.transport.write(b"back")
        await asyncio.sleep(60)
        assert bytes(server.received) == b""
        assert bytes(client.received) == b"back"
        simulation.network.heal("client", "server")
        await asyncio.sleep(1)
        assert bytes(server.received) == b"there"

    run(main, 1)


def test_a_connection_attempt_over_a_cut_waits_for_its_end() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("server").start(echo_server)
        simulation.host("client")
        simulation.network.isolate("server")
        simulation.loop.call_later(30, simulation.network.heal_all)

        async def client(_: World) -> bytes:
            return await echo(b"hello")

        assert await simulation.host("client").start(client) == b"hello"
        assert 30 < simulation.loop.time() < 31

    run(main, 1)


def test_a_reset_reaches_both_ends() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        client.transport.write(b"lost on the way")
        assert simulation.network.reset("client", "server") == 1
        assert isinstance(await client.lost, ConnectionResetError)
        assert isinstance(await server.lost, ConnectionResetError)
        assert not server.received
        client.transport.write(b"to nobody")
        await asyncio.sleep(1)
        assert not server.received

    run(main, 1)


def test_delay_and_bandwidth() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("client")
        simulation.host("server")
        simulation.network.set_delay("client", "server", (0.1, 0.1))
        simulation.network.set_bandwidth("client", "server", 1000.0)
        client, server = await pair(simulation)
        started = simulation.loop.time()
        client.transport.write(bytes(5000))
        while len(server.received) < 5000:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        assert 5.0 <= simulation.loop.time() - started <= 5.3

    run(main, 1)


def test_a_slow_reader_pauses_the_writer() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.set_write_buffer_limits(high=10_000, low=1000)
        total = simulation.network.window_bytes + 10_000
        client.transport.write(bytes(total))
        await asyncio.sleep(1)
        assert client.events == ["made"]
        assert client.transport.get_write_buffer_size() == 10_000
        client.transport.writelines([b"x", b"", b"y"])
        assert client.events == ["made", "pause"]
        await asyncio.sleep(100)
        assert not server.received
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(server.received) == total + 2
        assert client.events == ["made", "pause", "resume"]
        assert client.transport.get_write_buffer_size() == 0

    run(main, 1)


def test_a_changed_buffer_corrupts_what_was_not_sent_yet() -> None:
    """Whoever reuses a buffer with a pending send is to be caught, so the loop keeps no copy."""

    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        size = simulation.network.window_bytes + 100
        buffer = bytearray(b"a" * size)
        client.transport.write(buffer)
        buffer[:] = b"b" * size
        await asyncio.sleep(1)
        assert server.received.count(b"b") == 100

    run(main, 1)


def test_close_delivers_what_was_written() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        payload = bytes(300_000)
        client.transport.write(payload)
        client.transport.close()
        assert client.transport.is_closing()
        assert await server.lost is None
        assert len(server.received) == len(payload)
        assert server.events[-2:] == ["eof", "lost"]
        assert await client.lost is None

    run(main, 1)


def test_abort_drops_what_was_not_sent() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        client.transport.write(bytes(300_000))
        client.transport.abort()
        assert await client.lost is None
        assert await server.lost is None
        assert len(server.received) == simulation.network.window_bytes

    run(main, 1)


def test_closing_with_unread_bytes_resets_the_peer() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        server.transport.pause_reading()
        client.transport.write(b"never read")
        await asyncio.sleep(1)
        server.transport.close()
        assert isinstance(await client.lost, ConnectionResetError)

    run(main, 1)


def test_writing_to_a_closed_peer_ends_in_a_reset() -> None:
    class Deaf(Recorder):
        def eof_received(self) -> bool:
            return True

    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        client.transport.set_protocol(deaf := Deaf())
        deaf.transport = client.transport
        server.transport.close()
        await asyncio.sleep(1)
        client.transport.write(b"hello?")
        assert isinstance(await deaf.lost, ConnectionResetError)

    run(main, 1)


def test_a_buffered_protocol_gets_its_bytes_in_its_own_buffer() -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(7)
            self.received = bytearray()

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.received += self.buffer[:nbytes]

    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        server.transport.set_protocol(buffered := Buffered())
        client.transport.write(bytes(range(100)))
        await asyncio.sleep(1)
        assert buffered.received == bytes(range(100))

    run(main, 1)


def test_an_error_in_a_protocol_ends_the_run() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("cannot read this")

    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        server.transport.set_protocol(Broken())
        client.transport.write(b"x")
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="cannot read this"):
        run(main, 1)


def test_a_killed_process_ends_its_connections() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        simulation.host("server").kill()
        assert await client.lost is None
        assert "eof" in client.events
        assert server.events == ["made"]
        with pytest.raises(ConnectionRefusedError):
            await _connect_to(simulation, "server")

    run(main, 1)


def test_a_machine_without_power_is_silent_and_resets_when_it_is_back() -> None:
    async def main(simulation: Simulation) -> None:
        client, _server = await pair(simulation)
        simulation.host("server").power_off()
        client.transport.write(b"anybody there?")
        await asyncio.sleep(1000)
        assert client.events == ["made"]
        simulation.host("server").power_on()
        assert isinstance(await client.lost, ConnectionResetError)

    run(main, 1)


def test_connecting_to_a_machine_that_starts_again() -> None:
    async def main(simulation: Simulation) -> None:
        host = simulation.host("server")
        host.power_off()

        def power_on() -> None:
            host.start(echo_server)

        simulation.loop.call_later(20, power_on)

        async def client(_: World) -> bytes:
            while True:
                try:
                    return await echo(b"hello")
                except ConnectionRefusedError:
                    await asyncio.sleep(0.1)

        assert await simulation.host("client").start(client) == b"hello"
        assert simulation.loop.time() > 20

    run(main, 1)


def test_a_stopped_process_takes_no_more_than_a_window() -> None:
    async def main(simulation: Simulation) -> None:
        client, server = await pair(simulation)
        simulation.host("server").stop()
        client.transport.write(bytes(300_000))
        await asyncio.sleep(100)
        assert not server.received
        left = 300_000 - simulation.network.window_bytes
        assert client.transport.get_write_buffer_size() == left
        simulation.host("server").resume()
        await asyncio.sleep(1)
        assert len(server.received) == 300_000

    run(main, 1)


def test_a_server_that_closes_waits_for_its_connections() -> None:
    async def main(simulation: Simulation) -> None:
        accepted: list[Recorder] = []

        def accept() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        async def server(_: World) -> float:
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(accept, "server", 9092)
            assert listening.is_serving()
            await asyncio.sleep(1)
            listening.close()
            loop.call_later(5, accepted[0].transport.close)
            await listening.wait_closed()
            return loop.time()

        async def client(_: World) -> None:
            _reader, writer = await asyncio.open_connection("server", 9092)
            await writer.wait_closed()

        serving = simulation.host("server").start(server)
        await asyncio.sleep(0.1)
        simulation.host("client").start(client)
        assert await serving == 6.0

    run(main, 1)


def test_a_bound_port_refuses_until_it_is_served() -> None:
    async def main(simulation: Simulation) -> None:
        async def server(_: World) -> None:
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(
                asyncio.Protocol, "server", 9092, start_serving=False
            )
            with pytest.raises(ConnectionRefusedError):
                await _connect_to(simulation, "server")
            await listening.start_serving()
            await _connect_to(simulation, "server")

        await simulation.host("server").start(server)

    run(main, 1)


def test_a_cancelled_attempt_leaves_nothing_open() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("server").start(echo_server)
        await asyncio.sleep(0.1)
        simulation.host("client")
        simulation.network.cut("server", "client", both_ways=False)

        async def client(_: World) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.open_connection("server", 9092), 5)
            simulation.network.heal("server", "client")
            await asyncio.sleep(1)

        await simulation.host("client").start(client)
        assert not simulation.network.transports

    run(main, 1)
