"""A new replica with much to copy: others are not held up, and an operator may slow it down."""

import asyncio

import pytest

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.types import BrokerId
from odradek.replication.throttle import Throttle, is_listed, slice_bytes
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster

_TOPIC_TYPE, _BROKER_TYPE = 2, 4
_RECORD = bytes(200_000)
_COUNT = 30


async def add_third_replica(cluster: Cluster, name: str) -> None:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2, 3])],
            )
        ]
    )
    response = await (await cluster.connection(1)).request(
        request, AlterPartitionReassignmentsResponse
    )
    assert response.error_code == 0
    assert response.responses[0].partitions[0].error_code == 0, response


async def configure(cluster: Cluster, kind: int, name: str, **settings: str) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
                    for key, value in settings.items()
                ],
            )
        ]
    )
    # Brokers change their own settings only.
    asked = await cluster.connection(int(name) if kind == _BROKER_TYPE else 1)
    response = await asked.request(request, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == 0, response


async def fill(cluster: Cluster) -> None:
    """A topic of 6 MB on brokers 1 and 2."""
    await cluster.create_topic([1, 2])
    for _ in range(_COUNT):
        assert (await cluster.produce(1, _RECORD)).error_code == 0


@pytest.mark.parametrize("side", ["leader", "follower"])
@on_cluster()
async def test_a_throttled_replica_takes_its_time(cluster: Cluster, side: str) -> None:
    await fill(cluster)
    for broker in "123":
        rate = {f"{side}_replication_throttled_rate": "1000000"}
        await configure(cluster, _BROKER_TYPE, broker, **rate)
    listed = {f"{side}_replication_throttled_replicas": "*"}
    await configure(cluster, _TOPIC_TYPE, TOPIC, **listed)
    await add_third_replica(cluster, TOPIC)
    took_s = await cluster.until(lambda state: len(state.isr) == 3)
    assert 3 < took_s < 9
    # In sync it is held back no more.
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(10):
        assert (await cluster.produce(1, _RECORD)).error_code == 0
    assert loop.time() - began_s < 1


@on_cluster()
async def test_a_replica_that_is_not_listed_is_not_throttled(cluster: Cluster) -> None:
    await fill(cluster)
    await configure(cluster, _BROKER_TYPE, "1", leader_replication_throttled_rate="1000")
    await configure(cluster, _TOPIC_TYPE, TOPIC, leader_replication_throttled_replicas="0:2")
    await add_third_replica(cluster, TOPIC)
    assert await cluster.until(lambda state: len(state.isr) == 3) < 2


@on_cluster()
async def test_a_new_replica_does_not_hold_up_what_is_acknowledged_by_all(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    await fill(cluster)
    await cluster.create_topic([1, 2, 3], name="others")
    other = cluster.another_client()

    async def slowest(times: int) -> float:
        longest_s = 0.0
        for _ in range(times):
            began_s = loop.time()
            assert (await other.produce(1, b"x")).error_code == 0
            longest_s = max(longest_s, loop.time() - began_s)
        return longest_s

    quiet_s = await slowest(50)
    await add_third_replica(cluster, TOPIC)
    assert await slowest(50) < 3 * quiet_s
    await cluster.until(lambda state: len(state.isr) == 3)


def test_throttle_paces_by_what_was_taken() -> None:
    throttle = Throttle()
    assert throttle.opens_s <= 10.0
    throttle.spend(500, 1000, 10.0)
    assert throttle.opens_s == 10.5
    throttle.spend(500, 500, 10.2)
    assert throttle.opens_s == 11.5
    throttle.spend(1, 0, 20.0)
    assert throttle.opens_s == 21.0


def test_which_replicas_are_listed() -> None:
    assert is_listed(("*",), 5, BrokerId(1))
    assert is_listed(("0:1", "5:2"), 5, BrokerId(2))
    assert not is_listed(("0:1", "5:2"), 5, BrokerId(1))
    assert not is_listed((), 5, BrokerId(1))


def test_a_throttled_transfer_is_worth_20_milliseconds() -> None:
    assert slice_bytes(3_000_000) == 60_000
    # A slow throttle makes transfers wait longer, not smaller than is worth a request.
    assert slice_bytes(1_000) == 16 << 10
