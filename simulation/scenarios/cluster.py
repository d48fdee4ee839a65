"""Three brokers, their metadata store and clients of every kind, with all faults of
`cluster_faults`.

Producers write with acks=all and idempotence, some with acks=1, some in transactions; consumers
read by assignment and in a group, with both isolation levels; an operator moves partitions, elects
preferred leaders, creates and deletes topics and restarts brokers one after the other. The metadata
store delays notifications and reads and loses replies, as an ensemble may. In some runs brokers
compact all the time, and a writer changes the keys of a compacted topic.

The cluster invariants are checked all the time. In the end every fault is healed: all replicas must
be in sync again, all clients must finish, all replicas must hold the same bytes, and the histories
are checked.
"""

import asyncio
from collections.abc import Callable
from random import Random

from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.protocol.types import TopicPartition
from odradek.world import Randomness, World
from simulation.checkers import History, Send, Violation, violations
from simulation.client_pool import ClientPool
from simulation.cluster_faults import AllowedFaults, ClusterFaults
from simulation.cluster_invariants import ClusterInvariants
from simulation.cluster_operator import BROKERS, ClusterOperator
from simulation.compaction_workload import (
    STATES,
    Found,
    KeyedWriter,
    compaction_of,
    read_keyed,
)
from simulation.group_checkers import GroupHistory, two_owners
from simulation.group_workload import GroupMember, MemberBehaviour
from simulation.simulated_broker import SimulatedBroker
from simulation.transaction_checkers import TransactionHistory, transaction_violations
from simulation.transaction_workload import (
    Reader,
    Temper,
    TransactionalFeeder,
    read_all,
    read_ends,
)
from simulation.verdicts import NeverHappened, require_no_violations
from simulation.workload import ConsumingClient, Options, ProducingClient
from simulation.world import Simulation

# Topics written with acks=all, with acks=1, and in transactions.
ORDERS, CLICKS, LEDGER = "orders", "clicks", "ledger"

MIN_IN_SYNC = 2

# Virtual time after which a cluster that has not recovered counts as broken.
_PATIENCE_S = 120.0
_LOOK_S = 0.05


class _Orders(History):
    """Reports acknowledgements as they come."""

    def __init__(self, on_acknowledged: Callable[[TopicPartition, int], None]) -> None:
        super().__init__()
        self._on_acknowledged = on_acknowledged

    def acknowledged(self, send: Send, offset: int) -> None:
        super().acknowledged(send, offset)
        assert isinstance(send.partition, TopicPartition)
        self._on_acknowledged(send.partition, offset)


class ClusterScenario:
    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("day")
        self._simulation = simulation
        simulation.worker_delay_s = (0.0, random.choice((0.001, 0.02, 0.3)))
        self._allowed_faults = random.choice(list(AllowedFaults))
        self._store_faults = _store_faults(random)
        store = MemoryMetadata(self._store_faults)
        properties = _properties(random, flushes=self._allowed_faults is AllowedFaults.FLUSHED)
        self._compaction = compaction_of(simulation)
        if self._compaction is not None:
            properties |= self._compaction.properties
        self._brokers = [
            SimulatedBroker(simulation, store, number, properties)
            for number in range(1, BROKERS + 1)
        ]
        self._bootstrap = ",".join(broker.address for broker in self._brokers)
        self._invariants = ClusterInvariants(simulation, store.tree, self._brokers)
        self._faults = ClusterFaults(
            simulation,
            random,
            self._brokers,
            allowed=self._allowed_faults,
            is_healthy=self._invariants.is_healthy,
        )
        self._orders, self._clicks = _Orders(self._was_acknowledged), History()
        self._ledger, self._groups = TransactionHistory(), GroupHistory()
        self._topics = {ORDERS: random.randint(1, 3)}
        if random.random() < 0.3:
            self._topics[CLICKS] = 1
        if random.random() < 0.4:
            self._topics[LEDGER] = random.randint(1, 2)
        if self._compaction is not None:
            self._topics[STATES] = len(self._compaction.partitions)
        self._has_group = random.random() < 0.3
        self._producers: list[ProducingClient | KeyedWriter] = []
        self._consumers: list[ConsumingClient] = []
        self._readers: list[Reader] = []
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pools: list[ClientPool] = []
        self._operator = ClusterOperator(
            simulation, random, self._bootstrap, self._topics, self._compaction
        )

    def _was_acknowledged(self, partition: TopicPartition, offset: int) -> None:
        if self._allowed_faults is AllowedFaults.KILLS:
            self._invariants.require_replicated(partition, offset, MIN_IN_SYNC)

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(self._topics.get(topic, 0))]

    # Clients

    def _hire(self) -> None:
        random = self._random
        orders, clicks = self._partitions(ORDERS), self._partitions(CLICKS)
        for number in range(random.randint(1, 2)):
            options = {**self._producer_options(), "acks": "all", "enable_idempotence": True}
            options["max_in_flight_requests_per_connection"] = random.randint(1, 5)
            count = random.randint(30, 120)
            self._producers.append(
                ProducingClient(f"producer-{number}", self._orders, orders, count, options)
            )
        self._consumers.append(self._consumer("consumer", self._orders, orders))
        if clicks:
            options = {**self._producer_options(), "acks": "1", "enable_idempotence": False}
            options["max_in_flight_requests_per_connection"] = 1
            self._producers.append(ProducingClient("clicker", self._clicks, clicks, 60, options))
            self._consumers.append(self._consumer("watcher", self._clicks, clicks))
        if self._compaction is not None:
            writer = KeyedWriter("keeper", self._compaction, self._producer_options())
            self._producers.append(writer)
        for number, isolation in enumerate(("read_committed", "read_uncommitted")):
            ledger = self._partitions(LEDGER)
            if ledger:
                options = self._reader_options(isolation)
                self._readers.append(Reader(f"reader-{number}", self._ledger, ledger, options))
        clients: list[ProducingClient | KeyedWriter | ConsumingClient | Reader] = []
        clients += [*self._producers, *self._consumers]
        clients += self._readers
        for client in clients:
            host = self._simulation.host(client.name)
            self._running[client.name] = host.start(client.run, client.name)
        if self._partitions(LEDGER):
            self._pools.append(ClientPool(self._simulation, random, {"banker": self._banker}))
        if self._has_group:
            members = {f"member-{number}": self._member for number in range(2)}
            self._pools.append(ClientPool(self._simulation, random, members))

    def _producer_options(self) -> Options:
        random = self._random
        return {
            "bootstrap_servers": self._bootstrap,
            "linger_ms": random.choice((0, 5, 50)),
            "compression_type": random.choice(("none", "lz4")),
            "request_timeout_ms": random.choice((1000, 5000)),
            "delivery_timeout_ms": random.choice((10_000, 60_000)),
            "max_block_ms": 10_000,
        }

    def _reader_options(self, isolation: str = "read_uncommitted") -> Options:
        return {
            "bootstrap_servers": self._bootstrap,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
            "request_timeout_ms": 5000,
            "fetch_max_bytes": self._random.choice((100, 10_000, 50 << 20)),
        }

    def _consumer(
        self, name: str, history: History, partitions: list[TopicPartition]
    ) -> ConsumingClient:
        return ConsumingClient(name, history, partitions, self._reader_options())

    def _is_current(self, name: str) -> bool:
        return any(pool.is_current(name) for pool in self._pools)

    def _banker(self, name: str) -> TransactionalFeeder:
        random = self._random
        options: Options = {
            **self._producer_options(),
            "transactional_id": "banker",
            "transaction_timeout_ms": random.choice((3000, 10_000)),
        }
        temper = Temper(
            aborts=random.choice((0.0, 0.3)),
            stall_probability=random.choice((0.0, 0.2)),
            max_stall_s=4.0,
        )
        return TransactionalFeeder(
            name,
            self._ledger,
            options,
            temper,
            self._is_current,
            partitions=self._partitions(LEDGER),
            transactions=random.randint(5, 15),
        )

    def _member(self, name: str) -> GroupMember:
        options: Options = {
            "bootstrap_servers": self._bootstrap,
            "group_id": "workers",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "request_timeout_ms": 5000,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 1000,
        }
        habits = MemberBehaviour(ORDERS, commits_async=False, stall_probability=0.0)
        return GroupMember(
            name,
            self._groups,
            self._orders,
            options,
            habits,
            is_current=self._is_current,
        )

    # The run

    async def run(self) -> str:
        for broker in self._brokers:
            broker.start()
        looking = asyncio.ensure_future(self._look())
        async with asyncio.timeout(_PATIENCE_S):
            await self._simulation.host("operator").start(self._operator.create_topics, "operator")
        self._hire()
        faults_end_s = self._simulation.loop.time() + self._random.uniform(4, 25)
        while self._simulation.loop.time() < faults_end_s:
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._something_happens()
            self._require_alive()
        self._simulation.trace.add("-", "everything heals")
        await self._faults.heal()
        self._store_faults.lost_replies = 0.0
        await self._evening()
        looking.cancel()
        self._judge()
        return self._summary()

    async def _something_happens(self) -> None:
        chance = self._random.random()
        if chance < 0.15:
            await self._operator.send_request(10.0)
        elif chance < 0.25 and self._pools:
            self._random.choice(self._pools).inject()
        elif chance < 0.3:
            self._faults.begin_rolling_restart()
        else:
            hosts = [*self._running, *(name for pool in self._pools for name in pool.hosts)]
            self._faults.inject(hosts)

    async def _look(self) -> None:
        """Checks the invariants. A violation ends the run through the loop, because no code awaits
        this task."""
        while True:
            try:
                self._invariants.look()
                for broker in self._brokers:
                    broker.supervise()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                self._simulation.loop.fail(str(error), error)
            await asyncio.sleep(_LOOK_S)

    def _require_alive(self) -> None:
        for task in self._running.values():
            if task.done() and not task.cancelled():
                task.result()

    # After the faults

    async def _evening(self) -> None:
        simulation = self._simulation
        for pool in self._pools:
            pool.stop_faults()
        await self._until(self._is_healed, self._what_is_ill)
        finishing = [self._running[producer.name] for producer in self._producers]
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*finishing)
            if self._partitions(LEDGER):
                await self._pools[0].finished()
        await self._everything_is_decided()
        await self._read_everything()
        await self._consumers_catch_up()
        if self._has_group:
            self._pools[-1].kill_all()
        self._require_alive()
        await self._until(self._is_healed, self._what_is_ill)
        self._invariants.look()
        await asyncio.sleep(1)
        self._invariants.require_equal_replicas()
        simulation.trace.add("-", "all replicas agree")
        await self._keys_are_kept()

    async def _until(self, holds: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline_s = self._simulation.loop.time() + _PATIENCE_S
        while not holds():
            self._require_alive()
            if self._simulation.loop.time() >= deadline_s:
                raise NeverHappened(what())
            await asyncio.sleep(0.1)

    def _is_healed(self) -> bool:
        return all(self._invariants.is_healthy(broker) for broker in self._brokers) and all(
            state.leader > 0 for state in self._invariants.states.values()
        )

    def _what_is_ill(self) -> str:
        ill = [
            f"{path}: {state} of {self._invariants.replicas_of(path)}"
            for path, state in self._invariants.states.items()
            if len(state.isr) < len(self._invariants.replicas_of(path)) or state.leader < 0
        ]
        missing = [
            broker.name for broker in self._brokers if not self._invariants.is_healthy(broker)
        ]
        return f"not healed after {_PATIENCE_S:.0f} s: {missing}, {ill}"

    async def _everything_is_decided(self) -> None:
        """A commit is answered before its markers are replicated, and what a producer left open
        when it was killed ends by itself: only then read_committed sees all there is."""
        ledger = self._partitions(LEDGER)
        ends: list[dict[TopicPartition, int]] = []

        async def look(world: World) -> None:
            while not ends or ends[0] != ends[1]:
                ends[:] = [
                    await read_ends(world, ledger, self._reader_options(isolation))
                    for isolation in ("read_committed", "read_uncommitted")
                ]
                await asyncio.sleep(0.1)

        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._simulation.host("auditor").start(look, "auditor")
        except TimeoutError:
            told = f"transactions that nobody ends: stable to {ends[0]}, written to {ends[1]}"
            raise NeverHappened(told) from None

    async def _read_everything(self) -> None:
        async def read(world: World) -> None:
            for topic, isolation, history in (
                (ORDERS, "read_uncommitted", self._orders),
                (CLICKS, "read_uncommitted", self._clicks),
                (LEDGER, "read_uncommitted", self._ledger.log),
                (LEDGER, "read_committed", self._ledger.committed),
            ):
                options = {**self._reader_options(isolation), "fetch_max_bytes": 1 << 20}
                found = await read_all(world, self._partitions(topic), options)
                for partition, records in found.items():
                    history.read_at_the_end(partition, records)

        async with asyncio.timeout(_PATIENCE_S):
            await self._simulation.host("auditor").start(read, "auditor")

    async def _keys_are_kept(self) -> None:
        if self._compaction is None:
            return
        workload, found = self._compaction, list[Violation]()

        async def read(world: World) -> None:
            options = {**self._reader_options(), "fetch_max_bytes": 1 << 20}
            for partition, records in (
                await read_keyed(world, workload.partitions, options)
            ).items():
                found.extend(workload.violations(partition, records))
                workload.left += len(records)

        async with asyncio.timeout(_PATIENCE_S):
            await self._simulation.host("auditor").start(read, "auditor")
        for partition in workload.partitions:
            for name, records in self._invariants.replicas_in_sync(partition).items():
                held = [Found(record.offset, record.key, record.value) for record in records]
                found += [
                    Violation(violation.rule, violation.partition, f"on {name}: {violation.detail}")
                    for violation in workload.violations(partition, held)
                ]
        require_no_violations(found)

    async def _consumers_catch_up(self) -> None:
        ends = {
            partition: records[-1][0] + 1
            for history in (self._orders, self._clicks)
            for partition, records in history.final.items()
            if records
        }
        await self._until(
            lambda: all(
                consumer.next_offsets.get(partition, 0) >= end
                for consumer in self._consumers
                for partition, end in ends.items()
                if partition in consumer.partitions
            ),
            lambda: f"{[one.next_offsets for one in self._consumers]}, the ends are {ends}",
        )

    def _judge(self) -> None:
        # With acks=1 an acknowledged record may be lost, but one that was read stays.
        self._clicks.sends = [Send(s.producer, s.partition, s.value) for s in self._clicks.sends]
        require_no_violations(
            [
                *violations(self._orders, idempotent=True),
                *violations(self._clicks),
                *transaction_violations(self._ledger),
                *two_owners(self._groups),
            ]
        )

    def _summary(self) -> str:
        sends = len(self._orders.sends)
        return (
            f"{self._faults.count} faults, {self._operator.requests} operations,"
            f" {sum(broker.starts for broker in self._brokers)} starts,"
            f" {self._invariants.checks} changes of partitions,"
            f" {self._orders.acknowledged_count()} of {sends} sends acknowledged"
            f", {self._allowed_faults.name.lower()}"
            + ("" if self._compaction is None else f", {self._compaction.summary()}")
        )


def _store_faults(random: Random) -> StoreFaults:
    return StoreFaults(
        Randomness(random.getrandbits(64)),
        max_notification_delay_s=random.choice((0.0, 0.05, 0.5)),
        max_operation_delay_s=random.choice((0.0, 0.05)),
        max_read_lag_s=random.choice((0.0, 0.0, 0.3)),
        lost_replies=random.choice((0.0, 0.0, 0.05)),
    )


def _properties(random: Random, *, flushes: bool) -> dict[str, str]:
    properties = {
        "auto.create.topics.enable": "false",
        "min.insync.replicas": str(MIN_IN_SYNC),
        "replica.lag.time.max.ms": random.choice(("1000", "3000")),
        "replica.socket.timeout.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
        "log.segment.bytes": random.choice(("2000", "1073741824")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("100", "60000")),
        "leader.imbalance.check.interval.seconds": random.choice(("5", "300")),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": str(MIN_IN_SYNC),
        "group.initial.rebalance.delay.ms": "100",
    }
    if flushes:
        properties["log.flush.interval.messages"] = "1"
    return properties


async def cluster(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    return await ClusterScenario(simulation).run()
