"""A partition without a leader is said to have none, and does not keep others from being read."""

import asyncio

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.leader_requests import LATEST
from odradek.protocol.errors import ErrorCode, KafkaError
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, T1, T2, consumer, fill, numbers, read
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation

NO_LEADER = -1


@pytest.mark.parametrize("start", ["beginning", "offset"])
def test_others_are_read_meanwhile(start: str, said: list[str]) -> None:
    @in_simulation()
    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        logs = cluster.create("t", 3)
        for log, first in zip(logs, (0, 100, 200), strict=True):
            fill(log, range(first, first + 10))
        logs[1].elect(NO_LEADER)
        async with consumer(cluster, simulation) as one:
            one.assign([T0, T1])
            if start == "beginning":
                one.seek_to_beginning()
            else:
                one.seek(T0, 0)
                one.seek(T1, 0)
            begun_s = asyncio.get_running_loop().time()
            assert numbers(await read(one, 10)) == list(range(10))
            (line,) = said
            assert line.startswith("t-1 has no leader now; nothing is read there until a broker")
            # What is assigned meanwhile is looked up too.
            one.assign([T0, T1, T2])
            one.seek_to_beginning([T2])
            assert numbers(await read(one, 10)) == list(range(200, 210))
            assert asyncio.get_running_loop().time() < begun_s + 5
            logs[1].elect(1)
            assert numbers(await read(one, 10)) == list(range(100, 110))

    test()
    assert len(said) == 1


@in_simulation()
async def test_a_client_with_few_retries_gets_the_error_of_the_partition(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    logs = cluster.create("t", 2)
    logs[1].elect(NO_LEADER)
    async with Admin(bootstrap_servers=cluster.bootstrap, retries=1) as admin:
        begun_s = asyncio.get_running_loop().time()
        answers = await admin.list_offsets({T0: LATEST, T1: LATEST})
        assert asyncio.get_running_loop().time() < begun_s + 5
    error = answers[T1]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert "It has no leader now" in error.message
    assert not isinstance(answers[T0], KafkaError)
