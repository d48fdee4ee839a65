import asyncio

import pytest

from odradek.client import Producer, RecordMetadata
from odradek.client.errors import (
    BufferFull,
    ClientClosed,
    RecordTooLarge,
    SettingsError,
)
from odradek.client.producer.interceptors import ProducerRecord
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import (
    ProduceRequest,
)
from odradek.protocol.records import read_header
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.producer.producing import numbered, producer, values
from tests.unit.client.simulated import in_simulation, simulate


@in_simulation()
async def test_a_record_arrives_as_it_was_sent(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation) as one:
        delivery = await one.send(
            "t", b"value", b"key", headers=[("h", b"1"), ("n", None)], timestamp_ms=42
        )
        assert await delivery == RecordMetadata("t", 0, 0, 42)  # type: ignore[arg-type]
        await one.send_and_wait("t")
    first, second = log.records()
    assert (first.key, first.value, first.timestamp_ms) == (b"key", b"value", 42)
    assert first.headers == [("h", b"1"), ("n", None)]
    assert (second.key, second.value) == (None, None)


@in_simulation()
async def test_records_of_a_moment_share_a_batch_and_a_full_batch_does_not_linger(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, linger_ms=1_000, batch_size=1_000) as one:
        deliveries = [await one.send("t", b"x" * 100) for _ in range(10)]
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await deliveries[0]
        assert loop.time() - begun_s < 0.1, "the first batch is full"
        await deliveries[-1]
        assert 0.9 < loop.time() - begun_s < 1.2, "the second one lingers"
    assert len(log.batches) == 2


@in_simulation()
async def test_flush_does_not_wait_for_linger(cluster: MiniCluster, simulation: Simulation) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, linger_ms=60_000) as one:
        delivery = await one.send("t", b"v")
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await one.flush()
        assert delivery.done()
        assert loop.time() - begun_s < 0.1


def test_callbacks_and_interceptors_see_every_outcome() -> None:
    class Stamp:
        def __init__(self) -> None:
            self.acknowledged: list[tuple[RecordMetadata | None, BaseException | None]] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, record.value + b"!", record.key)

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            self.acknowledged.append((metadata, error))

    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        cluster.create("t")
        stamp = Stamp()
        called: list[object] = []
        async with producer(cluster, simulation, interceptors=[stamp]) as one:
            await one.send("t", b"v", on_delivery=lambda *outcome: called.append(outcome))
            await one.flush()
            cluster.fail_next(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            delivery = await one.send(
                "t", b"w", on_delivery=lambda *outcome: called.append(outcome)
            )
            with pytest.raises(KafkaError, match="No permission for this topic"):
                await delivery
        assert values(cluster) == [b"v!"]
        assert len(called) == 2
        assert called == stamp.acknowledged
        assert stamp.acknowledged[0][0] is not None
        assert isinstance(stamp.acknowledged[1][1], KafkaError)

    simulate(test)


@in_simulation()
async def test_serializers(cluster: MiniCluster, simulation: Simulation) -> None:
    (log,) = cluster.create("t")
    options = {"key_serializer": "long", "value_serializer": lambda value: repr(value).encode()}
    async with producer(cluster, simulation, **options) as one:
        await one.send("t", {"a": 1}, key=7)
        await one.send("t", None, key=None)
    assert [(r.key, r.value) for r in log.records()] == [
        (b"\0" * 7 + b"\7", b"{'a': 1}"),
        (None, None),
    ]


@in_simulation()
async def test_mistakes_are_told_at_once(cluster: MiniCluster, simulation: Simulation) -> None:
    cluster.create("t", 2)
    async with producer(cluster, simulation, max_request_size=1_000) as one:
        with pytest.raises(TypeError, match="a value must be bytes, not str: set value_seri"):
            await one.send("t", "text")
        with pytest.raises(TypeError, match="a key must be bytes, not int: set key_serializer"):
            await one.send("t", b"", key=1)
        with pytest.raises(RecordTooLarge, match=r"larger than max\.request\.size=1000: set max"):
            await one.send("t", b"x" * 1_000)
        with pytest.raises(ValueError, match="has 2 partitions: there is no partition 2"):
            await one.send("t", b"", partition=2)
        with pytest.raises(ValueError, match="before 1970"):
            await one.send("t", b"", timestamp_ms=-5)
    with pytest.raises(ClientClosed):
        await one.send("t", b"v")
    with pytest.raises(SettingsError, match="unknown setting linger"):
        Producer(linger=5)  # type: ignore[call-arg]


@in_simulation()
async def test_keys_choose_partitions_and_partitions_can_be_named(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t", 5)
    async with producer(cluster, simulation) as one:
        placed = await one.send_and_wait("t", b"v", b"21")
        assert placed.partition == (-973932308 & 0x7FFFFFFF) % 5
        assert (await one.send_and_wait("t", b"v", b"21", partition=1)).partition == 1
        assert await one.partitions_for("t") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@in_simulation()
async def test_every_codec(cluster: MiniCluster, simulation: Simulation, codec: str) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, compression_type=codec) as one:
        for value in numbered(100):
            await one.send("t", value)
    assert values(cluster) == numbered(100)
    assert read_header(log.batches[0]).codec.name == codec.upper()


@in_simulation()
async def test_topics_without_ids_are_named_in_older_versions(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    cluster.served[0] = (3, 9)
    cluster.served[3] = (0, 9)
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"v")
    assert values(cluster) == [b"v"]
    assert cluster.requests[-1][2] == 9


@in_simulation()
async def test_without_idempotence_no_producer_id_is_asked_for(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, enable_idempotence=False, acks=1) as one:
        cluster.fail_next(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS)
        await one.send_and_wait("t", b"v")
    assert cluster.count(InitProducerIdRequest) == 0
    assert read_header(log.batches[0]).producer_id == -1


@in_simulation()
async def test_acks_0_completes_without_an_answer(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, enable_idempotence=False, acks=0) as one:
        placed = await one.send_and_wait("t", b"v", timestamp_ms=9)
        assert placed == RecordMetadata("t", 0, -1, 9)  # type: ignore[arg-type]
    await asyncio.sleep(1)
    assert values(cluster) == [b"v"]


@in_simulation()
async def test_a_full_buffer_makes_send_wait_and_then_gives_up(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    one = producer(cluster, simulation, buffer_memory=10_000, max_block_ms=5_000)
    await one.send_and_wait("t", b"v")
    for value in [b"x" * 1_000] * 50:
        await one.send("t", value)
    await one.flush()
    await cluster.stop()
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    for _ in range(9):
        await one.send("t", b"x" * 1_000)
    with pytest.raises(BufferFull, match=r"buffer\.memory \(10000 bytes\) stayed full"):
        await one.send("t", b"x" * 1_000)
    assert 4.9 < loop.time() - begun_s < 5.5
    await one.close(timeout_ms=100)


@in_simulation()
async def test_a_topic_that_is_not_there_fails_after_max_block(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with producer(cluster, simulation, max_block_ms=2_000) as one:
        with pytest.raises(UnknownTopic, match="There is no topic nowhere, nor was it created"):
            await one.send("nowhere", b"v")


@in_simulation()
async def test_a_topic_is_made_by_asking_for_it_where_brokers_allow(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.auto_create_partitions = 1
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("new", b"v")
    assert values(cluster) == [b"v"]


@in_simulation()
async def test_a_topic_that_nobody_sends_to_is_no_longer_asked_for(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("used")
    cluster.create("left")
    options = {"metadata_max_age_ms": 60_000, "metadata_max_idle_ms": 120_000}
    async with producer(cluster, simulation, **options) as one:
        await one.send_and_wait("left", b"v")
        for _ in range(10):
            await one.send_and_wait("used", b"v")
            await asyncio.sleep(60)
        asked = [one for _, one, _ in cluster.requests if isinstance(one, MetadataRequest)]
        assert [topic.name for topic in asked[-1].topics or ()] == ["used"]
        await one.send_and_wait("left", b"again")


@in_simulation()
async def test_partitions_that_were_added_are_found(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"v")
        cluster.create("t", 4)
        assert (await one.send_and_wait("t", b"v", partition=3)).partition == 3


@in_simulation()
async def test_closing_sends_what_is_left_and_a_hurried_close_fails_it(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    one = producer(cluster, simulation, linger_ms=10_000)
    delivery = await one.send("t", b"v")
    await one.close()
    assert (await delivery).offset == 0
    two = producer(cluster, simulation, linger_ms=10_000)
    await two.send_and_wait("t", b"w")
    await cluster.stop()
    delivery = await two.send("t", b"x")
    await two.close(timeout_ms=50)
    with pytest.raises(ClientClosed):
        await delivery


@in_simulation()
async def test_a_close_that_is_cancelled_leaves_no_connection_open(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    for turns in range(1, 25):
        one = producer(cluster, simulation)
        await one.send_and_wait("t", b"v")
        assert cluster.connections
        closing = asyncio.create_task(one.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await asyncio.sleep(1)
        assert cluster.connections == [], f"after {turns} turns of the loop"
