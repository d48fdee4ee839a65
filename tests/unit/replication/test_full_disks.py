"""Replicas on full disks: others lead, nobody waits for them, and they come back by themselves."""

import asyncio

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster

_VALUE = bytes(1000)


def fill_up(cluster: Cluster, broker: int) -> None:
    """Nothing larger than a checkpoint fits any more: the reserve is all there is."""
    disk = cluster.brokers[broker].host.disk
    disk.capacity_bytes = 1 << 20
    disk.allocate("/else", disk.free_bytes("/") - 100)


def make_room(cluster: Cluster, broker: int) -> None:
    cluster.brokers[broker].host.disk.remove("/else")


@on_cluster()
async def test_a_follower_on_a_full_disk_leaves_at_once_and_comes_back(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3], min_insync_replicas="2")
    assert (await cluster.produce(1, _VALUE)).error_code == 0
    fill_up(cluster, 3)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert (await cluster.produce(1, _VALUE, timeout_ms=20_000)).error_code == 0
    assert loop.time() - began_s < 1
    assert (await cluster.state()).isr == (1, 2)
    # Silence does not bring it back: it cannot take the next record.
    await asyncio.sleep(10)
    assert (await cluster.state()).isr == (1, 2)
    assert (await cluster.produce(1, _VALUE)).error_code == 0
    make_room(cluster, 3)
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3}, longest_s=5)
    await asyncio.sleep(1)
    assert len(await cluster.values(3)) == 3


@on_cluster()
async def test_a_leader_on_a_full_disk_hands_over_and_reads_go_on(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3], min_insync_replicas="2")
    assert (await cluster.produce(1, _VALUE)).error_code == 0
    fill_up(cluster, 1)
    refused = await cluster.produce(1, _VALUE)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    await cluster.until(lambda state: state.leader in (2, 3), longest_s=1)
    leader = (await cluster.state()).leader
    assert (await cluster.produce(leader, _VALUE)).error_code == 0
    assert len(await cluster.values(leader)) == 2
    make_room(cluster, 1)
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3}, longest_s=5)
    await asyncio.sleep(1)
    assert len(await cluster.values(1)) == 2


@on_cluster(brokers=2)
async def test_the_last_replica_in_sync_refuses_until_there_is_room(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, _VALUE)).error_code == 0
    for broker in (1, 2):
        fill_up(cluster, broker)
    accepted = 1
    for broker in (1, 2, 1, 2):
        answer = await cluster.produce(broker, _VALUE, timeout_ms=1000)
        assert answer.error_code in (
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REQUEST_TIMED_OUT,
        )
        await asyncio.sleep(0.5)
    leader = (await cluster.state()).leader
    assert len(await cluster.values(leader)) == accepted
    for broker in (1, 2):
        make_room(cluster, broker)
    await cluster.until(lambda state: len(state.isr) == 2, longest_s=5)
    leader = (await cluster.state()).leader
    assert (await cluster.produce(leader, _VALUE)).error_code == 0


@on_cluster(brokers=1)
async def test_a_topic_made_on_a_full_disk_is_served_when_there_is_room(cluster: Cluster) -> None:
    await cluster.create_topic([1])
    fill_up(cluster, 1)
    assert (await cluster.produce(1, _VALUE)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    await cluster.create_topic([1], name="another")
    make_room(cluster, 1)
    await asyncio.sleep(1.5)
    assert len(list(cluster.brokers[1].partitions())) == 2
    assert (await cluster.produce(1, _VALUE)).error_code == 0


async def commit(cluster: Cluster) -> int:
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
    connection = await cluster.connection(1)
    answer = await connection.request(request, OffsetCommitResponse, max_version=8)
    return answer.topics[0].partitions[0].error_code


@on_cluster(brokers=1, offsets_topic_num_partitions="1", offsets_topic_replication_factor="1")
async def test_groups_keep_what_they_know_while_nothing_can_be_committed(cluster: Cluster) -> None:
    await cluster.create_topic([1])
    find = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
    loop = asyncio.get_running_loop()
    while await commit(cluster) != 0:
        await (await cluster.connection(1)).request(find, FindCoordinatorResponse)
        assert loop.time() < 20
        await asyncio.sleep(0.1)
    fill_up(cluster, 1)
    assert (await cluster.produce(1, _VALUE)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert await commit(cluster) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await commit(cluster) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    make_room(cluster, 1)
    await asyncio.sleep(1.5)
    # Nobody had to load the group again.
    assert await commit(cluster) == 0
