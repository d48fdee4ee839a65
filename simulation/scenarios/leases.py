"""Three brokers that lose their store, are paused and are cut off, and what they still answer.

A producer writes, a committer commits offsets of a group, and an observer at each broker asks it
directly, whether it leads or not (`direct_observer`). The faults are those of coordinators, without
the workers of `failover`. It is a cheap way to find a broker that answers although it has lost its
lease, or late because of a slow follower.

In some runs the producer hears nothing from a leader that is deposed meanwhile. It learns of the
new leader, and goes on there, before the requests to the former one time out. In others a consumer
connects to a leader over a slow link. When it is connected, that broker has lost the end of its log
in a power cut, and follows another one. In others the preferred leader is elected while the present
one is cut off from the store, and does not hear of it. It may reach the store for a moment, too
short to read anything.
"""

import asyncio
from random import Random
from typing import Final

from odradek.client.admin.partitions import ElectionType
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, violations
from simulation.coordinator_faults import CoordinatorFaults
from simulation.direct_observer import Committer, DirectObserver
from simulation.group_checkers import GroupHistory, wrong_observations
from simulation.on_demand_producer import OnDemandProducer
from simulation.simulated_broker import SimulatedBroker
from simulation.simulated_cluster import Brokers
from simulation.transaction_workload import read_all
from simulation.verdicts import require_no_violations
from simulation.workload import ConsumingClient, Options
from simulation.world import Simulation

TOPIC: Final = "orders"
GROUP: Final = "ledger"
BROKERS: Final = 3
_MAX_ANSWER_S: Final = 9.0
_UNHEARD_PROBABILITY: Final = 0.15
_UNHEARD_TIMEOUT_MS: Final = 3000
_LATE_PROBABILITY: Final = 0.2
_DEPOSED_PROBABILITY: Final = 0.3
_GLIMPSE_PROBABILITY: Final = 0.5
# Before the session of a broker that was cut off ends.
_GLIMPSE_AFTER_S: Final = (4.0, 5.5)


class LeaseScenario:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("leases")
        self._simulation = simulation
        # Drawn from a stream of its own, so that it changes no other decision of a seed.
        self._silence = simulation.random("silence")
        self._is_unheard = self._silence.random() < _UNHEARD_PROBABILITY
        self._lateness = simulation.random("lateness")
        self._is_late = self._lateness.random() < _LATE_PROBABILITY
        self._deposition = simulation.random("deposition")
        self._is_deposed = self._deposition.random() < _DEPOSED_PROBABILITY
        self._glimpses = simulation.random("glimpses")
        properties = _properties(random)
        if self._is_deposed:
            # Shorter than a lease, so that the new leader goes on before the former one knows.
            properties["replica.lag.time.max.ms"] = "1000"
        self._brokers = brokers = Brokers(simulation, BROKERS, properties)
        self._faults = CoordinatorFaults(simulation, random, brokers.all, brokers.store_service)
        self._history, self._groups = History(), GroupHistory()
        self._partitions = [TopicPartition(TOPIC, n) for n in range(2)]
        self._producer = OnDemandProducer(
            "producer", self._history, self._partitions, self._producer_options()
        )
        self._reader = ConsumingClient(
            "reader", self._history, self._partitions, self._reader_options()
        )
        self._observers = [
            DirectObserver(
                broker,
                {GROUP: self._groups},
                self._partitions,
                acknowledged=self._history,
                longest_s=_MAX_ANSWER_S,
            )
            for broker in brokers.all
        ]
        self._committer = Committer(GROUP, self._groups, self._partitions[0], brokers.bootstrap)

    def _producer_options(self) -> Options:
        return {
            "bootstrap_servers": self._brokers.bootstrap,
            "enable_idempotence": True,
            "request_timeout_ms": _UNHEARD_TIMEOUT_MS if self._is_unheard else 1000,
            "delivery_timeout_ms": 5000,
            "max_block_ms": 2000,
            "metadata_max_age_ms": 200 if self._is_unheard else 300_000,
        }

    def _reader_options(self) -> Options:
        return {
            "bootstrap_servers": self._brokers.bootstrap,
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 200,
        }

    async def run(self) -> str:
        brokers, simulation = self._brokers, self._simulation
        brokers.start()
        try:
            await brokers.create_topic(TOPIC, len(self._partitions), BROKERS)
            watchers: list[OnDemandProducer | Committer | DirectObserver | ConsumingClient] = [
                self._producer,
                self._committer,
            ]
            watchers += self._observers
            if self._is_late:
                watchers.append(self._reader)
            for watcher in watchers:
                simulation.host(watcher.name).start(watcher.run, watcher.name)
            await asyncio.sleep(2)
            for _ in range(self._random.randint(3, 9)):
                await self._faults.inject([self._producer.name, self._committer.name])
                for _ in range(self._random.choice((1, 3, 8))):
                    self._producer.write(1)
                    await asyncio.sleep(self._random.uniform(0.2, 2))
                if self._is_unheard:
                    await self._leave_unheard()
                if self._is_late:
                    await self._connect_late()
                if self._is_deposed:
                    await self._depose()
            await self._faults.heal()
            await brokers.heal()
            await brokers.until(brokers.is_healthy, brokers.describe_unhealthy)
            await brokers.until(lambda: not self._producer.unanswered, lambda: "a send")
            for watcher in watchers:
                simulation.host(watcher.name).kill()
            await self._judge()
        finally:
            brokers.end()
        return self._summary()

    async def _leave_unheard(self) -> None:
        """Cuts the way from a leader to the producer, and ends the leader's session. The producer
        has written to the partition before, so that several batches may be in flight."""
        partition = self._silence.choice(self._partitions)
        self._producer.write(1, partition)
        await asyncio.sleep(1)
        leader = self._brokers.leader_of(partition)
        if leader is None:
            return
        self._simulation.network.cut(leader.name, self._producer.name, both_ways=False)
        for _ in range(self._silence.randint(1, 3)):
            self._producer.write(1, partition)
            await asyncio.sleep(self._silence.uniform(0.02, 0.1))
        leader.expire_session()
        await asyncio.sleep(self._silence.uniform(0.5, 1.5))
        for _ in range(self._silence.randint(6, 12)):
            self._producer.write(1, partition)
            await asyncio.sleep(self._silence.uniform(0.05, 0.15))
        await asyncio.sleep(_UNHEARD_TIMEOUT_MS / 1000)
        self._simulation.network.heal(leader.name, self._producer.name)

    async def _connect_late(self) -> None:
        """The reader has read all records of a partition, and connects to its leader again. While
        it does, the leader loses power, comes back without its last records, and cannot reach the
        new leader. Nothing acknowledged is lost, because all replicas were in sync."""
        random, network = self._lateness, self._simulation.network
        partition = random.choice(self._partitions)
        for _ in range(random.randint(1, 3)):
            self._producer.write(1, partition)
            await asyncio.sleep(0.3)
        leader = self._brokers.leader_of(partition)
        if leader is None or not self._brokers.is_healthy():
            return
        network.reset(leader.name, self._reader.name)
        network.set_delay(leader.name, self._reader.name, (0.2, 0.6))
        await asyncio.sleep(random.uniform(0.05, 0.3))
        others = [broker for broker in self._brokers.all if broker is not leader]
        for other in others:
            network.cut(leader.name, other.name)
        leader.power_off()
        leader.start()
        await asyncio.sleep(random.uniform(1, 3))
        for other in others:
            network.heal(leader.name, other.name)
        network.set_delay(leader.name, self._reader.name, network.delay_s)
        await asyncio.sleep(1)

    async def _depose(self) -> None:
        """Cuts a leader off from the store, and elects the preferred leader in its place. The first
        is not asked by anyone but the observer at its broker."""
        random, partition = self._deposition, self._deposition.choice(self._partitions)
        preferred = self._brokers.leader_of(partition)
        if preferred is None or not self._brokers.is_healthy():
            return
        preferred.expire_session()
        await asyncio.sleep(random.uniform(1, 2))
        leader = self._brokers.leader_of(partition)
        if leader is None:
            return
        self._simulation.trace.add("-", f"{leader.name} is to be deposed as leader of {partition}")
        leader.cut_store()
        cut_s = self._simulation.loop.time()

        async def elect(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                await admin.elect_leaders(ElectionType.PREFERRED, [partition])

        await self._brokers.try_to(elect, 2.0)
        for _ in range(random.randint(5, 10)):
            self._producer.write(1, partition)
            await asyncio.sleep(random.uniform(0.2, 0.5))
        if self._glimpses.random() < _GLIMPSE_PROBABILITY:
            await self._glimpse(leader, partition, cut_s)
        leader.reconnect_store()

    async def _glimpse(
        self, deposed: SimulatedBroker, partition: TopicPartition, cut_s: float
    ) -> None:
        """Lets a deposed leader reach its store, which prolongs its session, and cuts it off again
        before it has read who leads. By the end the new leader has committed without it."""
        reached_s = cut_s + self._glimpses.uniform(*_GLIMPSE_AFTER_S)
        await asyncio.sleep(max(0.0, reached_s - self._simulation.loop.time()))
        deposed.reconnect_store()
        deposed.cut_store()
        for _ in range(self._glimpses.randint(10, 15)):
            self._producer.write(1, partition)
            await asyncio.sleep(self._glimpses.uniform(0.2, 0.4))

    async def _judge(self) -> None:
        options: Options = {"bootstrap_servers": self._brokers.bootstrap}
        options |= {"auto_offset_reset": "none", "request_timeout_ms": 5000}
        found = await self._brokers.ask(lambda world: read_all(world, self._partitions, options))
        for partition, records in found.items():
            self._history.read_at_the_end(partition, records)
        wrong = [record for observer in self._observers for record in observer.found]
        require_no_violations(
            [
                *wrong,
                *wrong_observations(self._groups),
                *violations(self._history, idempotent=True),
            ]
        )

    def _summary(self) -> str:
        commits = self._groups.commits
        return (
            f"{self._faults.count} faults, {sum(commit.is_acknowledged for commit in commits)} of"
            f" {len(commits)} commits acknowledged, {len(self._groups.observations)} observations,"
            f" {self._history.acknowledged_count()} of {len(self._history.sends)} sends"
        )


def _properties(random: Random) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "min.insync.replicas": random.choice(("1", "2")),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(BROKERS),
        "offsets.commit.timeout.ms": "2000",
        "replica.lag.time.max.ms": random.choice(("1000", "30000")),
        "replica.socket.timeout.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
    }


async def leases(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await LeaseScenario(simulation).run()
