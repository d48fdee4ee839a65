"""Long sequences of leaders: A leads, B leads, A leads again, with kills between.

A few brokers hold one or two partitions. Producers write with acks=all and with acks=1. Brokers are
killed, stopped cleanly, paused, cut off, lose power or get an empty disk, and come back in any
order, while the checkpoints beside their logs are up to a minute old. `min.insync.replicas` is 1 or
2, and some runs allow unclean elections. `allowed_loss` decides which records may be lost by that.
"""

import asyncio
from random import Random
from typing import Final

from odradek.client.admin.partitions import ElectionType
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.allowed_loss import AllowedLoss
from simulation.checkers import History, violations
from simulation.on_demand_producer import OnDemandProducer
from simulation.role_steps import RoleSteps
from simulation.simulated_cluster import Brokers
from simulation.transaction_workload import read_all
from simulation.verdicts import require_no_violations
from simulation.walk import Walk
from simulation.workload import ConsumingClient, Options
from simulation.world import Simulation

TOPIC: Final = "orders"

# In how many of the runs leaders lose their store when they have let a follower in.
_UNREAD_RUNS: Final = 0.08

_WEIGHTS: Final = {
    "write": 3.0,
    "write-to-one": 1.0,
    "fork": 1.5,
    "swap": 2.0,
    "relay": 3.0,
    "flap": 3.0,
    "stall": 3.0,
    "late-entry": 3.0,
    "lone-disk": 1.0,
    "blackout": 2.0,
    "kill-all": 0.5,
    "start-all": 2.0,
    "start": 3.0,
    "settle": 2.0,
    "replace-disk": 0.5,
    "power-cut": 0.5,
    "stop": 2.0,
}

_THEMES: Final = (
    ("write", "relay", "blackout", "start-all", "settle"),
    ("write", "fork", "swap", "start", "stop", "settle", "blackout", "write-to-one"),
    ("write", "flap", "settle", "start-all", "blackout"),
    ("write", "stall", "settle", "start-all", "bounce"),
    ("write", "late-entry", "settle", "start-all"),
    ("write", "bounce", "power-cut", "start", "settle", "kill-leader", "lose-store"),
    ("write", "replace-disk", "lone-disk", "start", "start-all", "settle", "stop"),
    ("write", "pause", "cut", "settle", "lose-store", "expire", "start-all", "kill"),
)


class RoleWalk:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("roles")
        self._simulation = simulation
        simulation.worker_delay_s = (0.0, random.choice((0.001, 0.02, 0.3)))
        count = random.choice((2, 2, 3, 3))
        self._min_in_sync = random.choice((1, 2, 2))
        self._allows_unclean = random.random() < 0.15
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.choice((1, 1, 2)))]
        self._brokers = Brokers(
            simulation,
            count,
            _properties(random, self._min_in_sync, allows_unclean=self._allows_unclean),
            allows_unclean=True,
        )
        self._history = History()
        self._allowed_loss = AllowedLoss(
            self._brokers, self._history, self._partitions, self._min_in_sync
        )
        self._brokers.invariants.on_unclean = self._note_unclean
        self._unclean: list[TopicPartition] = []
        self._elected_unclean: list[TopicPartition] = []
        options = self._producer_options()
        self._producer = OnDemandProducer(
            "producer", self._history, self._partitions, {**options, "enable_idempotence": True}
        )
        self._clicker = OnDemandProducer(
            "clicker",
            self._history,
            self._partitions,
            {**options, "acks": "1", "enable_idempotence": False},
            counts_acks=False,
        )
        self._reader = ConsumingClient(
            "reader", self._history, self._partitions, self._reader_options()
        )
        steps = RoleSteps(
            simulation,
            random,
            self._brokers,
            self._partitions,
            self._allowed_loss,
            producer=self._producer,
            clicker=self._clicker,
        )
        if steps.unread.random() < _UNREAD_RUNS:
            self._brokers.invariants.on_entry = steps.lose_store_of_leader
        always = ("write", "start", "start-all")
        self._walk = Walk(simulation, steps.by_name(), _WEIGHTS, always, _THEMES)

    def _producer_options(self) -> Options:
        return {
            "bootstrap_servers": self._brokers.bootstrap,
            "linger_ms": self._random.choice((0, 5)),
            "request_timeout_ms": 1000,
            "delivery_timeout_ms": self._random.choice((3000, 10_000)),
            "max_block_ms": 2000,
        }

    def _reader_options(self) -> Options:
        return {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "none",
            "request_timeout_ms": 5000,
        }

    def _note_unclean(self, topic_partition: TopicPartition) -> None:
        """An unclean election was allowed, so records acknowledged before it may be lost."""
        if topic_partition.topic == TOPIC:
            self._unclean.append(topic_partition)
            self._allowed_loss.forgive(topic_partition, set())

    # The run

    async def run(self) -> str:
        brokers, simulation = self._brokers, self._simulation
        brokers.start()
        replicas = min(len(brokers.all), self._random.choice((2, 3)))
        await brokers.create_topic(TOPIC, len(self._partitions), replicas)
        for client in (self._producer, self._clicker):
            simulation.host(client.name).start(client.run, client.name)
        has_reader = self._min_in_sync > 1 and not self._allows_unclean
        if has_reader:
            simulation.host("reader").start(self._reader.run, "reader")
        await self._walk.take(self._random.randint(10, 40))
        brokers.invariants.on_entry = lambda *_: None
        simulation.trace.add("-", "everything heals")
        await brokers.heal()
        await self._lead_again()
        await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
        await brokers.until(self._is_answered, lambda: "sends without an answer")
        await self._judge()
        brokers.end()
        return self._summary()

    def _is_answered(self) -> bool:
        return self._producer.unanswered == 0 and self._clicker.unanswered == 0

    async def _lead_again(self) -> None:
        """Elects unclean leaders where the last replica in sync lost its disk: only an operator may
        do that. What other disks hold must still be there."""
        await asyncio.sleep(15)
        offline = [
            topic_partition
            for topic_partition in self._partitions
            if self._brokers.leader_of(topic_partition) is None
            and topic_partition in self._allowed_loss.forgiven
        ]
        self._allowed_loss.require_kept(offline)
        if not offline:
            return

        async def elect(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                await admin.elect_leaders(ElectionType.UNCLEAN, offline)

        self._simulation.trace.add("-", f"an operator elects unclean leaders of {offline}")
        self._brokers.invariants.on_unclean = self._brokers.invariants.forgive
        await self._brokers.ask(elect)
        self._elected_unclean = offline

    async def _judge(self) -> None:
        options = {**self._reader_options(), "isolation_level": "read_uncommitted"}
        found = await self._brokers.ask(lambda world: read_all(world, self._partitions, options))
        for partition, records in found.items():
            self._history.read_at_the_end(partition, records)
        self._allowed_loss.forgive_other_offsets(self._elected_unclean)
        require_no_violations(violations(self._history, idempotent=not self._unclean))
        await asyncio.sleep(1)
        self._brokers.invariants.require_equal_replicas()

    def _summary(self) -> str:
        return (
            f"{len(self._brokers.all)} brokers, min.insync.replicas={self._min_in_sync},"
            f" {len(self._unclean)} unclean elections,"
            f" {self._history.acknowledged_count()} of {len(self._history.sends)} acknowledged;"
            f" {self._walk.summary()}"
        )


def _properties(random: Random, min_in_sync: int, *, allows_unclean: bool) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "min.insync.replicas": str(min_in_sync),
        "unclean.leader.election.enable": str(allows_unclean).lower(),
        "replica.lag.time.max.ms": random.choice(("1000", "3000")),
        "replica.socket.timeout.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
        "log.segment.bytes": random.choice(("1000", "1073741824")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("1000", "60000", "60000")),
        "leader.imbalance.check.interval.seconds": random.choice(("5", "300")),
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }


async def roles(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await RoleWalk(simulation).run()
