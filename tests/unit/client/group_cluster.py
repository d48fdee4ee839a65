"""A real broker in the simulation, and consumers and producers beside it, in virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.world import World
from simulation.run import run
from simulation.world import Simulation
from tests.inside import inside
from tests.unit.broker.harness import PORT, BrokerHost, Client

BOOTSTRAP = f"broker:{PORT}"


class GroupCluster:
    """What a test of groups and transactions has at hand."""

    def __init__(self, simulation: Simulation, client: Client, host: BrokerHost) -> None:
        self.simulation = simulation
        self.client = client
        self.host = host
        self._clients: list[Consumer | Producer] = []

    def consumer(self, group: str | None = "g", **options: Any) -> Consumer:
        options = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **options}
        if group is not None:
            options["group_id"] = group
        made = Consumer(bootstrap_servers=BOOTSTRAP, world=self.world(), **options)
        self._clients.append(made)
        return made

    def producer(self, **options: Any) -> Producer:
        made = Producer(bootstrap_servers=BOOTSTRAP, world=self.world(), **options)
        self._clients.append(made)
        return made

    def world(self) -> World:
        """One a client: each has a randomness of its own."""
        return self.simulation.host(f"client-{len(self._clients)}").world()

    async def fill(self, topic: str, count: int, partitions: int = 1) -> None:
        """Records 0, 1, 2, ... one partition after the other."""
        async with self.producer(linger_ms=0) as producer:
            for number in range(count):
                await producer.send(topic, b"%d" % number, partition=number % partitions)

    async def close(self) -> None:
        for one in self._clients:
            await one.close()


def with_groups(
    test: Callable[[GroupCluster], Awaitable[None]], *, seed: int = 1, **properties: str
) -> None:
    """Runs a test against a fresh broker, in virtual time."""

    async def main(simulation: Simulation) -> None:
        named = {
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "100",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
        host = BrokerHost(simulation, named)
        async with (
            host.running() as connect,
            _closed(GroupCluster(simulation, await connect(), host)) as cluster,
        ):
            await test(cluster)

    run(main, seed)


on_groups = inside(with_groups)
"""Decorates a test that `with_groups` runs."""


@asynccontextmanager
async def _closed(cluster: GroupCluster) -> AsyncIterator[GroupCluster]:
    try:
        yield cluster
    finally:
        await cluster.close()
