"""A metadata store that was lost or restored gives away no producer id a second time, and adopted
topics keep what their owners meant to keep."""

import asyncio

import pytest

from odradek.metadata import Set
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.node_values import ProducerIdBlock
from odradek.metadata.paths import PRODUCER_ID_BLOCK, STORE_ID, topic_path
from odradek.metadata.store import Create, Delete
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import BrokerId
from simulation.simulated_broker import SimulatedBroker
from tests.unit.cluster.crew import Crew, on_crew
from tests.unit.cluster.test_lost_store import log_end

_TRANSACTION = 1


async def new_id(crew: Crew, transactional_id: str | None = None, *, by: int = 1) -> int:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60000)
    if transactional_id is not None:
        find = FindCoordinatorRequest(
            key_type=_TRANSACTION, key=transactional_id, coordinator_keys=[transactional_id]
        )
        await crew.ask(by, find, FindCoordinatorResponse)
    async with asyncio.timeout(10):
        while True:
            response = await crew.ask(by, request, InitProducerIdResponse)
            if response.error_code == 0:
                return response.producer_id
            await asyncio.sleep(0.1)  # The coordinator is loading, in virtual time.


async def send_first(crew: Crew, producer_id: int, value: bytes, *, by: int = 1) -> int:
    """The first batch of an idempotent producer; returns its offset."""
    builder = BatchBuilder()
    builder.append(b"key", value, [], 1_700_000_000_000)
    records = builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    data = TopicProduceData(
        name="t",
        topic_id=crew.image.topics["t"].topic_id,
        partition_data=[PartitionProduceData(index=0, records=records)],
    )
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
    response = await crew.ask(by, request, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    return answer.base_offset


async def restart(crew: Crew, store: MemoryMetadata, *, cleanly: bool = True) -> None:
    """Everything stops, and starts again with this store."""
    for broker in crew.brokers.values():
        if cleanly:
            await broker.stop()
        else:
            broker.kill()
    crew.store = store
    crew.brokers = {
        number: SimulatedBroker(crew.simulation, store, number) for number in crew.brokers
    }
    for number in crew.brokers:
        await crew.start(number)


@pytest.mark.parametrize("cleanly", [True, False])
@on_crew(size=1)
async def test_a_new_producer_after_a_lost_store_is_not_taken_for_an_old_one(
    crew: Crew, cleanly: bool
) -> None:
    await crew.create(assignment={0: [1]})
    old = await new_id(crew)
    assert await send_first(crew, old, b"old record") == 0
    await restart(crew, MemoryMetadata(), cleanly=cleanly)
    new = await new_id(crew)
    assert new > old
    assert await send_first(crew, new, b"NEW record") == 1
    assert await log_end(crew, 1, 0) == 2


@on_crew(size=1)
async def test_directories_of_a_kafka_broker_are_adopted_the_same_way(crew: Crew) -> None:
    """They say nothing about a store; the rest of their layout is ours."""
    await crew.create(assignment={0: [1]})
    old = await new_id(crew)
    await send_first(crew, old, b"old record")
    await crew.brokers[1].stop()
    disk = crew.brokers[1].host.disk
    lines = disk.read("/data/meta.properties").decode().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("odradek.")]
    assert len(kept) < len(lines)
    disk.replace("/data/meta.properties", "".join(kept).encode())
    await restart(crew, MemoryMetadata())
    new = await new_id(crew)
    assert new > old
    assert await send_first(crew, new, b"NEW record") == 1


@on_crew(size=1)
async def test_the_id_of_a_transaction_that_wrote_nothing_yet_is_not_given_away_again(
    crew: Crew,
) -> None:
    ids = [await new_id(crew, f"tx-{number}") for number in range(3)]
    await restart(crew, MemoryMetadata())
    assert await new_id(crew) > max(ids)
    # The transactional id itself is still known, with the id that it had.
    assert await new_id(crew, "tx-2") == ids[2]


@on_crew(size=2)
async def test_every_broker_that_comes_raises_the_ids_above_those_in_its_logs(crew: Crew) -> None:
    await crew.create(assignment={0: [2]})
    await new_id(crew, by=1)
    old = await new_id(crew, by=2)
    await send_first(crew, old, b"old record", by=2)
    await restart(crew, MemoryMetadata())
    for broker in (1, 2):
        assert await new_id(crew, by=broker) > old


@on_crew(size=1)
async def test_a_store_restored_from_a_backup_gives_no_id_away_again(crew: Crew) -> None:
    await crew.create(assignment={0: [1]})
    old = await new_id(crew)
    await send_first(crew, old, b"old record")
    await crew.brokers[1].stop()
    backup = ProducerIdBlock(BrokerId(1), -1, -1).encode()
    await crew.store.connect().multi(Set(PRODUCER_ID_BLOCK, backup))
    await crew.start(1)
    assert await new_id(crew) > old


@on_crew(size=1)
async def test_a_store_that_is_replaced_under_a_running_broker_gives_no_id_away_again(
    crew: Crew,
) -> None:
    await crew.create(assignment={0: [1]})
    ids = [await new_id(crew) for _ in range(1000)]
    await send_first(crew, ids[5], b"old record")
    outsider = crew.store.connect()
    lost = [*(await outsider.read_tree(topic_path("t"))), STORE_ID, PRODUCER_ID_BLOCK]
    await outsider.multi(*map(Delete, reversed(lost)), Create(STORE_ID, b"another"))
    assert await new_id(crew) > max(ids)


@on_crew(size=1)
async def test_topics_of_the_coordinators_are_adopted_with_their_settings(crew: Crew) -> None:
    await new_id(crew, "tx")
    group = FindCoordinatorRequest(key_type=0, key="g", coordinator_keys=["g"])
    await crew.ask(1, group, FindCoordinatorResponse)
    before = {name: crew.image.topics[name] for name in crew.image.topics}
    assert set(before) == {"__consumer_offsets", "__transaction_state"}
    await restart(crew, MemoryMetadata())
    for name, topic in before.items():
        adopted = crew.image.topics[name]
        assert adopted.topic_id == topic.topic_id
        assert len(adopted.partitions) == len(topic.partitions)
        assert adopted.overrides["cleanup.policy"] == "compact"
        assert adopted.overrides["segment.bytes"] == topic.overrides["segment.bytes"]
        for one, old in zip(adopted.partitions, topic.partitions, strict=True):
            assert one.leader_epoch > old.leader_epoch


@on_crew(size=2)
async def test_a_broker_with_some_of_the_coordinators_partitions_adopts_as_many_as_there_were(
    crew: Crew,
) -> None:
    """Which partition a group belongs to depends on their number."""
    name = "__consumer_offsets"
    last = {index: [2] for index in range(40, 50)}
    await crew.create(name, {index: [1] for index in range(40)} | last)
    await restart(crew, MemoryMetadata())
    topic = crew.image.topics[name]
    assert len(topic.partitions) == 50
    assert [one.replicas for one in topic.partitions] == [(1,)] * 40 + [(2,)] * 10
    assert all(one.leader > 0 for one in topic.partitions)


@on_crew(size=1)
async def test_retention_deletes_nothing_of_an_adopted_topic_whose_settings_are_not_known(
    crew: Crew,
) -> None:
    await crew.create("t", {0: [1]}, retention_ms="-1")
    await restart(crew, MemoryMetadata())
    assert crew.image.topic_overrides("t") == {"retention.ms": "-1", "retention.bytes": "-1"}
