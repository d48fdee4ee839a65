"""Which OFFSET_OUT_OF_RANGE a consumer believes: the leader's, about the offset it fetches next."""

import asyncio

import pytest

from odradek.client.cluster import LONG_POLLS
from odradek.client.connection import Connection
from odradek.client.errors import OffsetOutOfRange
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from odradek.protocol.types import BrokerId, LeaderEpoch
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, consumer, fill, numbers, read
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


def answer(cluster: MiniCluster, data: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic="t", topic_id=cluster.ids["t"], partitions=[data])
    return FetchResponse(responses=[topic])


@in_simulation(brokers=2)
async def test_a_former_leader_is_not_asked_once_its_connection_is_made(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    """It follows by then, with a log that is shorter, and the leader epoch is the right one."""
    (log,) = cluster.create("t")
    fill(log, range(20))
    log.empty_followers = {1}
    async with consumer(cluster, simulation) as one:
        known = one._parts().cluster
        connect, is_up = known.connection, asyncio.Event()
        tried: list[int] = []

        async def connect_late(broker: int, purpose: str = "") -> Connection:
            if broker == 1 and purpose == LONG_POLLS:
                tried.append(broker)
                await is_up.wait()
            return await connect(broker, purpose)

        known.connection = connect_late  # type: ignore[method-assign, assignment]
        one.assign([T0])
        one.seek(T0, 0)
        assert await one.poll(1_000) == {}
        assert tried == [1]
        log.elect(2)
        known.refresh_soon()
        assert numbers(await read(one, 20)) == list(range(20))
        is_up.set()
        await asyncio.sleep(1)
        fill(log, range(20, 30))
        assert numbers(await read(one, 10)) == list(range(20, 30))
        assert not [1 for node, asked, _ in cluster.requests if node == 1 and _fetches(asked)]


def _fetches(request: object) -> bool:
    return isinstance(request, FetchRequest)


@in_simulation(brokers=2)
async def test_a_broker_that_was_deposed_meanwhile_is_not_believed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))

    def depose(request: object) -> FetchResponse:
        log.elect(2)
        new_leader = LeaderIdAndEpoch(leader_id=BrokerId(2), leader_epoch=LeaderEpoch(1))
        return answer(
            cluster,
            PartitionData(
                partition_index=0,
                error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
                current_leader=new_leader,
            ),
        )

    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        one.seek(T0, 10)
        cluster.fail_next(FetchRequest, depose)
        assert numbers(await read(one, 10)) == list(range(10, 20))


@in_simulation(brokers=2)
async def test_the_leader_is_asked_about_what_the_preferred_replica_does_not_have(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    log.empty_followers = {2}
    preferred = PartitionData(partition_index=0, preferred_read_replica=BrokerId(2))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        one.seek(T0, 10)
        cluster.fail_next(FetchRequest, lambda _: answer(cluster, preferred))
        assert numbers(await read(one, 10)) == list(range(10, 20))
    nodes = [node for node, asked, _ in cluster.requests if _fetches(asked)]
    assert nodes[:3] == [1, 2, 1]


@in_simulation()
async def test_a_consumer_without_a_policy_fetches_again_after_it_has_raised(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation, auto_offset_reset="none") as one:
        one.assign([T0])
        one.seek(T0, 25)
        for _ in range(3):
            with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 25"):
                await one.poll(1_000)
        fill(log, range(20, 30))
        assert numbers(await read(one, 5)) == list(range(25, 30))
