"""A port where no broker listens, but something else, is recognised at once."""

import argparse
import asyncio
import socketserver
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias

import pytest

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.main import main
from odradek.client import Admin, Connection
from odradek.client.errors import NoBrokerAvailable, NotABroker
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.failures import explain
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


async def web(reader: Reader, writer: Writer) -> None:
    """Waits for the end of the request, as a server of HTTP/1.1 does."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def older_web(reader: Reader, writer: Writer) -> None:
    """Answers in two pieces, and without a status line, as to a client of HTTP/0.9."""
    await reader.readline()
    writer.write(b"<")
    await writer.drain()
    await asyncio.sleep(0.01)
    writer.write(b"!DOCTYPE HTML>")


async def tls(reader: Reader, writer: Writer) -> None:
    """Sends the alert about a record that is none."""
    await reader.readexactly(5)
    writer.write(bytes.fromhex("15030100020246"))


async def shell(_: Reader, writer: Writer) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")


async def silent(_: Reader, writer: Writer) -> None:
    await writer.drain()


async def store(reader: Reader, writer: Writer) -> None:
    await reader.readline()
    writer.write(b"-ERR unknown command\r\n")


@asynccontextmanager
async def served(serve: Callable[[Reader, Writer], Awaitable[None]]) -> AsyncIterator[int]:
    async def answer(reader: Reader, writer: Writer) -> None:
        try:
            await serve(reader, writer)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (web, "speaks HTTP, not the Kafka protocol"),
        (older_web, "speaks HTTP, not the Kafka protocol"),
        (tls, "speaks TLS: set security.protocol=SSL, or SASL_SSL"),
        (shell, "does not speak the Kafka protocol: it answers b'SSH-2.0-OpenSSH_9.6"),
        (store, "does not speak the Kafka protocol: it answers b'-ERR unknown command"),
    ],
)
async def test_what_speaks_there_is_said_at_once(
    serve: Callable[[Reader, Writer], Awaitable[None]], said: str
) -> None:
    async with served(serve) as port:
        async with asyncio.timeout(10):
            with pytest.raises(NotABroker) as raised:
                await Connection.open("127.0.0.1", port)
            async with Admin(bootstrap_servers=f"127.0.0.1:{port}", retries=0) as admin:
                with pytest.raises(NoBrokerAvailable, match="speak") as none:
                    await admin.list_topics()
        assert str(raised.value).startswith(f"127.0.0.1:{port} {said}")
        assert isinstance(none.value.reasons[0], NotABroker)


def test_a_tool_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        port = server.server_address[1]
        try:
            assert main(["topics", "--list", "--bootstrap-server", f"127.0.0.1:{port}"]) == 1
        finally:
            server.shutdown()
            thread.join()
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        f"odradek topics: 127.0.0.1:{port} speaks HTTP, not the Kafka protocol: brokers"
        " listen at another port; check that brokers run, and that --bootstrap-server has their"
        " addresses"
    )


@in_simulation()
async def test_a_broker_may_answer_at_length_once_it_is_known(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    connection = await Connection.open("127.0.0.1", brokers.ports[1], max_response_bytes=1 << 30)
    assert connection._wire._splitter.max_size_bytes == 1 << 30
    await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    connection.close()


def test_silence_is_said_after_three_seconds(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        async def be_silent(reader: Reader, writer: Writer) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(be_silent, "127.0.0.1", 9999)
        async with Admin(bootstrap_servers="127.0.0.1:9999", retries=0) as admin:
            asking = asyncio.ensure_future(admin.list_topics())
            await asyncio.sleep(2.9)
            assert said == []
            await asyncio.sleep(0.2)
            (line,) = said
            assert line.startswith("127.0.0.1:9999 accepts connections and has not answered for 3")
            with pytest.raises(NoBrokerAvailable, match="answered nothing for 10 s: something"):
                await asking
        server.close()

    test()
    assert len(said) == 1


def test_a_client_that_gives_up_soon_does_not_wait_long_for_silence(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        async def be_silent(reader: Reader, writer: Writer) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(be_silent, "127.0.0.1", 9999)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        options: Any = {"bootstrap_servers": "127.0.0.1:9999", "retries": 1}
        async with Admin(**options, socket_connection_setup_timeout_ms=5_000) as admin:
            with pytest.raises(NoBrokerAvailable, match=r"something else .* or the broker hangs"):
                await admin.list_topics()
            took_s = loop.time() - began_s
        # One that goes on waits as long as for any other answer.
        async with Admin(bootstrap_servers="127.0.0.1:9999") as admin:
            with pytest.raises(NoBrokerAvailable, match="did not answer ApiVersions in time"):
                await admin.list_topics()
        server.close()
        # 5 s, and twice that for the second attempt.
        assert 15 <= took_s <= 17

    test()


async def test_silence_is_no_reason_to_start_a_broker_there() -> None:
    async with served(silent) as port:
        address = f"127.0.0.1:{port}"
        parser = argparse.ArgumentParser()
        add_connection_arguments(parser)
        arguments = parser.parse_args(["--bootstrap-server", address])
        async with Admin(
            bootstrap_servers=address, retries=0, socket_connection_setup_timeout_ms=100
        ) as admin:
            with pytest.raises(NoBrokerAvailable) as raised:
                await admin.list_topics()
    line = explain(raised.value, arguments)
    assert "answered nothing for 0.1 s" in line
    assert "start one there" not in line
    assert line.endswith("check that brokers run, and that --bootstrap-server has their addresses")
