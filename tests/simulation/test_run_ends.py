"""What a scenario changes outside the simulation is taken back, however a run ends."""

import asyncio

import pytest

from odradek.broker.features import FEATURES
from odradek.broker.handlers.api_versions import make_response
from odradek.protocol.errors import ErrorCode
from odradek.transactions import transaction
from simulation import Simulation, run
from simulation.loop import SimulationError
from simulation.scenarios.transactions import few_epochs, in_force

LAST_EPOCH = transaction.LAST_EPOCH


def told_version() -> int:
    """The level of `transaction.version` that brokers tell their clients."""
    told = make_response(ErrorCode.NONE, 4, has_telemetry=False).finalized_features
    return next(one.max_version_level for one in told if one.name == "transaction.version")


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_stays_of_a_run_that_is_never_resumed(version: int) -> None:
    before, told = FEATURES["transaction.version"], told_version()
    during: list[int] = []

    async def main(simulation: Simulation) -> None:
        in_force(simulation, version)
        few_epochs(simulation)
        during.append(told_version())
        assert transaction.LAST_EPOCH < LAST_EPOCH
        simulation.loop.fail("something is wrong", AssertionError())
        await asyncio.sleep(1)

    with pytest.raises(SimulationError):
        run(main, 1)
    assert during == [version]
    assert FEATURES["transaction.version"] == before
    assert told_version() == told
    assert transaction.LAST_EPOCH == LAST_EPOCH
