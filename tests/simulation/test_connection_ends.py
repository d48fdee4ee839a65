"""How connections of the simulated network end: close, abort, kill, power cut."""

import asyncio

import pytest

from odradek.world import World
from simulation import Simulation, SimulationError, run
from tests.simulation.connections import Recorder, connect_to, echo, echo_server, pair


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
            await connect_to(simulation, "server")

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
                await connect_to(simulation, "server")
            await listening.start_serving()
            await connect_to(simulation, "server")

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
