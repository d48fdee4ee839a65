"""The service of the store behind its socket, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from odradek.metadata.remote import SocketMetadata
from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.world import World
from tests.unit.metadata.conftest import InlineWorkers


class Host:
    """What `odradek up` does for its brokers, to be stopped and started again."""

    def __init__(self, directory: Path, world: World | None = None) -> None:
        self.path = str(directory / "metadata.sock")
        self._world = world or World(workers=InlineWorkers())
        self._file = str(directory / "metadata.sqlite")

    async def start(self) -> None:
        self._metadata = SqliteMetadata(self._file, self._world, has_durable_sessions=True)
        self.service = MetadataService(self._metadata, self.path, self._world.randomness)
        await self.service.start()

    async def stop(self) -> None:
        await self.service.close()
        await self._metadata.close()

    def brokers(self, timeout_ms: int = 5_000) -> SocketMetadata:
        return SocketMetadata(self.path, self._world, session_timeout_ms=timeout_ms)


@asynccontextmanager
async def hosted(directory: Path, world: World | None = None) -> AsyncIterator[Host]:
    host = Host(directory, world)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()
