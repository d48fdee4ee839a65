"""The quota on the time of the event loop, with a stopwatch of the test."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.types import Offset
from odradek.world.timeslice import measured_by
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.limits.quota_requests import alter, client_named, send
from tests.unit.broker.test_produce_and_fetch import fetch_request

Connect = Callable[[], Awaitable[Client]]


def ticking(step_s: float) -> Callable[[], float]:
    """Returns a stopwatch that goes on by so much with each look at it."""
    now_s = 0.0

    def read() -> float:
        nonlocal now_s
        now_s += step_s
        return now_s

    return read


@on_broker()
async def test_time_above_the_limit_is_waited_for(connect: Connect) -> None:
    client = await connect()
    await alter(client, {"client-id": "busy"}, request_percentage=10)
    busy = await client_named("busy")
    loop = asyncio.get_running_loop()
    with measured_by(ticking(0.001)):
        begin_s, asked, told = loop.time(), 0, 0
        while loop.time() < begin_s + 20:
            response = await busy.ask(MetadataRequest(topics=[]), MetadataResponse, version=8)
            asked += 1
            told = max(told, response.throttle_time_ms)
        assert 0 < told <= 1000
        # Each request is at least two steps long: one to the end of the handler, one for the rest.
        assert asked * 0.002 / 20 <= 0.11
        assert asked * 0.004 / 20 >= 0.09
        # Others are not limited.
        begin_s = loop.time()
        for _ in range(100):
            await client.ask(MetadataRequest(topics=[]), MetadataResponse)
        assert loop.time() - begin_s < 1
    busy.connection.close()


@on_broker()
async def test_waiting_is_not_time_of_the_event_loop(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"client-id": "waiting"}, request_percentage=1)
    waiting = await client_named("waiting")
    with measured_by(ticking(1e-6)):
        for _ in range(5):
            response = await waiting.ask(
                fetch_request(Offset(0), max_wait_ms=1000), FetchResponse, version=12
            )
            assert response.throttle_time_ms == 0
    waiting.connection.close()


@on_broker()
async def test_sending_records_counts(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await send(client, 100_000)
    await alter(client, {"client-id": "reader"}, request_percentage=50)
    reader = await client_named("reader")
    with measured_by(ticking(0.1)):
        response = await reader.ask(fetch_request(Offset(0)), FetchResponse, version=12)
        assert response.responses
        assert response.throttle_time_ms == 0  # a tenth of a second for the handler
        throttled = 0
        for _ in range(10):
            response = await reader.ask(fetch_request(Offset(0)), FetchResponse, version=12)
            throttled += bool(response.throttle_time_ms)
            assert response.throttle_time_ms <= 1000
        assert throttled
        assert pytest.approx(0) == response.error_code
    reader.connection.close()
