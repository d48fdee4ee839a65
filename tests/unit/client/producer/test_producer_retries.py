"""What a producer does about errors, lost answers and moved leaders."""

import asyncio
from collections.abc import Sequence

import pytest

from odradek.client.errors import (
    DeliveryTimedOut,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.records import read_header
from odradek.protocol.schema import Request
from simulation.world import Simulation
from tests.unit.client.mini_cluster import Close, KeepSilent, Lose, MiniCluster
from tests.unit.client.producer.producing import numbered, producer, values
from tests.unit.client.simulated import in_simulation, simulate


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
@in_simulation()
async def test_what_may_pass_is_tried_again(
    cluster: MiniCluster, simulation: Simulation, code: ErrorCode
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation) as one:
        cluster.fail_next(ProduceRequest, code, code, code)
        await (await one.send("t", b"v"))
    assert values(cluster) == [b"v"]
    assert cluster.count(ProduceRequest) == 4


@in_simulation()
async def test_an_answer_that_was_lost_does_not_write_twice(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, linger_ms=0) as one:
        cluster.fail_next(ProduceRequest, Lose, Lose)
        deliveries = [await one.send("t", value) for value in numbered(20)]
        found = [await delivery for delivery in deliveries]
    assert values(cluster) == numbered(20)
    assert [one.offset for one in found] == list(range(20))
    assert cluster.count(ProduceRequest) == 3


@in_simulation()
async def test_the_first_batch_is_not_overtaken_when_it_has_to_be_sent_again(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, batch_size=0, linger_ms=0) as one:
        cluster.fail_next(ProduceRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for value in numbered(20):
            await one.send("t", value)
    assert values(cluster) == numbered(20)


@in_simulation(brokers=2)
async def test_a_moved_leader_is_followed_by_its_hint_without_asking_for_metadata(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"before")
        log.elect(2)
        await one.send_and_wait("t", b"after")
    assert values(cluster) == [b"before", b"after"]
    produced = [
        node for node, request, _ in cluster.requests if isinstance(request, ProduceRequest)
    ]
    assert produced == [1, 1, 2]


@in_simulation(brokers=2)
async def test_nothing_is_written_twice_while_a_former_leader_keeps_silent(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    """The new leader has what the former one did not answer. It would forget it after five more
    batches, and refuse it when the request times out and is sent again."""
    log, _ = cluster.create("t", 2)
    async with producer(cluster, simulation, linger_ms=0) as one:
        await one.send_and_wait("t", b"0", partition=0)
        cluster.fail_next(ProduceRequest, KeepSilent, KeepSilent)
        deliveries = []
        for number in (1, 2):
            deliveries.append(await one.send("t", b"%d" % number, partition=0))
            await asyncio.sleep(1)
        assert log.end_offset == 3
        log.elect(2)
        # The producer learns of the new leader because of another partition.
        cluster.fail_next(ProduceRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await one.send_and_wait("t", b"other", partition=1)
        for number in range(3, 20):
            deliveries.append(await one.send("t", b"%d" % number, partition=0))
            await asyncio.sleep(0.1)
        offsets = [(await delivery).offset for delivery in deliveries]
    assert values(cluster) == numbered(20)
    assert offsets == list(range(1, 20))


@in_simulation()
async def test_one_request_in_flight_keeps_the_order_without_idempotence(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    options = {
        "enable_idempotence": False,
        "max_in_flight_requests_per_connection": 1,
        "batch_size": 0,
    }
    async with producer(cluster, simulation, **options) as one:
        cluster.fail_next(ProduceRequest, *[ErrorCode.NOT_ENOUGH_REPLICAS, 0] * 5)
        for value in numbered(20):
            await one.send("t", value)
    assert values(cluster) == numbered(20)


@in_simulation()
async def test_delivery_ends_in_time_when_no_broker_answers(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    options = {"delivery_timeout_ms": 6_000, "request_timeout_ms": 2_000}
    one = producer(cluster, simulation, **options)
    await one.send_and_wait("t", b"v")
    await cluster.stop()
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    delivery = await one.send("t", b"w")
    with pytest.raises(DeliveryTimedOut, match="1 record for t-0 was not acknowledged"):
        await delivery
    assert 5.9 < loop.time() - begun_s < 6.5
    await one.close()


@in_simulation()
async def test_a_partition_without_a_leader_is_named_as_the_reason(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    log.elect(-1)
    options = {"delivery_timeout_ms": 6_000, "request_timeout_ms": 2_000}
    one = producer(cluster, simulation, **options)
    delivery = await one.send("t", b"v", partition=0)
    with pytest.raises(DeliveryTimedOut, match="the partition has no leader"):
        await delivery
    await one.close()


def test_the_last_error_of_a_broker_is_named_as_the_reason(said: list[str]) -> None:
    @in_simulation()
    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        cluster.create("t")
        options = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 1_000}
        async with producer(cluster, simulation, **options) as one:
            cluster.fail_next(ProduceRequest, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 99)
            with pytest.raises(DeliveryTimedOut, match="attempt failed: NOT_ENOUGH_REPLICAS: "):
                await one.send_and_wait("t", b"v")
            cluster.faults.clear()
            await one.send_and_wait("t", b"w")

    test()
    # The reason is said at once and not again; and the failure is said once.
    assert said[0].startswith("t-0: attempt 1 failed, trying again: NOT_ENOUGH_REPLICAS: ")
    assert said[1].startswith("1 record for t-0 was not acknowledged within delivery.timeout.ms=")
    assert len(said) == 2


@in_simulation()
async def test_after_a_batch_of_unknown_fate_expired_the_producer_goes_on(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    options = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 1_000}
    async with producer(cluster, simulation, **options) as one:
        await one.send_and_wait("t", b"first")
        cluster.fail_next(ProduceRequest, *[Close] * 30)
        delivery = await one.send("t", b"lost")
        with pytest.raises(DeliveryTimedOut):
            await delivery
        cluster.faults.clear()
        await one.send_and_wait("t", b"last")
    assert values(cluster) == [b"first", b"last"]
    assert read_header(log.batches[-1]).producer_epoch == 1


@in_simulation()
async def test_a_broker_that_forgot_the_producer_gets_a_new_epoch(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"first")
        cluster.fail_next(ProduceRequest, ErrorCode.UNKNOWN_PRODUCER_ID)
        await one.send_and_wait("t", b"second")
    assert values(cluster) == [b"first", b"second"]
    assert read_header(log.batches[-1]).producer_epoch == 1


@in_simulation()
async def test_a_batch_that_is_too_large_is_split(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation) as one:
        cluster.fail_next(ProduceRequest, *[ErrorCode.MESSAGE_TOO_LARGE] * 3)
        deliveries = [await one.send("t", value) for value in numbered(8)]
        await one.flush()
        assert [(await delivery).offset for delivery in deliveries] == list(range(8))
    assert values(cluster) == numbered(8)
    assert len(log.batches) > 1


@in_simulation()
async def test_a_single_record_that_is_too_large_fails(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation) as one:
        cluster.fail_next(ProduceRequest, ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await (await one.send("t", b"v"))
        await one.send_and_wait("t", b"next")
    assert values(cluster) == [b"next"]


def test_a_refused_record_fails_with_its_own_reason_and_the_others_with_theirs() -> None:
    def refuse(request: Request) -> ProduceResponse:
        assert isinstance(request, ProduceRequest)
        bad = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
        answer = PartitionProduceResponse(
            error_code=ErrorCode.INVALID_RECORD, base_offset=-1, record_errors=[bad]
        )
        topic_id = request.topic_data[0].topic_id
        return ProduceResponse(
            responses=[TopicProduceResponse(topic_id=topic_id, partition_responses=[answer])]
        )

    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        cluster.create("t")
        async with producer(cluster, simulation) as one:
            cluster.fail_next(ProduceRequest, refuse)
            deliveries = [await one.send("t", value) for value in numbered(3)]
            outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        assert "no key" in str(outcomes[1])
        assert "another record of its batch" in str(outcomes[0])
        assert "another record of its batch" in str(outcomes[2])

    simulate(test)


@in_simulation()
async def test_a_producer_without_permission_for_idempotence_says_so(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation) as one:
        cluster.fail_next(InitProducerIdRequest, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await (await one.send("t", b"v"))


FAULTS = (
    Close,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_each_record_is_written_once_and_in_order(seed: int) -> None:
    """Random faults, lost answers and elections; every record is acknowledged in the end."""

    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        logs = cluster.create("t", 3)
        random = simulation.random("faults")

        async def trouble() -> None:
            while True:
                await asyncio.sleep(random.uniform(0, 0.3))
                match random.randrange(4):
                    case 0:
                        cluster.drop_connections()
                    case 1:
                        random.choice(logs).elect(random.choice(list(cluster.hosts)))
                    case 2:
                        cluster.fail_next(ProduceRequest, random.choice(FAULTS))
                    case _:
                        cluster.fail_next(ProduceRequest, Lose)

        troubling = asyncio.ensure_future(trouble())
        options: dict[str, object] = {"batch_size": random.choice([0, 200, 2_000]), "linger_ms": 1}
        async with producer(cluster, simulation, **options) as one:
            sent: Sequence[list[bytes]] = [[], [], []]
            deliveries = []
            for number in range(300):
                partition = random.randrange(3)
                value = b"%d" % number
                sent[partition].append(value)
                deliveries.append((partition, await one.send("t", value, partition=partition)))
                if random.random() < 0.2:
                    await asyncio.sleep(random.uniform(0, 0.1))
            troubling.cancel()
            found: Sequence[list[int]] = [[], [], []]
            for partition, delivery in deliveries:
                found[partition].append((await delivery).offset)
        for partition in range(3):
            assert values(cluster, partition) == sent[partition]
            assert found[partition] == list(range(len(sent[partition])))

    simulate(test, brokers=3, seed=seed)
