"""What a consumer tells, retries and passes over."""

import asyncio

import pytest

from odradek.client.errors import (
    ClientClosed,
    CorruptRecords,
    DeserializationFailed,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.records import BatchBuilder
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, consumer, fill, numbers, read
from tests.unit.client.mini_cluster import Close, MiniCluster
from tests.unit.client.simulated import in_simulation


@in_simulation()
async def test_a_header_without_a_name_is_refused_and_can_be_passed_over(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, [0])
    builder = BatchBuilder()
    builder.append(None, b"bad", [("n", b"1")], 1_000)
    raw = bytearray(builder.build())
    # The length of the name becomes -1, as null is written; the checksum is not looked at.
    at = raw.rindex(bytes([2]) + b"n")
    raw[at] = 1
    log.append(bytes(raw))
    fill(log, [2])
    async with consumer(cluster, simulation, check_crcs=False) as one:
        one.assign([T0])
        assert numbers(await read(one, 1)) == [0]
        for _ in range(2):
            with pytest.raises(CorruptRecords, match=r"header's name.*seek\(\) to 2"):
                await one.poll(10_000)
        one.seek(T0, 2)
        assert numbers(await read(one, 1)) == [2]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        Close,
    ],
)
@in_simulation()
async def test_what_may_pass_is_tried_again(
    cluster: MiniCluster, simulation: Simulation, code: ErrorCode
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        cluster.fail_next(FetchRequest, code, code)
        cluster.fail_next(ListOffsetsRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        one.assign([T0])
        assert numbers(await read(one, 20)) == list(range(20))


@in_simulation()
async def test_a_forbidden_topic_raises_and_may_be_read_once_it_is_allowed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        cluster.fail_next(FetchRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        one.assign([T0])
        with pytest.raises(KafkaError, match="No permission for this topic"):
            await one.poll(10_000)
        assert len(await read(one, 20)) == 20


@in_simulation()
async def test_an_unknown_topic_is_told(cluster: MiniCluster, simulation: Simulation) -> None:
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await one.poll(10_000)
        (log,) = cluster.create("t")
        fill(log, range(5))
        assert len(await read(one, 5)) == 5


@in_simulation()
async def test_corrupt_records_are_told_and_can_be_passed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(30))
    log.batches[1] = log.batches[1][:-1] + b"\xff"
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        assert numbers((await one.poll(10_000))[T0]) == list(range(10))
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="offset 10 fails its checksum"):
                await one.poll(10_000)
        one.seek(T0, 20)
        assert numbers(await read(one, 10)) == list(range(20, 30))


@in_simulation()
async def test_bytes_that_hold_no_batch_are_told(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(10))
    log.batches[0] = log.batches[0][:8] + b"\xff" * 4 + log.batches[0][12:]
    log.read = lambda offset, max_bytes: log.batches[0]  # type: ignore[method-assign]
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        with pytest.raises(CorruptRecords, match=r"at offset 0 .* no complete record batch"):
            await one.poll(10_000)


@in_simulation()
async def test_a_broker_that_repeats_itself_is_not_asked_without_end(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(10))
    log.read = lambda offset, max_bytes: log.batches[0]  # type: ignore[method-assign]
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 10)
        await one.poll(10_000)
        assert cluster.count(FetchRequest) < 150


@in_simulation()
async def test_deserializers(cluster: MiniCluster, simulation: Simulation) -> None:
    (log,) = cluster.create("t")
    fill(log, range(5))
    builder = BatchBuilder()
    builder.append(None, b"no number", (), 0)
    builder.append(None, b"6", (), 0)
    log.append(builder.build())
    async with consumer(cluster, simulation, value_deserializer=int) as one:
        one.assign([T0])
        assert [record.value for record in await read(one, 5)] == [0, 1, 2, 3, 4]
        with pytest.raises(DeserializationFailed, match="t-0 at offset 5") as raised:
            await one.poll(10_000)
        assert "to pass it over: seek(('t', 0), 6)" in str(raised.value)
        one.seek(raised.value.partition, raised.value.offset + 1)
        assert [record.value for record in await read(one, 1)] == [6]


@in_simulation()
async def test_a_close_that_is_cancelled_leaves_no_connection_open(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    for turns in range(1, 25):
        one = consumer(cluster, simulation)
        one.assign([T0])
        await one.poll(100)
        closing = asyncio.create_task(one.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await asyncio.sleep(1)
        assert cluster.connections == [], f"after {turns} turns of the loop"


@in_simulation()
async def test_a_closed_consumer_says_so(cluster: MiniCluster, simulation: Simulation) -> None:
    cluster.create("t")
    one = consumer(cluster, simulation)
    one.assign([T0])
    await one.poll(100)
    await one.close()
    await one.close()
    with pytest.raises(ClientClosed):
        await one.poll()
    await asyncio.sleep(1)
    assert cluster.connections == []
