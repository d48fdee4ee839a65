"""Several brokers on the simulated network with one store, and what an operator asks of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from odradek.client.connection import Connection
from odradek.metadata import ClusterImage
from odradek.metadata.image import PartitionImage
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.world import World
from simulation import Simulation, run
from simulation.simulated_broker import SimulatedBroker
from tests.inside import inside
from tests.unit.metadata.images import image_of

R = TypeVar("R", bound=Response)


class Crew:
    """Brokers 1 to n. `image` is what the store holds, not what any broker believes."""

    def __init__(
        self, simulation: Simulation, size: int, properties: Mapping[str, str] | None = None
    ) -> None:
        self.simulation = simulation
        self.store = MemoryMetadata()
        self._properties = properties or {}
        self.brokers = {number: self._broker(number) for number in range(1, size + 1)}

    def _broker(self, number: int) -> SimulatedBroker:
        return SimulatedBroker(self.simulation, self.store, number, self._properties)

    @property
    def image(self) -> ClusterImage:
        return image_of(self.store.tree.read_tree("/"))

    def partition(self, topic: str = "t", index: int = 0) -> PartitionImage:
        found = self.image.partition(topic, index)
        assert found is not None
        return found

    async def until(self, holds: Callable[[], bool], within_s: float = 5.0) -> float:
        """Waits until something holds; returns how long that took, in virtual seconds."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not holds():
            for broker in self.brokers.values():
                broker.require_alive()
            assert loop.time() - began_s < within_s, self.describe()
            await asyncio.sleep(0.005)
        return loop.time() - began_s

    def describe(self) -> str:
        image = self.image
        lines = [f"brokers {list(image.brokers)}, controller {image.controller_id}"]
        lines += [str(one) for topic in image.topics.values() for one in topic.partitions]
        return "\n".join(lines)

    async def start(self, *numbers: int) -> None:
        chosen = numbers or tuple(self.brokers)
        for number in chosen:
            self.brokers[number].start()
        await self.until(lambda: all(number in self.image.brokers for number in chosen))
        await self.until(lambda: self.image.controller_id in self.image.brokers)

    async def add_broker(self) -> None:
        number = max(self.brokers) + 1
        self.brokers[number] = self._broker(number)
        await self.start(number)

    async def ask(self, number: int, request: Request, expected: type[R]) -> R:
        """Sends one request to a broker, as some operator."""

        async def program(world: World) -> R:
            connection = await Connection.open(f"broker-{number}", 9092, client_id="operator")
            try:
                response = await connection.request(request, expected)
            finally:
                connection.close()
            assert isinstance(response, expected)
            return response

        return await self.simulation.host("operator").start(program)

    async def create(
        self,
        name: str = "t",
        assignment: Mapping[int, list[int]] | None = None,
        *,
        by: int = 1,
        **overrides: str,
    ) -> None:
        """A topic whose partition 0 has the replicas 1, 2, 3 unless told otherwise."""
        chosen = assignment or {0: [1, 2, 3]}
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in chosen.items()
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in overrides.items()
            ],
        )
        response = await self.ask(by, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert response.topics[0].error_code == 0, response


def with_crew(
    story: Callable[[Crew], Awaitable[None]], size: int = 3, seed: int = 1, **properties: str
) -> None:
    """Runs a story with brokers that are all there, in virtual time."""

    async def main(simulation: Simulation) -> None:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        crew = Crew(simulation, size, named)
        await crew.start()
        await story(crew)

    story_run: Callable[[Simulation], Coroutine[Any, Any, None]] = main
    run(story_run, seed)


on_crew = inside(with_crew)
"""Decorates a test that `with_crew` runs."""
