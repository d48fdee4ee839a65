"""A topic is deleted and created again while a consumer reads it: its leader epochs begin anew."""

import asyncio

import pytest

from odradek.client import Admin, Consumer, ConsumerSettings
from odradek.protocol.types import BrokerId, TopicPartition
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster, with_cluster

T0 = TopicPartition(TOPIC, 0)
BOOTSTRAP = "broker-1:9092,broker-2:9092"


def consumer(cluster: Cluster) -> Consumer:
    settings = ConsumerSettings.from_options(
        {"bootstrap_servers": BOOTSTRAP, "auto_offset_reset": "earliest"}
    )
    return Consumer(settings, world=cluster.simulation.host("main").world())


async def create_in_epoch_2(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    for leader in (2, 1):
        await asyncio.sleep(1)
        await cluster.elect(leader, [BrokerId(1), BrokerId(2)])
    await asyncio.sleep(1)
    for value in (b"a", b"b", b"c"):
        assert (await cluster.produce(1, value)).error_code == 0


async def recreate(cluster: Cluster, *values: bytes) -> None:
    world = cluster.simulation.host("main").world()
    async with Admin(world=world, bootstrap_servers=BOOTSTRAP) as admin:
        await admin.delete_topic(TOPIC)
    await asyncio.sleep(1)
    await cluster.create_topic([1, 2])
    await asyncio.sleep(1)
    for value in values:
        assert (await cluster.produce(1, value)).error_code == 0


async def read(reader: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            for records in (await reader.poll(1000)).values():
                found += [record.value for record in records]
    return found


@pytest.mark.parametrize("count", [1, 5])
def test_a_consumer_reads_the_topic_that_was_created_again(count: int) -> None:
    values = [b"%d" % number for number in range(count)]

    async def test(cluster: Cluster) -> None:
        await create_in_epoch_2(cluster)
        async with consumer(cluster) as reader:
            reader.assign([T0])
            assert await read(reader, 3) == [b"a", b"b", b"c"]
            await recreate(cluster, *values)
            assert await read(reader, count) == values

    with_cluster(test, brokers=2, auto_create_topics_enable="false")


@on_cluster(brokers=2, auto_create_topics_enable="false")
async def test_offsets_of_the_topic_that_was_created_again_are_found(cluster: Cluster) -> None:
    await create_in_epoch_2(cluster)
    async with consumer(cluster) as reader:
        assert await reader.end_offsets([T0]) == {T0: 3}
        await recreate(cluster, b"d")
        async with asyncio.timeout(30):
            assert await reader.end_offsets([T0]) == {T0: 1}
