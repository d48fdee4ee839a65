"""The implementations under one roof: what the contract asks of one, it asks of all."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.sqlite import SqliteMetadata
from odradek.world import World

T = TypeVar("T")

Metadata = MemoryMetadata | SqliteMetadata
Scenario = Callable[[Metadata], Awaitable[None]]
Run = Callable[[Scenario], None]


class InlineWorkers:
    """Workers for tests that need no thread."""

    async def run_blocking(self, call: Callable[[], T]) -> T:
        return call()

    def close(self) -> None:
        pass


@pytest.fixture(params=["memory", "sqlite", "sqlite-threaded"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario on a new store of each kind."""

    async def play(scenario: Scenario) -> None:
        world = World() if request.param == "sqlite-threaded" else World(workers=InlineWorkers())
        metadata: Metadata
        if request.param == "memory":
            metadata = MemoryMetadata()
        else:
            metadata = SqliteMetadata(str(tmp_path / "metadata.sqlite"), world)
        try:
            await scenario(metadata)
        finally:
            await metadata.close()
            world.workers.close()

    return lambda scenario: asyncio.run(play(scenario))
