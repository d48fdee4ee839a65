"""Partitions of which there is nothing to tell cost nothing, and miss nothing either."""

import asyncio

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster


@on_cluster(replica_lag_time_max_ms="2000")
async def test_a_follower_stays_in_sync_however_long_nothing_is_written(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    before = await cluster.state()
    for _ in range(3):
        await asyncio.sleep(20)
        assert (await cluster.produce(1, b"b")).error_code == 0
        await asyncio.sleep(0.01)
    assert await cluster.state() == before


@on_cluster(replica_lag_time_max_ms="2000")
async def test_a_follower_that_is_cut_off_in_silence_leaves_after_the_first_record(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    await asyncio.sleep(5)
    cluster.simulation.network.cut("broker-3", "broker-1")
    await asyncio.sleep(10)
    assert (await cluster.state()).isr == (1, 2, 3)
    assert (await cluster.produce(1, b"b")).error_code == 0
    assert (await cluster.state()).isr == (1, 2)


@on_cluster(replica_fetch_wait_max_ms="5000")
async def test_a_follower_learns_of_a_new_partition_without_sitting_out_its_poll(
    cluster: Cluster,
) -> None:
    loop = asyncio.get_running_loop()
    await cluster.create_topic([1, 2, 3])
    await asyncio.sleep(5.1)
    await cluster.create_topic([1, 2, 3], name="another")
    began_s = loop.time()
    assert (await cluster.produce(1, b"a")).error_code == 0
    assert loop.time() - began_s < 0.05


@on_cluster()
async def test_who_asks_the_wrong_broker_is_told_the_right_one(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    request = FetchRequest(
        topics=[
            FetchTopic(
                topic_id=cluster.topic_id,
                partitions=[FetchPartition(partition=0, partition_max_bytes=1)],
            )
        ]
    )
    response = await (await cluster.connection(3)).request(request, FetchResponse)
    data = response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader is not None
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(1, "broker-1")]
    old = await (await cluster.connection(3)).request(request, FetchResponse, max_version=15)
    assert old.node_endpoints == []


@on_cluster()
async def test_a_session_tells_of_records_that_come_to_silent_partitions(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])

    async def fetch(session_id: int, epoch: int, wait_ms: int) -> FetchResponse:
        asked = FetchTopic(
            topic=TOPIC,
            topic_id=cluster.topic_id,
            partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
        )
        request = FetchRequest(
            min_bytes=1,
            max_wait_ms=wait_ms,
            session_id=session_id,
            session_epoch=epoch,
            topics=[] if epoch else [asked],
        )
        return await (await cluster.connection(1)).request(request, FetchResponse)

    session_id = (await fetch(0, 0, 0)).session_id
    for epoch in range(1, 5):
        assert (await fetch(session_id, epoch, 10)).responses == []
    another = cluster.another_client()
    waiting = asyncio.ensure_future(fetch(session_id, 5, 60_000))
    await asyncio.sleep(0.1)
    # On a connection of its own: the other is busy with the long poll.
    assert (await another.produce(1, b"a")).error_code == 0
    assert (await waiting).responses[0].partitions[0].records
