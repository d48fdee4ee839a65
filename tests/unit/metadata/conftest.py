"""The implementations under one roof: what the contract asks of one, it asks of all."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.metadata import Metadata
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.remote import SocketMetadata
from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.zookeeper import ZookeeperMetadata
from odradek.world import World
from tests.needs import need
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars

T = TypeVar("T")

Scenario = Callable[[Metadata], Awaitable[None]]
Run = Callable[[Scenario], None]


class InlineWorkers:
    """Workers for tests that need no thread."""

    async def run_blocking(self, call: Callable[[], T]) -> T:
        return call()

    compute = run_blocking

    def close(self) -> None:
        pass


@asynccontextmanager
async def served(directory: Path, timeout_ms: int = 6_000) -> AsyncIterator[SocketMetadata]:
    """A store in a file, served at a socket beside it."""
    world = World(workers=InlineWorkers())
    owned = SqliteMetadata(str(directory / "metadata.sqlite"), world, has_durable_sessions=True)
    path = str(directory / "metadata.sock")
    service = MetadataService(owned, path, world.randomness)
    await service.start()
    metadata = SocketMetadata(path, world, session_timeout_ms=timeout_ms)
    try:
        yield metadata
    finally:
        await metadata.close()
        await service.close()
        await owned.close()


@asynccontextmanager
async def opened(kind: str, directory: Path, address: str) -> AsyncIterator[Metadata]:
    if kind == "socket":
        async with served(directory) as remote:
            yield remote
        return
    world = World() if kind == "sqlite-threaded" else World(workers=InlineWorkers())
    metadata: Metadata
    if kind == "memory":
        metadata = MemoryMetadata()
    elif kind == "zookeeper":
        metadata = ZookeeperMetadata(address, world)
    else:
        metadata = SqliteMetadata(str(directory / "metadata.sqlite"), world)
    try:
        yield metadata
    finally:
        await metadata.close()
        world.workers.close()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real ZooKeeper server."""
    jars = need(zookeeper_jars)
    with Ensemble(jars, tmp_path_factory.mktemp("ensemble")) as ensemble:
        yield ensemble.address


@pytest.fixture(params=["memory", "sqlite", "sqlite-threaded", "socket", "zookeeper"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario on a new store of each kind."""
    kind = request.param
    address = request.getfixturevalue("zookeeper") if kind == "zookeeper" else ""

    async def play(scenario: Scenario) -> None:
        async with opened(kind, tmp_path, f"{address}/{uuid.uuid4().hex}") as metadata:
            await scenario(metadata)

    return lambda scenario: asyncio.run(play(scenario))
