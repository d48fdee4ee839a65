"""Coordinators on several brokers: who coordinates, who leads and who is asked are not the same."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.client import Consumer, ConsumerSettings, Producer, ProducerSettings
from odradek.metadata.image import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
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
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.coordinator_partitions import partition_of
from odradek.world import World
from tests.inside import inside
from tests.unit.metadata.images import image_of
from tests.unit.replication.cluster import Cluster, with_cluster

BOOTSTRAP = ["broker-1:9092", "broker-2:9092", "broker-3:9092"]
LOADING = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def with_three(test: Callable[[Cluster], Awaitable[None]], seed: int = 1) -> None:
    with_cluster(
        test,
        seed=seed,
        offsets_topic_num_partitions="6",
        transaction_state_log_num_partitions="6",
        min_insync_replicas="2",
        group_initial_rebalance_delay_ms="0",
    )


on_three = inside(with_three)
"""Decorates a test that `with_three` runs."""


def image(cluster: Cluster) -> ClusterImage:
    return image_of(cluster.metadata.tree.read_tree("/"))


async def create_spread(cluster: Cluster) -> None:
    """A topic whose three partitions are led by three brokers."""
    replicas = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
    response = await (await cluster.connection(1)).request(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                        for index, brokers in replicas.items()
                    ],
                )
            ]
        ),
        CreateTopicsResponse,
    )
    assert response.topics[0].error_code == 0, response


async def as_client(cluster: Cluster, program: Callable[[World], Awaitable[object]]) -> object:
    async def main(world: World) -> object:
        return await program(world)

    return await cluster.simulation.host("client").start(main)


async def coordinator_of(cluster: Cluster, key: str, kind: int, asked: int = 1) -> int:
    """As FindCoordinator tells it, once it does."""
    for _ in range(2000):
        response = await (await cluster.connection(asked)).request(
            FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), FindCoordinatorResponse
        )
        found = response.coordinators[0]
        if found.error_code == 0:
            return found.node_id
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(0.005)
    raise AssertionError("there is no coordinator")


async def read_committed(world: World, count: int) -> list[tuple[int, bytes | None]]:
    """The first records that a read_committed consumer sees, by partition and in order."""
    options = {
        "bootstrap_servers": BOOTSTRAP,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
    }
    found: list[tuple[int, bytes | None]] = []
    async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
        consumer.assign([TopicPartition("t", index) for index in range(3)])
        async with asyncio.timeout(60):
            while len(found) < count:
                for partition, records in (await consumer.poll(timeout_ms=200)).items():
                    found += [(partition.partition, record.value) for record in records]
    return sorted(found)


def producer_for(world: World, transactional_id: str) -> Producer:
    options = {"bootstrap_servers": BOOTSTRAP, "transactional_id": transactional_id}
    return Producer(ProducerSettings.from_options(options), world=world)


# Finding


@on_three()
async def test_every_broker_names_the_same_coordinators(cluster: Cluster) -> None:
    found = {
        key: [await coordinator_of(cluster, key, kind, asked) for asked in (1, 2, 3)]
        for kind in (0, 1)
        for key in (f"{kind}-{number}" for number in range(12))
    }
    assert all(len(set(brokers)) == 1 for brokers in found.values()), found
    assert {brokers[0] for brokers in found.values()} == {1, 2, 3}
    for topic in ("__consumer_offsets", "__transaction_state"):
        for partition in image(cluster).topics[topic].partitions:
            assert sorted(partition.replicas) == [1, 2, 3]


# Transactions


@on_three()
async def test_a_transaction_ends_wherever_its_partitions_are_led(cluster: Cluster) -> None:
    await create_spread(cluster)

    async def work(world: World) -> None:
        for number in range(4):
            async with producer_for(world, f"tx-{number}") as producer:
                await producer.init_transactions()
                for committed in (True, False, True):
                    await producer.begin_transaction()
                    value = b"%d" % number if committed else b"aborted"
                    for partition in range(3):
                        await producer.send("t", value, partition=partition)
                    if committed:
                        await producer.commit_transaction()
                    else:
                        await producer.abort_transaction()

    await as_client(cluster, work)
    coordinators = {await coordinator_of(cluster, f"tx-{number}", 1) for number in range(4)}
    assert len(coordinators) > 1
    found = await as_client(cluster, lambda world: read_committed(world, 24))
    assert found == sorted([(index, b"%d" % n) for n in range(4) for index in range(3)] * 2)


@on_three()
async def test_whoever_coordinates_next_ends_what_was_decided(cluster: Cluster) -> None:
    """The decision is committed, the markers cannot be written, and the coordinator dies."""
    await create_spread(cluster)
    coordinator = await coordinator_of(cluster, "tx", 1)
    others = [number for number in (1, 2, 3) if number != coordinator]

    async def work(world: World) -> None:
        producer = producer_for(world, "tx")
        await producer.init_transactions()
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("t", b"decided", partition=partition)
        await producer.flush()
        # Others still fetch the decision from it; its own requests do not get through.
        for number in others:
            cluster.simulation.network.refuse(f"broker-{number}", 9092)
        await producer.commit_transaction()
        await producer.close(timeout_ms=100)

    await as_client(cluster, work)
    cluster.brokers[coordinator].kill()
    for number in others:
        cluster.simulation.network.admit(f"broker-{number}")
    found = await as_client(cluster, lambda world: read_committed(world, 3))
    assert found == [(index, b"decided") for index in range(3)]
    assert await coordinator_of(cluster, "tx", 1, others[0]) in others


@on_three()
async def test_offsets_count_with_the_transaction_also_on_another_broker(cluster: Cluster) -> None:
    await create_spread(cluster)
    groups = [f"g-{number}" for number in range(6)]

    async def work(world: World) -> None:
        options = {
            "bootstrap_servers": BOOTSTRAP,
            "group_id": "",
            "auto_offset_reset": "earliest",
        }
        async with producer_for(world, "tx") as producer:
            await producer.init_transactions()
            for group in groups:
                options["group_id"] = group
                async with Consumer(
                    ConsumerSettings.from_options(options), world=world
                ) as consumer:
                    await producer.begin_transaction()
                    await producer.send("t", group.encode(), partition=0)
                    await producer.send_offsets_to_transaction(
                        {TopicPartition("t", 1): 7}, consumer.group_metadata()
                    )
                    await producer.commit_transaction()

    await as_client(cluster, work)
    for group in groups:
        broker = await coordinator_of(cluster, group, 0)
        assert await committed_offset(cluster, broker, group) == 7


# Groups


async def commit_offset(cluster: Cluster, broker: int, group: str, offset: int) -> int:
    response = await (await cluster.connection(broker)).request(
        OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=1, committed_offset=offset)
                    ],
                )
            ],
        ),
        OffsetCommitResponse,
        max_version=9,
    )
    return response.topics[0].partitions[0].error_code


async def insist_on(cluster: Cluster, broker: int, group: str, offset: int) -> None:
    """Commits, as soon as the coordinator lets us."""
    async with asyncio.timeout(60):
        while (error := await commit_offset(cluster, broker, group, offset)) != 0:
            assert error in LOADING
            await asyncio.sleep(0.005)


async def committed_offset(cluster: Cluster, broker: int, group: str) -> int | ErrorCode:
    """The offset, or the error that a new coordinator gives while it loads."""
    response = await (await cluster.connection(broker)).request(
        OffsetFetchRequest(
            require_stable=True,
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[1])],
                )
            ],
        ),
        OffsetFetchResponse,
        max_version=9,
    )
    found = response.groups[0]
    if found.error_code:
        return ErrorCode(found.error_code)
    partition = found.topics[0].partitions[0]
    return ErrorCode(partition.error_code) if partition.error_code else partition.committed_offset


@on_three()
async def test_a_new_coordinator_never_answers_from_old_state(cluster: Cluster) -> None:
    """Whatever it is asked from the first moment on, it says the offset, or to come again."""
    await create_spread(cluster)
    coordinator = await coordinator_of(cluster, "g", 0)
    others = [number for number in (1, 2, 3) if number != coordinator]
    for offset in range(1, 30):
        await insist_on(cluster, coordinator, "g", offset)
    cluster.brokers[coordinator].kill()
    heard: list[int | ErrorCode] = []
    while 29 not in heard:
        assert len(heard) < 5000
        heard += [await committed_offset(cluster, number, "g") for number in others]
        await asyncio.sleep(0.001)
    assert set(heard) - {29} <= LOADING, set(heard)


@on_three()
async def test_a_coordinator_without_enough_replicas_promises_nothing_and_forgets_nothing(
    cluster: Cluster,
) -> None:
    await create_spread(cluster)
    coordinator = await coordinator_of(cluster, "g", 0)
    others = [number for number in (1, 2, 3) if number != coordinator]
    await insist_on(cluster, coordinator, "g", 1)
    for number in others:
        cluster.brokers[number].kill()
    index = partition_of("g", image(cluster), "__consumer_offsets")
    while True:
        state = image(cluster).partition("__consumer_offsets", index)
        assert state is not None
        if state.isr == (coordinator,):
            break
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    error = await commit_offset(cluster, coordinator, "g", 2)
    assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed_offset(cluster, coordinator, "g") == 1
    for number in others:
        cluster.brokers[number].start()
    await insist_on(cluster, coordinator, "g", 3)
    assert await committed_offset(cluster, coordinator, "g") == 3
