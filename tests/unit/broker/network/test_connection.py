"""What a connection does with clients that are slow, silent, many or malicious."""

import asyncio
from collections.abc import Awaitable, Callable

import psutil
import pytest

from odradek.client.connection import Connection
from odradek.client.errors import ClientError
from odradek.protocol.headers import decode_response, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceResponse
from odradek.protocol.schema import Request
from odradek.protocol.types import Buffer, Offset
from tests.unit.broker.harness import PORT, Client, batch, on_broker, serving_on_sockets
from tests.unit.broker.test_produce_and_fetch import fetch, fetch_request, produce_request

Connect = Callable[[], Awaitable[Client]]


def frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    parts = encode_request(request, version, correlation_id, "raw")
    return b"".join(bytes(part) for part in parts if isinstance(part, Buffer))


async def raw() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("broker", PORT)


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """Whether the broker closed the connection without another byte."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True  # It closed before it had read everything.


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        (1 << 30).to_bytes(4, "big"),
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\x00\x00\x08" + b"\x7f\xff\x00\x00\x00\x00\x00\x01",
        frame(FetchRequest(), 12)[:-4] + b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["negative", "huge", "short", "unknown api", "malformed", "http", "tls"],
)
@on_broker()
async def test_garbage_ends_its_connection_and_no_other(connect: Connect, garbage: bytes) -> None:
    good = await connect()
    await good.create_topic("t")
    reader, writer = await raw()
    writer.write(garbage)
    assert await has_ended(reader)
    writer.close()
    assert (await fetch(good, fetch_request(Offset(0)))).error_code == 0


@on_broker()
async def test_a_version_nobody_serves_ends_the_connection(connect: Connect) -> None:
    reader, writer = await raw()
    request = bytearray(frame(MetadataRequest(), 1))
    request[6:8] = (99).to_bytes(2, "big")
    writer.write(bytes(request))
    assert await has_ended(reader)
    writer.close()


@on_broker()
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    connect: Connect,
) -> None:
    reader, writer = await raw()
    request = bytearray(frame(ApiVersionsRequest(), 3, correlation_id=77))
    request[6:8] = (99).to_bytes(2, "big")
    writer.write(bytes(request))
    correlation_id, response = decode_response(await read_frame(reader), 18, 0)
    assert correlation_id == 77
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 35
    assert response.api_keys
    # The connection lives on: the client asks again in a version both know.
    writer.write(frame(ApiVersionsRequest(), 2, correlation_id=78))
    assert decode_response(await read_frame(reader), 18, 2)[0] == 78
    writer.close()


@pytest.mark.parametrize(("version", "lowest"), [(3, {}), (4, {"group": 0, "transaction": 0})])
@on_broker()
async def test_features_from_level_0_on_are_told_only_to_clients_that_can_read_them(
    connect: Connect, version: int, lowest: dict[str, int]
) -> None:
    """Java clients 2.7 to 3.8 ask in version 3 and close the connection otherwise."""
    reader, writer = await raw()
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    writer.write(frame(request, version))
    _, response = decode_response(await read_frame(reader), 18, version)
    assert isinstance(response, ApiVersionsResponse)
    supported = {each.name: each.min_version for each in response.supported_features}
    assert supported == {f"{name}.version": level for name, level in lowest.items()}
    levels = [
        level
        for each in response.finalized_features
        for level in (each.min_version_level, each.max_version_level)
    ]
    assert len(levels) == 4
    assert min(levels) >= 1
    writer.close()


@on_broker()
async def test_requests_that_arrive_byte_by_byte_are_served(connect: Connect) -> None:
    reader, writer = await raw()
    for byte in frame(MetadataRequest(), 1, correlation_id=5):
        writer.write(bytes([byte]))
        await asyncio.sleep(0.001)
    assert decode_response(await read_frame(reader), 3, 1)[0] == 5
    writer.close()


@on_broker()
async def test_a_request_behind_a_waiting_fetch_is_answered_after_it(connect: Connect) -> None:
    client, writer = await connect(), await connect()
    await client.create_topic("t")
    order: list[str] = []
    waiting = asyncio.ensure_future(fetch(client, fetch_request(Offset(0), max_wait_ms=60_000)))
    waiting.add_done_callback(lambda _: order.append("fetch"))
    await asyncio.sleep(0.5)
    behind = asyncio.ensure_future(client.ask(MetadataRequest(), MetadataResponse))
    behind.add_done_callback(lambda _: order.append("metadata"))
    await asyncio.sleep(1)
    assert order == []
    await writer.ask(produce_request(batch(b"a")), ProduceResponse, version=9)
    await asyncio.gather(waiting, behind)
    assert order == ["fetch", "metadata"]


@on_broker(connections_max_idle_ms="20000")
async def test_silent_and_dripping_connections_are_reaped_and_busy_ones_are_not(
    connect: Connect,
) -> None:
    silent, silent_writer = await raw()
    dripping, dripping_writer = await raw()
    busy = await connect()
    await busy.create_topic("t")
    request = frame(MetadataRequest(), 1)
    for number in range(12):
        dripping_writer.write(request[number : number + 1])
        await fetch(busy, fetch_request(Offset(0), max_wait_ms=5_000))
    assert await has_ended(silent)
    assert await has_ended(dripping)
    silent_writer.close()
    dripping_writer.close()
    assert (await fetch(busy, fetch_request(Offset(0)))).error_code == 0


@on_broker(max_connections_per_ip="2")
async def test_connections_of_one_address_are_capped(connect: Connect) -> None:
    first = await connect()
    await connect()
    with pytest.raises(ClientError):
        await connect()
    first.connection.close()
    await first.connection.wait_closed()
    await asyncio.sleep(1)
    await connect()


async def test_a_reader_that_does_not_read_costs_no_memory_and_later_gets_everything() -> None:
    """On real sockets, whose buffers are what holds the reader's bytes back."""
    async with serving_on_sockets() as broker:
        host, port = broker.bootstrap.split(":")
        client = Client(await Connection.open(host, int(port)))
        await client.create_topic("t")
        for _ in range(40):
            await client.ask(produce_request(batch(b"x" * 900_000)), ProduceResponse, version=9)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        before = memory_bytes()
        for number in range(10):
            request = fetch_request(Offset(0), partition_max_bytes=50_000_000)
            writer.write(frame(request, 12, correlation_id=number))
        # Another client is served as ever while the reader has 360 MB coming.
        for _ in range(50):
            assert (await fetch(client, fetch_request(Offset(40)))).error_code == 0
        assert memory_bytes() - before < 40_000_000
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(10):
            answer = await read_frame(reader)
            assert int.from_bytes(answer[:4], "big") == number
            assert len(answer) > 40 * 900_000
        writer.close()
        client.connection.close()


def memory_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
