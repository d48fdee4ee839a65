"""A log that could not be made is made later, without a restart."""

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
    assert (await cluster.produce(1, b"early")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + 30
    while (answer := await cluster.produce(1, b"late")).error_code:
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert loop.time() < deadline_s
        await asyncio.sleep(0.1)
    assert await cluster.values(1) == [b"late"]
