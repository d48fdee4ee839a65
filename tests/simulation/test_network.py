"""The simulated network, through streams and through bare protocols."""

import asyncio
import socket
from random import Random

import pytest

from odradek.world import World
from simulation import Simulation, run
from tests.simulation.connections import connect_to, echo, echo_server, pair


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


def test_bytes_are_cut_where_the_random_module_would_cut_them() -> None:
    """The network draws by itself, which is faster. Seeds must not change by it."""

    async def main(simulation: Simulation) -> None:
        network, reference = simulation.network, Random()
        network.split_probability = 0.7
        for size in [*range(1, 300), 4096, 65_536, 100_001]:
            reference.setstate(network.random.getstate())
            expected = size
            if size > 1 and reference.random() < network.split_probability:
                longest = reference.choice((3, 100, size))
                expected = reference.randint(1, min(size, longest))
            assert network.cut_size(size) == expected
            assert network.random.getstate() == reference.getstate()

    run(main, seed=1)


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


def test_who_cannot_be_reached() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("server").start(echo_server)
        await asyncio.sleep(0.1)
        with pytest.raises(socket.gaierror):
            await connect_to(simulation, "elsewhere")
        with pytest.raises(ConnectionRefusedError):
            await connect_to(simulation, "server", 9093)
        simulation.network.refuse("server", 9092)
        with pytest.raises(ConnectionRefusedError):
            await connect_to(simulation, "server")
        simulation.network.admit("server")
        simulation.network.cut("client", "server")
        with pytest.raises(TimeoutError):
            await connect_to(simulation, "server")
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
                await connect_to(simulation, "server", port)

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
