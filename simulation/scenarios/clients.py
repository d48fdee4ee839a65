"""Our own client in unusual situations: long pauses, batches that must be split, interrupted polls.

Producers are idle for longer than `metadata.max.idle.ms`, so that they forget topics, and for
longer than the broker remembers their ids. Batches are larger than the topic allows and have to be
split while others are in flight. A consumer with automatic commits is interrupted in the middle of
a poll, and its successor goes on from the committed offsets: every record must be given to one of
them.
"""

import asyncio
from random import Random
from typing import Final

from odradek.client import Consumer, ConsumerSettings
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, Violation, violations
from simulation.on_demand_producer import OnDemandProducer
from simulation.simulated_cluster import Brokers
from simulation.transaction_workload import read_all
from simulation.verdicts import require_no_violations
from simulation.walk import Walk
from simulation.workload import Options
from simulation.world import Simulation

TOPIC: Final = "orders"
GROUP: Final = "readers"
_THEMES: Final = (
    ("write", "write-much", "idle", "kill"),
    ("write", "interrupt", "replace-reader", "rest"),
    ("write-much", "write", "cut"),
    ("write-much", "write", "rest"),
)


class InterruptedReader:
    """Polls with automatic commits; `interrupt` cancels the poll it is in."""

    def __init__(self, name: str, options: Options, given: set[tuple[TopicPartition, int]]) -> None:
        self.name = name
        self._options = options
        self._given = given
        self._poll: asyncio.Task[object] | None = None

    def interrupt(self) -> None:
        if self._poll is not None:
            self._poll.cancel()

    async def run(self, world: World) -> None:
        settings = ConsumerSettings.from_options(self._options)
        async with Consumer(settings, world=world) as consumer:
            consumer.subscribe([TOPIC])
            while True:
                poll = asyncio.ensure_future(consumer.poll(1000, 5))
                self._poll = poll
                try:
                    await asyncio.wait([poll])
                    self._poll = None
                    if poll.cancelled():
                        continue
                    for partition, records in poll.result().items():
                        self._given.update((partition, record.offset) for record in records)
                except (ClientError, KafkaError):
                    await asyncio.sleep(0.2)


class ClientWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("clients")
        self._simulation = simulation
        self._brokers = Brokers(simulation, random.choice((1, 2)), _properties(random))
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.choice((1, 2)))]
        self._history = History()
        self._producers = [
            OnDemandProducer(
                f"producer-{n}",
                self._history,
                self._partitions,
                self._producer_options(),
                longest_padding=200,
            )
            for n in range(random.choice((1, 2)))
        ]
        self._given: set[tuple[TopicPartition, int]] = set()
        # What was sent before everything was well again.
        self._sent_in_trouble = 0
        self._readers = 0
        self._reader = self._new_reader()
        self._walk = Walk(
            simulation,
            {
                "write": self._write,
                "write-much": self._write_much,
                "idle": self._idle,
                "rest": self._rest,
                "interrupt": self._interrupt,
                "replace-reader": self._replace_reader,
                "cut": self._cut,
                "kill": self._kill,
            },
            {"write": 2.0, "write-much": 2.0, "interrupt": 2.0},
            ("write",),
            _THEMES,
        )

    def _producer_options(self) -> Options:
        random = self._random
        return {
            "bootstrap_servers": self._brokers.bootstrap,
            "enable_idempotence": True,
            "acks": "all",
            "linger_ms": random.choice((0, 20)),
            "batch_size": random.choice((500, 1500, 3000, 16_384)),
            "compression_type": random.choice(("none", "none", "lz4")),
            "max_in_flight_requests_per_connection": random.choice((1, 5, 5)),
            "metadata_max_idle_ms": random.choice((5000, 5000, 300_000)),
            "metadata_max_age_ms": random.choice((3000, 300_000)),
            "request_timeout_ms": 2000,
            "delivery_timeout_ms": random.choice((8000, 15_000)),
            "max_block_ms": 5000,
        }

    def _new_reader(self) -> InterruptedReader:
        self._readers += 1
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "group_id": GROUP,
            "group_protocol": self._random.choice(("classic", "consumer")),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": True,
            "auto_commit_interval_ms": self._random.choice((50, 1000)),
            "request_timeout_ms": 3000,
        }
        if options["group_protocol"] == "classic":
            options |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
        return InterruptedReader(f"reader-{self._readers}", options, self._given)

    # Steps

    def _any_scribe(self) -> OnDemandProducer:
        return self._random.choice(self._producers)

    async def _write(self) -> None:
        self._any_scribe().write(self._random.randint(1, 5))
        await asyncio.sleep(self._random.choice((0.05, 0.5)))

    async def _write_much(self) -> None:
        """At once, so that several large batches are in flight to a broker that knows us."""
        producer = self._any_scribe()
        for partition in self._partitions:
            producer.write(1, to=partition)
        await asyncio.sleep(0.2)
        producer.write(self._random.randint(30, 90), to=self._random.choice(self._partitions))
        await asyncio.sleep(self._random.choice((0.0, 0.1)))

    async def _idle(self) -> None:
        """Silence for longer than topics and producer ids are remembered."""
        await asyncio.sleep(self._random.choice((6.0, 12.0, 30.0)))

    async def _rest(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 2))

    async def _interrupt(self) -> None:
        for _ in range(self._random.randint(1, 5)):
            await asyncio.sleep(self._random.choice((0.0, 0.001, 0.01, 0.1)))
            self._reader.interrupt()

    async def _replace_reader(self) -> None:
        """A new one goes on from what the last has committed."""
        await asyncio.sleep(self._random.choice((0.0, 1.5)))
        self._simulation.host(self._reader.name).kill()
        self._reader = self._new_reader()
        self._start(self._reader)

    async def _cut(self) -> None:
        broker = self._random.choice(self._brokers.all)
        producer, network = self._any_scribe(), self._simulation.network
        network.cut(broker.name, producer.name, both_ways=self._random.random() < 0.5)
        await asyncio.sleep(self._random.choice((0.5, 3.0)))
        network.heal(broker.name, producer.name)

    async def _kill(self) -> None:
        broker = self._random.choice(self._brokers.all)
        broker.kill()
        await asyncio.sleep(self._random.choice((0.0, 1.0)))
        broker.start()

    # The run

    def _start(self, client: OnDemandProducer | InterruptedReader) -> None:
        self._simulation.host(client.name).start(client.run, client.name)

    async def run(self) -> str:
        brokers = self._brokers
        brokers.start()
        try:
            configs = {"max.message.bytes": self._random.choice(("700", "1200", "1048588"))}
            await brokers.create_topic(TOPIC, len(self._partitions), len(brokers.all), configs)
            for producer in self._producers:
                self._start(producer)
            self._start(self._reader)
            await self._walk.take(self._random.randint(5, 25))
            self._simulation.trace.add("-", "everything heals")
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            await self._judge()
        finally:
            brokers.end()
        return self._summary()

    async def _all_is_answered(self) -> None:
        await self._brokers.until(
            lambda: not any(producer.unanswered for producer in self._producers),
            lambda: (
                f"{[producer.unanswered for producer in self._producers]} sends without an answer"
            ),
        )

    async def _write_in_peace(self) -> None:
        """Whatever a producer went through, it works when brokers do."""
        await self._all_is_answered()
        self._sent_in_trouble = len(self._history.sends)
        for _ in self._producers:
            await self._write_much()
        await self._all_is_answered()

    async def _judge(self) -> None:
        await self._write_in_peace()
        options: Options = {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "none",
            "request_timeout_ms": 5000,
        }
        found = await self._brokers.ask(lambda world: read_all(world, self._partitions, options))
        for partition, records in found.items():
            self._history.read_at_the_end(partition, records)
        there = {
            (topic_partition, offset)
            for topic_partition, records in found.items()
            for offset, _ in records
        }
        missing: set[tuple[TopicPartition, int]] = set()

        def is_read() -> bool:
            missing.clear()
            missing.update(there - self._given)
            return not missing

        wrong = violations(self._history, idempotent=True)
        wrong += self._undelivered()
        require_no_violations(wrong)
        deadline_s = self._simulation.loop.time() + 30
        while not is_read() and self._simulation.loop.time() < deadline_s:  # noqa: ASYNC110 - virtual
            await asyncio.sleep(0.2)
        require_no_violations(
            [
                Violation("given to nobody", partition, f"{offset} was committed, and never seen")
                for partition, offset in sorted(missing)
            ]
        )

    def _undelivered(self) -> list[Violation]:
        """Without a cut or a kill there is no reason for a send to fail."""
        had_trouble = bool(self._walk.taken.keys() & {"cut", "kill"})
        sends = self._history.sends[self._sent_in_trouble if had_trouble else 0 :]
        return [
            Violation("undelivered", send.partition, f"{send.value!r}, though nothing was wrong")
            for send in sends
            if send.offset is None
        ]

    def _summary(self) -> str:
        return (
            f"{len(self._brokers.all)} brokers, {self._readers} readers,"
            f" {self._history.acknowledged_count()} of {len(self._history.sends)} acknowledged;"
            f" {self._walk.summary()}"
        )


def _properties(random: Random) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "producer.id.expiration.ms": random.choice(("20000", "86400000")),
        "producer.id.expiration.check.interval.ms": "1000",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "replica.lag.time.max.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.session.timeout.ms": "6000",
    }


async def clients(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await ClientWalk(simulation).run()
