"""Consumers and producers that die while the broker comes and goes: nothing is lost or doubled.

Short runs of fixed seeds; the long ones belong to the simulation. What holds: no partition has
two owners in one generation, every record is delivered, and with transactions exactly once.
"""

import asyncio
import random
from typing import Any

import pytest

from odradek.client.consumer.consumer import Consumer, RebalanceListener
from odradek.client.errors import ClientError
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.run import run
from simulation.world import Host, Simulation
from tests.unit.broker.harness import BrokerHost
from tests.unit.client.group_cluster import BOOTSTRAP

BROKER = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
}
RECORDS = 150
Held = dict[tuple[TopicPartition, int], Consumer]


class BadDay:
    """A broker that restarts, programs that are killed, and records that come all the time."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.chance = random.Random(seed)
        self.over = asyncio.Event()
        self.ready: asyncio.Future[None] = simulation.loop.create_future()
        self._hosts = 0

    def host(self) -> Host:
        self._hosts += 1
        return self.simulation.host(f"client-{self._hosts}")

    async def broker(self) -> None:
        host = BrokerHost(self.simulation, BROKER)
        while not self.over.is_set():
            async with host.running() as connect:
                if not self.ready.done():
                    client = await connect()
                    await client.create_topic("in", 3)
                    await client.create_topic("out", 2)
                    self.ready.set_result(None)
                await self.wait(self.chance.uniform(5, 12))
            await self.wait(self.chance.uniform(0.1, 2))

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.over.wait()
        except TimeoutError:
            pass

    async def produce(self) -> None:
        async with Producer(bootstrap_servers=BOOTSTRAP, world=self.host().world()) as producer:
            for number in range(RECORDS):
                await producer.send("in", b"%d" % number, partition=number % 3)
                await asyncio.sleep(0.1)

    async def keep_running(self, program: Any) -> None:
        """Starts a program, kills it after a while, starts it again."""
        while not self.over.is_set():
            host = self.host()
            task = host.start(program, "worker")
            await self.wait(self.chance.uniform(4, 15))
            if task.done():
                task.result()
            host.kill()
            await self.wait(self.chance.uniform(0.1, 1))

    def consumer(self, world: World, protocol: str, **options: Any) -> Consumer:
        if protocol == "classic":
            options |= {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
        return Consumer(
            bootstrap_servers=BOOTSTRAP,
            world=world,
            group_id="g",
            group_protocol="classic" if protocol == "classic" else "consumer",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            max_poll_interval_ms=8_000,
            request_timeout_ms=3_000,
            **options,
        )


class Owners(RebalanceListener):
    """Notices when two consumers have a partition in one generation."""

    def __init__(self, consumer: Consumer, held: Held) -> None:
        self._consumer = consumer
        self._held = held

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        for one in partitions:
            owner = self._held.setdefault((one, generation), self._consumer)
            assert owner is self._consumer, f"{one} has two owners in generation {generation}"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_is_delivered(protocol: str, seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        day = BadDay(simulation, seed)
        seen: set[int] = set()
        held: Held = {}
        strategy = day.chance.choice(["range", "sticky", "cooperative-sticky"])
        options = {"partition_assignment_strategy": strategy} if protocol == "classic" else {}

        async def program(world: World) -> None:
            consumer = day.consumer(world, protocol, **options)
            consumer.subscribe(["in"], listener=Owners(consumer, held))
            while True:
                for records in (await consumer.poll(200)).values():
                    seen.update(int(record.value) for record in records)
                if len(seen) == RECORDS:
                    day.over.set()

        await _live_through(day, [program] * 3)
        assert seen == set(range(RECORDS))

    run(main, seed)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", [3, 4])
def test_transactions_count_every_record_once(protocol: str, seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        day = BadDay(simulation, seed)
        seen: list[int] = []

        async def read(world: World) -> None:
            reader = Consumer(
                bootstrap_servers=BOOTSTRAP,
                world=world,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            reader.assign([TopicPartition("out", index) for index in range(2)])
            while len(set(seen)) < RECORDS:
                for records in (await reader.poll(500)).values():
                    seen.extend(int(record.value) for record in records)
            # Whatever would be there twice comes now.
            for records in (await reader.poll(3_000)).values():
                seen.extend(int(record.value) for record in records)
            day.over.set()
            await reader.close()

        programs = [
            lambda world, name=name: _copy(day, world, name, protocol) for name in ("one", "two")
        ]
        await _live_through(day, programs, read)
        assert sorted(seen) == list(range(RECORDS))

    run(main, seed)


async def _live_through(day: BadDay, programs: list[Any], watch: Any = None) -> None:
    loop = day.simulation.loop
    broker = loop.create_task(day.broker())
    await day.ready
    if watch is not None:
        # It has all the time there is: the programs go on until it is content.
        watching = loop.create_task(watch(day.host().world()))
        watching.add_done_callback(lambda _: day.over.set())
    async with asyncio.timeout(300):
        await asyncio.gather(day.produce(), *(day.keep_running(one) for one in programs))
    await broker
    if watch is not None:
        await watching


async def _copy(day: BadDay, world: World, name: str, protocol: str) -> None:
    """From `in` to `out`, each poll with its offsets in one transaction."""
    consumer = day.consumer(
        world, protocol, enable_auto_commit=False, isolation_level="read_committed"
    )
    consumer.subscribe(["in"])
    while True:
        producer = Producer(
            bootstrap_servers=BOOTSTRAP,
            world=world,
            transactional_id=name,
            transaction_timeout_ms=5_000,
            request_timeout_ms=3_000,
            delivery_timeout_ms=6_000,
        )
        try:
            await producer.init_transactions()
            while True:
                await _copy_once(day, consumer, producer)
        except (ClientError, KafkaError):
            await producer.close(timeout_ms=1_000)


async def _copy_once(day: BadDay, consumer: Consumer, producer: Producer) -> None:
    polled = await consumer.poll(200)
    if not polled:
        return
    try:
        async with producer.transaction():
            for records in polled.values():
                for record in records:
                    await producer.send("out", record.value)
            if day.chance.random() < 0.05:
                await asyncio.sleep(day.chance.choice([0.1, 6]))
            await producer.send_offsets_to_transaction(
                {one: records[-1].offset + 1 for one, records in polled.items()},
                consumer.group_metadata(),
            )
    except (ClientError, KafkaError):
        # From where the group is, before anything else.
        committed = await consumer.committed(consumer.assignment())
        for partition in set(consumer.assignment()).intersection(committed):
            known = committed[partition]
            consumer.seek(partition, 0 if known is None else known.offset)
        raise
