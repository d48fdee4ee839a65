import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.client import Connection
from odradek.client.errors import (
    BadResponse,
    ConnectionClosed,
    ConnectionFailed,
    RequestTimedOut,
    UnsupportedVersion,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Request, Response
from simulation.run import run
from tests.inside import inside
from tests.unit.client.mini_cluster import Close, MiniCluster


def simulate(test: Callable[[MiniCluster], Awaitable[None]], **options: object) -> None:
    async def main(_: object) -> None:
        cluster = await MiniCluster().start()
        await test(cluster)
        await cluster.stop()

    run(main, 1)


in_simulation = inside(simulate)
"""Decorates a test that `simulate` runs."""


async def connect(cluster: MiniCluster, **options: int) -> Connection:
    return await Connection.open("127.0.0.1", cluster.ports[1], **options)  # type: ignore[arg-type]


@in_simulation()
async def test_a_request_gets_its_response_in_the_newest_shared_version(
    cluster: MiniCluster,
) -> None:
    connection = await connect(cluster)
    response = await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    assert response.cluster_id == "mini"
    assert cluster.requests[-1][2] == 13
    cluster.served[3] = (0, 7)
    older = await connect(cluster)
    response = await older.request(MetadataRequest(topics=[]), MetadataResponse)
    assert response.controller_id == 1
    assert cluster.requests[-1][2] == 7
    await older.request(MetadataRequest(topics=[]), MetadataResponse, max_version=5)
    assert cluster.requests[-1][2] == 5
    connection.close()
    older.close()


def test_an_old_broker_that_does_not_know_our_api_versions_is_asked_again() -> None:
    def refuse(request: Request) -> Response:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)],
        )

    async def test(cluster: MiniCluster) -> None:
        cluster.fail_next(ApiVersionsRequest, refuse)
        connection = await connect(cluster)
        assert [version for _, _, version in cluster.requests] == [4, 2]
        assert connection.api_versions[3] == (0, 13)
        connection.close()

    simulate(test)


@in_simulation()
async def test_api_versions_can_be_carried_over(cluster: MiniCluster) -> None:
    first = await connect(cluster)
    second = await Connection.open("127.0.0.1", cluster.ports[1], api_versions=first.api_versions)
    await second.request(MetadataRequest(topics=[]), MetadataResponse)
    assert cluster.count(ApiVersionsRequest) == 1
    first.close()
    second.close()


@in_simulation()
async def test_an_api_that_the_broker_lacks_is_an_error_with_both_ranges(
    cluster: MiniCluster,
) -> None:
    cluster.served[3] = (14, 15)
    del cluster.served[0]
    connection = await connect(cluster)
    with pytest.raises(UnsupportedVersion, match="Metadata versions 14 to 15, this client 0"):
        await connection.request(MetadataRequest(), MetadataResponse)
    with pytest.raises(UnsupportedVersion, match="does not offer Produce"):
        connection.send_without_reply(ProduceRequest())
    assert not connection.supports(MetadataRequest)
    connection.close()


@in_simulation()
async def test_requests_are_pipelined_and_answered_in_order(cluster: MiniCluster) -> None:
    connection = await connect(cluster)
    futures = [connection.send(MetadataRequest(topics=[]), MetadataResponse) for _ in range(100)]
    assert connection.in_flight == 100
    done = await asyncio.gather(*futures)
    assert len(done) == 100
    assert connection.in_flight == 0
    connection.close()


@in_simulation()
async def test_no_more_than_max_in_flight_requests_wait_and_nobody_is_overtaken(
    cluster: MiniCluster,
) -> None:
    connection = await connect(cluster, max_in_flight=2)
    order: list[int] = []
    most = 0

    async def ask(number: int) -> None:
        nonlocal most
        future = asyncio.ensure_future(
            connection.request(MetadataRequest(topics=[]), MetadataResponse)
        )
        await asyncio.sleep(0)
        most = max(most, connection.in_flight)
        await future
        order.append(number)

    await asyncio.gather(*(ask(number) for number in range(20)))
    assert order == list(range(20))
    assert most == 2
    connection.close()


@in_simulation()
async def test_a_cancelled_request_that_waits_for_its_turn_gives_the_turn_on(
    cluster: MiniCluster,
) -> None:
    connection = await connect(cluster, max_in_flight=1)
    asked = [
        asyncio.ensure_future(connection.request(MetadataRequest(topics=[]), MetadataResponse))
        for _ in range(4)
    ]
    await asyncio.sleep(0)
    asked[1].cancel()
    asked[0].cancel()
    await asyncio.gather(*asked[2:])
    connection.close()


@in_simulation()
async def test_a_request_without_answer_times_out_and_ends_the_connection(
    cluster: MiniCluster,
) -> None:
    connection = await connect(cluster, request_timeout_ms=30_000)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    # Nothing is answered on a connection whose peer does not read on.
    cluster.connections[0].data_received = lambda data: None  # type: ignore[method-assign]
    first = connection.send(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=5_000)
    second = connection.send(MetadataRequest(topics=[]), MetadataResponse)
    with pytest.raises(RequestTimedOut, match="did not answer Metadata in time"):
        await first
    assert 5 <= loop.time() - begun_s < 5.1
    with pytest.raises(ConnectionClosed):
        await second
    assert not connection.is_open
    with pytest.raises(ConnectionClosed, match="did not answer"):
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    await connection.wait_closed()


@in_simulation()
async def test_a_connection_that_ends_fails_all_that_waits(cluster: MiniCluster) -> None:
    connection = await connect(cluster, max_in_flight=2)
    cluster.fail_next(MetadataRequest, Close)
    asked = [connection.request(MetadataRequest(topics=[]), MetadataResponse) for _ in range(5)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(outcome, ConnectionClosed) for outcome in outcomes)
    await connection.wait_closed()


@in_simulation()
async def test_closing_fails_what_waits_and_frees_the_socket(cluster: MiniCluster) -> None:
    connection = await connect(cluster)
    future = connection.send(MetadataRequest(topics=[]), MetadataResponse)
    connection.close()
    with pytest.raises(ConnectionClosed, match="closed here"):
        await future
    await connection.wait_closed()
    await asyncio.sleep(1)
    assert cluster.connections == []


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\x00\x00\x00\x08\x00\x00\x00\x63abcd", "a request that was never sent"),
        (b"\x00\x00\x00\x02ab", "a request that was never sent"),
        (b"\xff\xff\xff\xff", "sent no response but a frame of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request", "sent no response but a frame of"),
        (b"\x00\x00\x00\x09\x0d\x0a\x0d\x0b\x00abcd", "malformed response"),
    ],
)
@in_simulation()
async def test_bytes_that_are_no_response_end_the_connection(
    cluster: MiniCluster, sent: bytes, said: str
) -> None:
    connection = await connect(cluster)
    peer = cluster.connections[0]
    peer.data_received = lambda data: peer.transport.write(sent)  # type: ignore[method-assign]
    with pytest.raises((BadResponse, ConnectionClosed)) as raised:
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    assert said in str(raised.value)
    assert not connection.is_open
    await connection.wait_closed()


@in_simulation()
async def test_nobody_there_and_no_kafka_there(cluster: MiniCluster) -> None:
    with pytest.raises(ConnectionFailed, match=r"^cannot connect to 127\.0\.0\.1:1: conn"):
        await Connection.open("127.0.0.1", 1)
    cluster.fail_next(ApiVersionsRequest, Close)
    with pytest.raises(ConnectionFailed, match=r"that security\.protocol says"):
        await connect(cluster)


def test_a_silent_host_does_not_hold_up_for_ever() -> None:
    async def main(simulation: object) -> None:
        simulation.host("far")  # type: ignore[attr-defined]
        simulation.network.cut("main", "far")  # type: ignore[attr-defined]
        with pytest.raises(ConnectionFailed, match="did not accept a connection within 3000 ms"):
            await Connection.open("far", 9092, connect_timeout_ms=3_000)

    run(main, 1)
