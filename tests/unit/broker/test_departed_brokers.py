"""What clients are told about brokers that have just gone, or seem to be going."""

import asyncio

from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster


async def metadata(cluster: Cluster, broker: int) -> tuple[int, set[int]]:
    """Who leads, and who is listed."""
    response = await (await cluster.connection(broker)).request(
        MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), MetadataResponse
    )
    leader = response.topics[0].partitions[0].leader_id
    return leader, {broker.node_id for broker in response.brokers}


@on_cluster()
async def test_whoever_asks_when_a_leader_is_killed_hears_of_the_next_one(cluster: Cluster) -> None:
    """A client that finds its connection closed asks at once, and often not again for a second."""
    await cluster.create_topic([1, 2, 3])
    assert await metadata(cluster, 3) == (1, {1, 2, 3})
    leader = await cluster.connection(1)
    # The network is faster than the store.
    cluster.metadata.faults.max_notification_delay_s = 0.1
    cluster.brokers[1].kill()
    await leader.wait_closed()
    assert await metadata(cluster, 3) == (2, {1, 2, 3})


@on_cluster()
async def test_a_broker_that_went_is_listed_for_a_while(cluster: Cluster) -> None:
    await cluster.create_topic([2, 3])
    cluster.brokers[1].kill()
    await asyncio.sleep(2.5)
    assert await metadata(cluster, 3) == (2, {1, 2, 3})
    await asyncio.sleep(1)
    assert await metadata(cluster, 3) == (2, {2, 3})


@on_cluster()
async def test_a_connection_that_breaks_does_not_hold_up_clients_for_long(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    loop = asyncio.get_running_loop()
    await cluster.connection(2)
    cluster.simulation.network.reset("broker-1", "broker-2")
    began_s = loop.time()
    assert await metadata(cluster, 2) == (1, {1, 2, 3})
    assert loop.time() - began_s < 0.4
