"""How many fetchers copy from one leader, and what a controlled shutdown does when the store is
away."""

import asyncio

import pytest

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from odradek.replication.peers import Peers
from tests.unit.replication.cluster import Cluster, on_cluster, with_cluster


def test_num_replica_fetchers_spreads_partitions_over_that_many_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: set[tuple[int, str]] = set()
    original = Peers.connection

    async def connection(self: Peers, broker_id: int, purpose: str = "control") -> object:
        asked.add((broker_id, purpose))
        return await original(self, broker_id, purpose)  # type: ignore[arg-type]

    monkeypatch.setattr(Peers, "connection", connection)

    async def test(cluster: Cluster) -> None:
        for number in range(12):
            await cluster.create_topic([1, 2], name=f"topic-{number}")
        await cluster.create_topic([1, 2])
        assert (await cluster.produce(1, b"a")).error_code == 0
        purposes = {
            purpose for broker, purpose in asked if broker == 1 and "replication" in purpose
        }
        assert purposes == {"replication-0", "replication-1", "replication-2"}
        await cluster.elect(2, [BrokerId(1), BrokerId(2)])
        await cluster.until(lambda state: state.leader == 2)
        assert (await cluster.produce(2, b"b")).error_code == 0
        await cluster.until_read(1, [b"a", b"b"])

    with_cluster(test, brokers=2, num_replica_fetchers="3")


@on_cluster(
    brokers=2, controlled_shutdown_max_retries="2", controlled_shutdown_retry_backoff_ms="500"
)
async def test_a_stop_is_tried_again_while_the_metadata_store_is_away(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, b"a")).error_code == 0
    epoch = (await cluster.state()).leader_epoch
    cluster.brokers[1].cut_store()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    loop.call_later(0.7, cluster.brokers[1].reconnect_store, context=cluster.simulation.no_process)
    await cluster.brokers[1].stop()
    assert loop.time() - began_s >= 1.0, "two times 500 ms"
    state = await cluster.state()
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2,), epoch + 1)


@on_cluster(brokers=2, controlled_shutdown_max_retries="0")
async def test_a_stop_without_retries_does_not_wait_for_the_metadata_store(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2])
    cluster.brokers[1].cut_store()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await cluster.brokers[1].stop()
    assert loop.time() - began_s < 1.0


@on_cluster(brokers=2)
async def test_a_partition_that_has_resigned_may_still_be_asked_for(cluster: Cluster) -> None:
    """A broker whose session has ended gives up its roles; the image changes a moment later."""
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, b"a")).error_code == 0
    follower = cluster.brokers[2]
    for partition in follower.partitions():
        partition.resign(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await cluster.create_topic([1], name="other")
    await asyncio.sleep(1)
    follower.require_alive()


@on_cluster(brokers=2)
async def test_a_high_watermark_that_was_told_to_a_replica_without_a_role_is_told_again(
    cluster: Cluster,
) -> None:
    """A broker whose session ended follows the same leader in the same epoch again."""
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, b"a")).error_code == 0
    (partition,) = cluster.brokers[2].partitions()
    epoch = partition.leader_epoch
    assert partition.high_watermark.value == 0, "the leader tells it with its next response"
    partition.resign(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await asyncio.sleep(1)
    assert partition.high_watermark.value == 0
    partition.follow(BrokerId(1), epoch)
    await asyncio.sleep(1.5)
    assert partition.high_watermark.value == 1
