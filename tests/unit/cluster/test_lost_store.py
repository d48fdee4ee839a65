"""Whatever becomes of the metadata store, nobody deletes a log that it did not know."""

import asyncio

from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.paths import STORE_ID, topic_path
from odradek.metadata.store import Create, Delete
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from simulation.simulated_broker import SimulatedBroker
from tests.unit.broker.harness import batch
from tests.unit.cluster.crew import Crew, on_crew


async def produce(crew: Crew, broker: int, partition: int, *values: bytes) -> None:
    topic = crew.image.topics["t"]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name="t",
                topic_id=topic.topic_id,
                partition_data=[PartitionProduceData(index=partition, records=batch(*values))],
            )
        ],
    )
    response = await crew.ask(broker, request, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0


async def log_end(crew: Crew, broker: int, partition: int) -> int:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[ListOffsetsPartition(partition_index=partition, timestamp=-1)],
            )
        ]
    )
    response = await crew.ask(broker, request, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.offset


def directories(crew: Crew, broker: int) -> list[str]:
    """Those of topic t, by their endings."""
    names = crew.brokers[broker].host.disk.list_directory("/data")
    return sorted(
        name.rpartition("-")[2] if "." in name else name for name in names if name.startswith("t-")
    )


async def lose_store(crew: Crew) -> None:
    """Everything stops, and starts again with an empty store."""
    for broker in crew.brokers.values():
        broker.kill()
    crew.store = MemoryMetadata()
    crew.brokers = {
        number: SimulatedBroker(crew.simulation, crew.store, number) for number in crew.brokers
    }
    for number in crew.brokers:
        await crew.start(number)


@on_crew()
async def test_replicas_of_a_lost_store_are_adopted_by_one_and_kept_by_the_others(
    crew: Crew,
) -> None:
    await crew.create()
    topic_id = crew.image.topics["t"].topic_id
    await produce(crew, 1, 0, b"a", b"b")
    await lose_store(crew)
    await crew.until(lambda: "t" in crew.image.topics)
    assert crew.image.topics["t"].topic_id == topic_id
    assert crew.partition().replicas == (1,)
    assert await log_end(crew, 1, 0) == 2
    assert [directories(crew, broker) for broker in (1, 2, 3)] == [
        ["t-0"],
        ["stray"],
        ["stray"],
    ]
    # What this store knows, it may delete; what was set aside stays.
    crew.brokers[2].kill()
    await crew.start(2)
    assert directories(crew, 2) == ["stray"]


@on_crew()
async def test_every_broker_brings_the_partitions_that_it_has(crew: Crew) -> None:
    await crew.create("t", {0: [2], 1: [3], 2: [1]})
    for partition, broker in enumerate((2, 3, 1)):
        await produce(crew, broker, partition, *[b"x"] * (partition + 1))
    await lose_store(crew)
    await crew.until(lambda: all(one.leader > 0 for one in crew.image.topics["t"].partitions))
    assert [one.replicas for one in crew.image.topics["t"].partitions] == [(2,), (3,), (1,)]
    assert [await log_end(crew, at, index) for index, at in enumerate((2, 3, 1))] == [1, 2, 3]


@on_crew()
async def test_a_store_that_is_replaced_under_running_brokers_takes_no_log_with_it(
    crew: Crew,
) -> None:
    await crew.create()
    await produce(crew, 1, 0, b"a")
    outsider = crew.store.connect()
    lost = [*(await outsider.read_tree(topic_path("t"))), STORE_ID]
    await outsider.multi(*map(Delete, reversed(lost)), Create(STORE_ID, b"another"))
    await asyncio.sleep(60)
    assert [directories(crew, broker) for broker in crew.brokers] == [["t-0"]] * 3
    for broker in crew.brokers.values():
        broker.kill()
    await crew.start()
    await crew.until(lambda: crew.partition().leader > 0)
    assert await log_end(crew, crew.partition().leader, 0) == 1
