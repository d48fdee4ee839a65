"""A broker that could not start is started again where its store may be away, and only there."""

import asyncio

import pytest

from odradek.broker.broker import BrokerCannotStart
from simulation.run import run
from simulation.scenarios.faulty_cluster import FaultyCluster
from simulation.world import Simulation


def ended_with(error: Exception) -> "asyncio.Task[None]":
    async def end() -> None:
        raise error

    return asyncio.ensure_future(end())


def test_a_broker_that_could_not_start_is_started_again() -> None:
    """Whoever looks first: the supervisor looks now and then, the scenario after each fault."""

    async def main(simulation: Simulation) -> None:
        cluster = FaultyCluster(simulation, 2)
        broker = cluster.brokers[0]
        broker._task = ended_with(BrokerCannotStart("the store is away"))
        await asyncio.wait([broker._task])
        with pytest.raises(BrokerCannotStart):
            cluster.require_alive()
        cluster.is_supervised = True
        cluster.require_alive()
        assert broker.is_running
        broker.kill()

    run(main, seed=1)


def test_any_other_end_of_a_broker_ends_the_run() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = FaultyCluster(simulation, 2)
        cluster.is_supervised = True
        broker = cluster.brokers[0]
        broker._task = ended_with(ValueError("a defect"))
        await asyncio.wait([broker._task])
        with pytest.raises(ValueError, match="a defect"):
            cluster.require_alive()

    run(main, seed=1)
