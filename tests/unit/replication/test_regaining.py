"""Whether a coordinator that was refused for want of a lease goes on where it was."""

import asyncio
from typing import Any, cast

import pytest

from odradek.protocol.types import BrokerId, LeaderEpoch
from odradek.replication import coordinator_partitions
from odradek.replication.coordinator_partitions import CoordinatorPartitions, _Coordinator
from odradek.world import SystemClock
from simulation.run import run
from simulation.world import Simulation


class Replicas:
    is_leased = False


class Loaded:
    """A runner whose machine is loaded."""

    is_loaded = True
    may_answer = True


def kept(runner: Loaded) -> _Coordinator[Any, Any]:
    made: _Coordinator[Any, Any] = _Coordinator(LeaderEpoch(0))
    made.runner = cast("Any", runner)
    return made


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


@pytest.fixture
def machines(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> CoordinatorPartitions[Any, Any]:
    monkeypatch.setattr(coordinator_partitions, "partition_of", lambda *_: 0)
    nobody = cast("Any", None)
    made: CoordinatorPartitions[Any, Any] = CoordinatorPartitions(
        "topic", BrokerId(1), cast("Any", replicas), SystemClock(), nobody, perform=nobody
    )
    made._coordinators[0] = kept(Loaded())
    return made


def test_a_lease_that_is_back_before_anybody_saw_it_gone_is_noticed(
    machines: CoordinatorPartitions[Any, Any], replicas: Replicas
) -> None:
    async def main(_: Simulation) -> None:
        waiting = asyncio.ensure_future(machines.regains("key"))
        await asyncio.sleep(0.1)
        replicas.is_leased = True  # Nobody calls `wake`.
        async with asyncio.timeout(5):
            assert await waiting

    run(main, seed=1)


async def test_a_machine_that_was_loaded_anew_meanwhile_is_not_the_one_that_was_refused(
    machines: CoordinatorPartitions[Any, Any], replicas: Replicas
) -> None:
    first = Loaded()
    machines._coordinators[0] = kept(first)
    waiting = asyncio.ensure_future(machines.regains("key"))
    await asyncio.sleep(0)
    first.is_loaded = False
    machines._coordinators[0] = kept(Loaded())
    replicas.is_leased = True
    machines.wake()
    assert not await waiting


async def test_a_partition_that_was_resigned_is_not_regained_by_a_lease(
    machines: CoordinatorPartitions[Any, Any], replicas: Replicas
) -> None:
    """Whoever asked again at once would ask for ever, and nobody else would have a turn."""
    resigned = Loaded()
    resigned.may_answer = False
    machines._coordinators[0] = kept(resigned)
    replicas.is_leased = True
    assert not await machines.regains("key")
