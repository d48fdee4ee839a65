"""Sequence numbers through a producer's life: pauses, re-created topics, splits, new epochs.

A number that is used twice within an epoch is the worst that can happen: the broker takes the
record for a duplicate, acknowledges it and drops it.
"""

import asyncio
import random

import pytest

from odradek.client import Producer, RecordMetadata
from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records import read_header
from odradek.protocol.types import ProducerEpoch
from simulation.world import Simulation
from tests.unit.client.mini_cluster import Close, Instead, Lose, MiniCluster
from tests.unit.client.mini_log import PartitionLog
from tests.unit.client.simulated import in_simulation, simulate

FORGETFUL = {"metadata_max_idle_ms": 5_000, "metadata_max_age_ms": 1_000}


def producer(cluster: MiniCluster, simulation: Simulation, **options: object) -> Producer:
    world = simulation.host("main").world()
    return Producer(bootstrap_servers=cluster.bootstrap, world=world, **options)  # type: ignore[arg-type]


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in log.records()]


def assert_idle(one: Producer) -> None:
    """Nothing is in hand, so nothing of the buffer is taken and no number is open."""
    sender = one._sender
    assert sender is not None
    assert sender.accumulator.free_bytes == one.settings.buffer_memory
    assert not sender.accumulator.waiters
    assert not sender.accumulator.incomplete
    for queue in sender.accumulator._queues.values():
        assert not queue.batches
        assert not queue.sending
        assert not queue.sequences.in_flight


@pytest.mark.parametrize("before", [1, 5, 8])
@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside a topic in use"])
@in_simulation()
async def test_a_pause_longer_than_metadata_max_idle_loses_no_record(
    cluster: MiniCluster, simulation: Simulation, before: int, other: bool
) -> None:
    (log,) = cluster.create("t")
    cluster.create("other")
    sent: list[bytes] = []
    async with producer(cluster, simulation, **FORGETFUL) as one:
        for number in range(before + 3):
            sent.append(b"%d" % number)
            where = await one.send_and_wait("t", sent[-1])
            assert values(log)[where.offset] == sent[-1], "acknowledged is written"
            for _ in range(10 if number >= before - 1 else 0):
                await asyncio.sleep(1)
                if other:
                    await one.send_and_wait("other", b"x")
        assert_idle(one)
    assert values(log) == sent


@in_simulation()
async def test_an_idle_topic_is_forgotten_but_its_numbers_are_kept_for_the_epoch(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, **FORGETFUL) as one:
        await one.send_and_wait("t", b"1")
        await asyncio.sleep(10)
        assert "t" not in one._targets.by_name
        await one.send_and_wait("t", b"2")
    headers = [read_header(batch) for batch in log.batches]
    assert [header.base_sequence for header in headers] == [0, 1]


@in_simulation()
async def test_a_topic_that_was_created_again_gets_every_record_in_order(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (old,) = cluster.create("t")
    async with producer(cluster, simulation, batch_size=0, **FORGETFUL) as one:
        for number in range(3):
            await one.send_and_wait("t", b"%d" % number)
        (new,) = cluster.recreate("t")
        # The first batch is refused once for a reason that passes. The second must not have
        # been sent behind it: the new topic's leader would take it for the beginning.
        cluster.fail_next(ProduceRequest, ErrorCode.UNKNOWN_TOPIC_ID)
        cluster.fail_next(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(2)
        later = [await one.send("t", b"%d" % number) for number in range(3, 9)]
        await asyncio.gather(*later)
        assert_idle(one)
    assert values(old) == [b"0", b"1", b"2"]
    assert values(new) == [b"%d" % number for number in range(3, 9)]


@in_simulation()
async def test_a_broker_that_forgot_a_silent_producer_gets_its_records_in_order(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, batch_size=0) as one:
        await one.send_and_wait("t", b"0")
        await asyncio.sleep(3_600)
        log.producers.clear()
        cluster.fail_next(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.gather(*[await one.send("t", b"%d" % number) for number in range(1, 7)])
        assert_idle(one)
    assert values(log) == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("idempotent", [True, False])
@in_simulation()
async def test_batches_in_flight_that_are_all_too_large_are_split_and_arrive_in_order(
    cluster: MiniCluster, simulation: Simulation, in_flight: int, idempotent: bool
) -> None:
    (log,) = cluster.create("t")
    options = {
        "batch_size": 100_000,
        "linger_ms": 20,
        "max_in_flight_requests_per_connection": in_flight,
        "enable_idempotence": idempotent,
    }
    async with producer(cluster, simulation, **options) as one:
        await one.send_and_wait("t", b"first")
        log.max_message_bytes = 30_000
        deliveries = [await one.send("t", b"%06d" % n + b"x" * 994) for n in range(600)]
        begun_s = asyncio.get_running_loop().time()
        await asyncio.gather(*deliveries)
        assert asyncio.get_running_loop().time() - begun_s < 30
        assert_idle(one)
    found = [(value or b"")[:6] for value in values(log)[1:]]
    assert sorted(found) == [b"%06d" % n for n in range(600)], "each of them once"
    if idempotent or in_flight == 1:
        assert found == sorted(found)


@in_simulation()
async def test_numbers_that_go_round_do_not_stop_what_is_sent_again(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, batch_size=0) as one:
        await one.send_and_wait("t", b"0")
        assert one._sender is not None
        (queue,) = one._sender.accumulator._queues.values()
        # As after 2^31 - 3 records.
        queue.sequences.next_sequence = 0x7FFFFFFE
        queue.sequences.last_acknowledged_sequence = 0x7FFFFFFD
        log.producers.clear()
        await one.send_and_wait("t", b"1")
        cluster.fail_next(ProduceRequest, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 4)
        await asyncio.gather(*[await one.send("t", b"%d" % n) for n in range(2, 6)])
        assert_idle(one)
    assert values(log) == [b"%d" % n for n in range(6)]
    assert {read_header(batch).producer_epoch for batch in log.batches} == {0}


@in_simulation()
async def test_when_epochs_are_used_up_and_no_new_id_comes_the_producer_recovers_later(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation, batch_size=0, retries=2) as one:
        await one.send_and_wait("t", b"0")
        assert one._sender is not None
        idempotence = one._sender.idempotence
        assert idempotence is not None
        idempotence.producer_epoch = ProducerEpoch(32_767)
        await one.send_and_wait("t", b"1")
        # The batch cannot be written, and a gap is left that only another epoch can end.
        cluster.fail_next(ProduceRequest, ErrorCode.INVALID_RECORD)
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        cluster.fail_next(InitProducerIdRequest, refused)
        failing = [await one.send("t", b"lost %d" % n) for n in range(3)]
        await asyncio.gather(*failing, return_exceptions=True)
        assert all(isinstance(delivery.exception(), KafkaError) for delivery in failing)
        await one.send_and_wait("t", b"2")
        assert_idle(one)
    assert values(log) == [b"0", b"1", b"2"]


class Day:
    """A producer, a topic, and what happened to each record."""

    def __init__(self, cluster: MiniCluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.log = cluster.create("t")[0]
        self.log.max_message_bytes = 2_500
        self.sent = 0
        self.pending: list[tuple[bytes, PartitionLog, asyncio.Future[RecordMetadata]]] = []
        self.sending: set[asyncio.Task[None]] = set()

    async def send(self, one: Producer) -> None:
        self.sent += 1
        size = self.chance.choice([10, 100, 400, 1_500])
        value = b"%06d" % self.sent + b"x" * size
        delivery = await one.send("t", value)
        self.pending.append((value, self.log, delivery))

    async def hour(self, one: Producer) -> None:
        """Some records, some of them cancelled while they wait for room, and some fault."""
        chance = self.chance
        faults: list[Instead | int] = [
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.INVALID_RECORD,
            Close,
            Lose,
        ]
        if chance.random() < 0.7:
            count = chance.randrange(1, 6)
            self.cluster.fail_next(ProduceRequest, *chance.choices(faults, k=count))
        tasks = [
            asyncio.get_running_loop().create_task(self.send(one))
            for _ in range(chance.randrange(1, 40))
        ]
        while any(not task.done() for task in tasks):
            await asyncio.sleep(chance.choice([0, 0.001, 0.05]))
            waiting = [task for task in tasks if not task.done()]
            if waiting and chance.random() < 0.2:
                chance.choice(waiting).cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError | ClientError)
        await one.flush()
        assert_idle(one)

    async def night(self) -> None:
        """A pause in which the producer, the broker or the topic may be forgotten."""
        chance = self.chance
        pause_s = chance.choice([0, 1, 10, 100])
        await asyncio.sleep(pause_s)
        self.cluster.faults.clear()
        if pause_s == 100 and chance.random() < 0.5:
            self.log.producers.clear()
        elif chance.random() < 0.2:
            (self.log,) = self.cluster.recreate("t")
            self.log.max_message_bytes = 2_500

    def check(self) -> None:
        """Every acknowledged record is where it was said to be, once, and in order."""
        place = {value: number for number, (value, _, _) in enumerate(self.pending)}
        for log in {log: None for _, log, _ in self.pending}:
            found = [place[value or b""] for value in values(log)]
            assert len(found) == len(set(found)), "nothing is written twice"
            assert found == sorted(found), "the order is kept"
        for value, log, delivery in self.pending:
            if delivery.exception() is None:
                assert values(log)[delivery.result().offset] == value, "acknowledged is written"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_forgotten_in_the_pauses_each_acknowledged_record_is_there_once(
    seed: int,
) -> None:
    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        day = Day(cluster, seed)
        options = {"batch_size": 3_000, "linger_ms": 5, "buffer_memory": 12_000}
        async with producer(cluster, simulation, **FORGETFUL, **options) as one:
            for _ in range(8):
                await day.hour(one)
                await day.night()
            await day.hour(one)
        day.check()

    simulate(test, seed=seed)
