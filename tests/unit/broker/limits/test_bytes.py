"""Quotas on bytes in virtual time: rates, throttle times, muted connections, who shares what."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.connection import Connection
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.types import BrokerId, Offset
from tests.unit.broker.harness import PORT, Client, on_broker
from tests.unit.broker.limits.quota_requests import (
    alter,
    client_named,
    produce_for,
    records,
    send,
)
from tests.unit.broker.test_produce_and_fetch import fetch_request

Connect = Callable[[], Awaitable[Client]]
LIMIT = 100_000


def seconds() -> float:
    return asyncio.get_running_loop().time()


@on_broker()
async def test_a_producer_keeps_to_its_limit(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    assert await alter(client, {"client-id": "limited"}, producer_byte_rate=LIMIT) == (0, None)
    limited = await client_named("limited")
    assert await produce_for(limited, 20, 10_000) == pytest.approx(LIMIT, rel=0.1)
    # Others are not limited.
    assert await send(client, 900_000) == 0
    # The limit is lifted live.
    await alter(client, {"client-id": "limited"}, producer_byte_rate=None)
    await send(limited, 1)
    begin_s = seconds()
    for _ in range(100):
        assert await send(limited, 100_000) == 0
    assert seconds() - begin_s < 5
    limited.connection.close()


@on_broker()
async def test_two_connections_of_a_client_share_its_limit(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"user": "ANONYMOUS"}, producer_byte_rate=LIMIT)
    clients = [await client_named(name) for name in ("a", "b", "b")]
    rates = await asyncio.gather(*(produce_for(one, 20, 5_000) for one in clients))
    assert sum(rates) == pytest.approx(LIMIT, rel=0.1)
    for one in clients:
        one.connection.close()


@on_broker()
async def test_the_default_of_client_ids_limits_each_of_them(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"client-id": None}, producer_byte_rate=LIMIT)
    clients = [await client_named(name) for name in ("a", "b")]
    rates = await asyncio.gather(*(produce_for(one, 20, 5_000) for one in clients))
    assert rates == pytest.approx([LIMIT, LIMIT], rel=0.1)
    for one in clients:
        one.connection.close()


@on_broker()
async def test_a_client_that_connects_again_gains_nothing(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"client-id": "again"}, producer_byte_rate=LIMIT)
    begin_s, sent = seconds(), 0
    while seconds() < begin_s + 20:
        again = await client_named("again")
        await send(again, 50_000)
        sent += 50_000
        again.connection.close()
    assert sent / (seconds() - begin_s) == pytest.approx(LIMIT, rel=0.1)


@on_broker()
async def test_a_throttled_connection_is_answered_at_once_and_not_read_from(
    connect: Connect,
) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"client-id": "limited"}, producer_byte_rate=LIMIT)
    limited = await client_named("limited")
    begin_s = seconds()
    throttle_ms = await send(limited, 300_000)
    assert seconds() - begin_s < 0.5
    assert 1900 <= throttle_ms <= 2100
    await limited.ask(MetadataRequest(topics=[]), MetadataResponse)
    assert seconds() - begin_s == pytest.approx(throttle_ms / 1000, abs=0.1)
    # Another connection of the client is read from.
    other = await client_named("limited")
    await send(limited, 300_000)
    begin_s = seconds()
    await other.ask(MetadataRequest(topics=[]), MetadataResponse)
    assert seconds() - begin_s < 0.5
    for one in (limited, other):
        one.connection.close()


@on_broker()
async def test_records_without_acknowledgement_are_limited_too(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await alter(client, {"client-id": "silent"}, producer_byte_rate=LIMIT)
    silent = await client_named("silent")
    begin_s = seconds()
    for _ in range(40):
        silent.connection.send_without_reply(records(50_000, acks=0), max_version=9)
    await silent.ask(MetadataRequest(topics=[]), MetadataResponse)
    # The last request waits for the throttle of the last but one: one window is free.
    assert seconds() - begin_s == pytest.approx(40 * 50_000 / LIMIT - 1, rel=0.1)
    silent.connection.close()


async def consume_for(client: Client, duration_s: float, **request: int) -> tuple[float, int, int]:
    """Fetches as fast as it may, in a session. Returns bytes a second, how many responses were
    empty and throttled, and the longest throttle time."""
    begin_s, read, throttled, longest_ms = seconds(), 0, 0, 0
    session_id = epoch = 0
    while seconds() < begin_s + duration_s:
        full = fetch_request(Offset(0))
        asked = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=full.topics if not epoch else [],
        )
        response = await client.ask(asked, FetchResponse, version=12)
        assert response.error_code == 0
        size = sum(
            len(data.records or b"") for topic in response.responses for data in topic.partitions
        )
        if response.throttle_time_ms:
            assert not response.responses
            throttled += 1
            longest_ms = max(longest_ms, response.throttle_time_ms)
        if response.throttle_time_ms and not response.session_id:
            session_id = epoch = 0  # As Kafka's clients do.
        else:
            session_id, epoch = response.session_id, epoch + 1
        read += size
    return read / (seconds() - begin_s), throttled, longest_ms


@on_broker()
async def test_a_consumer_keeps_to_its_limit(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    for _ in range(100):
        await send(client, 20_000)
    await alter(client, {"client-id": "reader"}, consumer_byte_rate=LIMIT)
    reader = await client_named("reader")
    rate, throttled, longest_ms = await consume_for(reader, 20)
    assert rate == pytest.approx(LIMIT, rel=0.1)
    assert throttled > 10
    assert longest_ms <= 1000
    # A new connection of the client has to wait as well.
    reader.connection.close()
    again = await client_named("reader")
    rate, _, _ = await consume_for(again, 20)
    assert rate == pytest.approx(LIMIT, rel=0.1)
    again.connection.close()


@on_broker()
async def test_a_batch_larger_than_the_limit_is_delivered(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await send(client, 500_000)
    await alter(client, {"client-id": "reader"}, consumer_byte_rate=LIMIT)
    reader = await client_named("reader")
    response = await reader.ask(fetch_request(Offset(0)), FetchResponse, version=12)
    assert len(response.responses[0].partitions[0].records or b"") > 500_000
    response = await reader.ask(fetch_request(Offset(0)), FetchResponse, version=12)
    assert response.throttle_time_ms == pytest.approx(4000, rel=0.1)
    assert not response.responses
    reader.connection.close()


@on_broker()
async def test_followers_are_exempt(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await send(client, 500_000)
    await alter(client, {"client-id": None}, consumer_byte_rate=1000, request_percentage=0.001)
    follower = Client(await Connection.open("broker", PORT, client_id="broker-2"))
    for _ in range(3):
        request = fetch_request(Offset(0))
        request.replica_id = BrokerId(2)
        response = await follower.ask(request, FetchResponse, version=12)
        assert response.throttle_time_ms == 0
    follower.connection.close()
