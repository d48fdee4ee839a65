"""Limits of new connections: by address, by listener, and for the whole broker."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from odradek.broker import Broker
from odradek.client.connection import Connection
from odradek.client.errors import ClientError
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.broker_settings import check_broker_overrides
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.world import World
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import PORT, Client, on_broker
from tests.unit.broker.limits.quota_requests import alter

Connect = Callable[[], Awaitable[Client]]


async def is_served(port: int = PORT) -> Connection | None:
    """Connects and asks; returns None if the broker does not serve the connection."""
    try:
        connection = await Connection.open("broker", port, client_id="test")
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    except (ClientError, OSError):
        return None
    return connection


@on_broker()
async def test_connections_of_an_address_keep_to_its_rate(connect: Connect) -> None:
    client = await connect()
    await alter(client, {"ip": None}, connection_creation_rate=5)
    loop = asyncio.get_running_loop()
    begin_s, served = loop.time(), 0

    async def keep_connecting() -> None:
        nonlocal served
        while loop.time() < begin_s + 20:
            connection = await is_served()
            if connection is not None:
                served += 1
                connection.close()

    await asyncio.gather(*(keep_connecting() for _ in range(10)))
    assert served / (loop.time() - begin_s) == pytest.approx(5, rel=0.1)
    # The connection that was there before is served as ever, and can lift the limit.
    await alter(client, {"ip": None}, connection_creation_rate=None)
    for _ in range(20):
        assert await is_served() is not None


def with_listeners(test: Callable[[], Awaitable[None]], properties: Mapping[str, str]) -> None:
    async def main(simulation: Simulation) -> None:
        ready = simulation.loop.create_future()
        settings = BrokerSettings.from_properties(
            {
                "listeners": "INTERNAL://broker:9092,OUTSIDE://broker:9093",
                "listener.security.protocol.map": "INTERNAL:PLAINTEXT,OUTSIDE:PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
                "log.dirs": "/data",
                "odradek.metadata.store": "memory",
                **properties,
            }
        )

        async def program(world: World) -> None:
            await Broker(settings, world).run(on_ready=lambda: ready.set_result(None))

        task = simulation.host("broker").start(program, "broker")
        await ready
        try:
            await test()
        finally:
            task.cancel()
            await asyncio.wait([task])

    run(main, seed=1)


def test_a_listener_has_a_limit_of_its_own() -> None:
    async def test() -> None:
        first, second = await is_served(9093), await is_served(9093)
        assert first is not None
        assert second is not None
        assert await is_served(9093) is None
        assert await is_served(9092) is not None
        first.close()
        async with asyncio.timeout(5):
            while await is_served(9093) is None:
                pass

    with_listeners(test, {"listener.name.outside.max.connections": "2"})


def test_a_listener_has_a_rate_of_its_own() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        for _ in range(8):
            assert await is_served(9093) is not None
        # A burst of two is served at once, and the others every half second.
        assert loop.time() - begin_s == pytest.approx(3, abs=0.6)
        begin_s = loop.time()
        for _ in range(8):
            assert await is_served(9092) is not None
        assert loop.time() - begin_s < 0.5

    with_listeners(test, {"listener.name.outside.max.connection.creation.rate": "2"})


def test_brokers_are_not_kept_out_by_clients() -> None:
    async def test() -> None:
        first, second = await is_served(9093), await is_served(9093)
        assert first is not None
        assert second is not None
        assert await is_served(9093) is None
        # The listener between brokers is let in, and the client is closed that idled longest.
        assert await is_served(9092) is not None
        async with asyncio.timeout(5):
            await first.wait_closed()
        assert second.is_open

    with_listeners(test, {"max.connections": "2"})


def test_a_bad_limit_of_a_listener_is_refused_by_its_full_name() -> None:
    name = "listener.name.plaintext.max.connections"
    with pytest.raises(InvalidSetting, match=name):
        BrokerSettings.from_properties({name: "many"})
    with pytest.raises(InvalidSetting, match=r"max\.connections"):
        check_broker_overrides({name: "-1"}, BrokerSettings(), per_broker=True)
    settings = BrokerSettings.from_properties({name: "5"})
    assert settings.of_listener("PLAINTEXT", BrokerSettings.max_connections) == 5
    assert settings.max_connections == BrokerSettings.max_connections.default
    assert not settings.warnings
    assert not settings.without_effect
