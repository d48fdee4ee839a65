"""A log that lacks a file descriptor or memory is made or written later, without a restart."""

import asyncio
import errno

import pytest

from odradek.protocol.errors import ErrorCode
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@on_cluster(brokers=1)
async def test_a_topic_made_while_descriptors_are_short_is_served_when_they_are_not(
    cluster: Cluster, error: int
) -> None:
    disk = cluster.brokers[1].host.disk
    disk.fail_next("open", error, under=f"/data/{TOPIC}-0", times=5)
    await cluster.create_topic([1])
    early = await cluster.produce(1, b"early")
    assert early.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "its server.log says why" in (early.error_message or "")
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + 30
    while (answer := await cluster.produce(1, b"late")).error_code:
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert loop.time() < deadline_s
        await asyncio.sleep(0.1)
    assert await cluster.values(1) == [b"late"]


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@on_cluster(replica_lag_time_max_ms="2000")
async def test_a_follower_short_of_descriptors_fetches_again(cluster: Cluster, error: int) -> None:
    """It left its fetcher, and nobody gave it one again (the seed 20001430 of `topics`)."""
    disk = cluster.brokers[2].host.disk
    disk.fail_next("open", error, under=f"/data/{TOPIC}-0/00000000000000000000.log", times=3)
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, b"first", timeout_ms=20_000)).error_code == 0
    await cluster.until(lambda state: state.isr == (1, 2))
    await cluster.until_read(2, [b"first"])
