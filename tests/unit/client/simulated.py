"""Runs a test of the client and its brokers in one simulated world."""

from collections.abc import Awaitable, Callable

from simulation.run import run
from simulation.world import Simulation
from tests.inside import inside
from tests.unit.client.mini_cluster import MiniCluster

Test = Callable[[MiniCluster, Simulation], Awaitable[None]]


def simulate(test: Test, *, brokers: int = 1, seed: int = 1) -> None:
    """Brokers on the host of the test; a second of virtual time costs nothing."""

    async def main(simulation: Simulation) -> None:
        cluster = await MiniCluster(brokers).start()
        await test(cluster, simulation)
        await cluster.stop()

    run(main, seed)


in_simulation = inside(simulate, handed=2)
"""Decorates a test that `simulate` runs."""
