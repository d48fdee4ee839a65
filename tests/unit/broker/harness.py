"""A broker on the simulated network and raw requests to it: every API in the version asked for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from odradek.broker import Broker
from odradek.client.connection import Connection
from odradek.config import BrokerSettings
from odradek.metadata import Metadata
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.records import BatchBuilder
from odradek.protocol.schema import Request, Response
from odradek.world import MemoryDisk, World
from simulation.run import run
from simulation.world import Simulation
from tests.inside import inside

R = TypeVar("R", bound=Response)

PORT = 9092


class Client:
    """Sends one request at a time and checks the type of the answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(self, request: Request, expected: type[R], *, version: int | None = None) -> R:
        response = await self.connection.request(request, expected, max_version=version)
        assert isinstance(response, expected)
        return response

    async def create_topic(self, name: str, partitions: int = 1, **overrides: str) -> bytes:
        response = await self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in overrides.items()
                        ],
                    )
                ]
            ),
            CreateTopicsResponse,
        )
        assert response.topics[0].error_code == 0, response
        return response.topics[0].topic_id


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    builder = BatchBuilder()
    for number, value in enumerate(values):
        builder.append(b"key", value, [], timestamp_ms + number)
    return builder.build()


class BrokerHost:
    """A simulated machine with one broker; its disk and metadata outlive the broker."""

    def __init__(self, simulation: Simulation, properties: Mapping[str, str]) -> None:
        self.simulation = simulation
        self.host = simulation.host("broker")
        self.metadata = MemoryMetadata()
        self._properties = {
            "listeners": f"PLAINTEXT://broker:{PORT}",
            "log.dirs": "/data",
            **properties,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
        """Runs the broker; the body gets a function that opens connections to it."""
        ready = self.simulation.loop.create_future()
        settings = BrokerSettings.from_properties(self._properties)

        async def program(world: World) -> None:
            broker = Broker(settings, world, self.metadata)
            await broker.run(on_ready=lambda: ready.set_result(None))

        task = self.host.start(program, "broker")
        await ready
        opened: list[Connection] = []

        async def connect() -> Client:
            connection = await Connection.open("broker", PORT, client_id="test")
            opened.append(connection)
            return Client(connection)

        try:
            yield connect
        finally:
            for connection in opened:
                connection.close()
            task.cancel()
            await asyncio.wait([task])


def with_broker(
    test: Callable[[Callable[[], Awaitable[Client]]], Awaitable[None]], **properties: str
) -> None:
    """Runs a test against a fresh broker, in virtual time."""

    async def main(simulation: Simulation) -> None:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        async with BrokerHost(simulation, named).running() as connect:
            await test(connect)

    run(main, seed=1)


on_broker = inside(with_broker)
"""Decorates a test that `with_broker` runs."""


@asynccontextmanager
async def serving_on_sockets(
    properties: Mapping[str, str] | None = None,
    world: World | None = None,
    metadata: Metadata | None = None,
) -> AsyncIterator[Broker]:
    """A broker on real sockets of the loopback interface; its disk and its metadata store are in
    memory if `world` and `metadata` do not bring others."""
    settings = BrokerSettings.from_properties(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "odradek.metadata.store": "memory",
            "log.dirs": "/data",
            **(properties or {}),
        }
    )
    broker = Broker(settings, world or World(disk=MemoryDisk()), metadata)
    ready = asyncio.Event()
    serving = asyncio.ensure_future(broker.run(on_ready=ready.set))
    await ready.wait()
    try:
        yield broker
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
