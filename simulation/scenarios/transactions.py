"""Consume-transform-produce in transactions, while brokers and workers fail.

Workers read a topic, write one output for each input and commit their offsets in the same
transaction. They are killed, replaced and resumed as zombies. Readers of both isolation levels read
along. In the end the output must equal the input: nothing is lost, written twice or visible
although it was aborted.
"""

from odradek.broker.features import FEATURES, Feature
from odradek.broker.handlers import api_versions, end_txn
from odradek.protocol.types import TopicPartition
from odradek.transactions import identity_checks, machine, transaction
from odradek.world import World
from simulation.checkers import Violation
from simulation.client_pool import ClientPool, Program
from simulation.group_checkers import GroupHistory, group_violations
from simulation.group_workload import Observer
from simulation.scenarios.faulty_cluster import GROUP, FaultyCluster
from simulation.scenarios.groups import Feeder
from simulation.transaction_checkers import (
    TransactionHistory,
    commits_of,
    exactly_once,
    transaction_violations,
)
from simulation.transaction_workload import (
    Reader,
    Route,
    Temper,
    TransactionalFeeder,
    Worker,
    read_all,
    read_ends,
)
from simulation.verdicts import require_no_violations
from simulation.workload import Options
from simulation.world import Simulation

SOURCE, TARGET = "source", "target"
# The share of runs with few producer epochs, and the last of these.
_FEW_EPOCHS, _LAST_OF_FEW = 0.25, 7
# Modules with a `LAST_EPOCH`, their own or a copy that they imported.
KNOW_THE_LAST_EPOCH = (transaction, identity_checks, machine, end_txn)


class TransactionScenario:
    def __init__(self, simulation: Simulation, cluster: FaultyCluster | None = None) -> None:
        self.cluster = cluster = cluster or FaultyCluster(simulation)
        random = cluster.random
        self.version = random.choice((1, 2, 2))
        self.history = TransactionHistory()
        self.groups = GroupHistory()
        self.sources = [TopicPartition(SOURCE, n) for n in range(random.randint(1, 3))]
        self._targets = [TopicPartition(TARGET, n) for n in range(random.randint(1, 3))]
        self._workers = random.randint(1, 3)
        self._feeds_in_transactions = random.random() < 0.4
        self._is_static = random.random() < 0.2
        self._temper = Temper(
            aborts=random.choice((0.0, 0.1, 0.3)),
            stall_probability=random.choice((0.0, 0.05, 0.2)),
            max_stall_s=random.choice((0.1, 2.0, 12.0)),
        )
        self._pools: list[ClientPool] = []
        self._readers = [
            Reader(
                f"reader-{number}",
                self.history,
                [*self.sources, *self._targets],
                cluster.reader_options(isolation),
            )
            for number, isolation in enumerate(("read_committed", "read_uncommitted"))
        ]
        observing: Options = {"bootstrap_servers": cluster.bootstrap, "group_id": GROUP}
        self._observer = Observer("observer", self.groups, self.sources, observing)

    # Clients

    def _producer_options(self, transactional_id: str | None) -> Options:
        options: Options = {
            "bootstrap_servers": self.cluster.bootstrap,
            "linger_ms": self.cluster.random.choice((0, 5, 50)),
            "request_timeout_ms": 2000,
            "delivery_timeout_ms": self.cluster.random.choice((4000, 20_000)),
        }
        if transactional_id is not None:
            options["transactional_id"] = transactional_id
            options["transaction_timeout_ms"] = self.cluster.random.choice((3000, 10_000))
            options["max_block_ms"] = 20_000
        return options

    def _is_current(self, name: str) -> bool:
        return any(pool.is_current(name) for pool in self._pools)

    def _feeder(self, name: str) -> Program:
        place = name.partition(".")[0]
        if not self._feeds_in_transactions:
            count = self.cluster.random.randint(15, 40)
            options = self._producer_options(None)
            return Feeder(name, self.history.log, self.sources, count, options)
        return TransactionalFeeder(
            name,
            self.history,
            self._producer_options(place),
            self._temper,
            self._is_current,
            partitions=self.sources,
            transactions=self.cluster.random.randint(5, 15),
        )

    def _worker(self, name: str) -> Program:
        place = name.partition(".")[0]
        options: Options = {**self.cluster.member_options(), "isolation_level": "read_committed"}
        if self._is_static:
            options["group_instance_id"] = place
        route = Route(SOURCE, TARGET, len(self._targets), self.groups, options)
        return Worker(
            name,
            self.history,
            self._producer_options(place),
            self._temper,
            self._is_current,
            route=route,
        )

    # The run

    async def run(self) -> str:
        cluster, simulation = self.cluster, self.cluster.simulation
        await cluster.start({SOURCE: len(self.sources), TARGET: len(self._targets)})
        feeders = {f"feeder-{n}": self._feeder for n in range(cluster.random.randint(1, 2))}
        workers = {f"worker-{n}": self._worker for n in range(self._workers)}
        # In place before their programs ask who is current.
        self._pools = [
            ClientPool(simulation, cluster.random, feeders),
            ClientPool(simulation, cluster.random, workers),
        ]
        feeding, working = self._pools
        for reader in self._readers:
            simulation.host(reader.name).start(reader.run, reader.name)
        watching = simulation.host("observer")
        watching.start(self._observer.run, "observer")
        self.begin_watching()
        await cluster.run_with_faults([feeding, working, working])
        await cluster.faults.heal()
        feeding.stop_faults(refill=False)
        working.stop_faults()
        await feeding.finished()
        await self._input_is_replicated()
        watching.kill()
        self.end_watching()
        # A commit is answered before its markers are written: only then the input is all there.
        await self._everything_is_decided(self.sources)
        await self._input_is_used_up()
        working.kill_all()
        await self._everything_is_decided([*self.sources, *self._targets])
        await self._read_everything()
        await self._readers_catch_up()
        self._judge()
        return self._summary(working)

    def begin_watching(self) -> None:
        """Overridden by scenarios with observers of their own."""

    def end_watching(self) -> None: ...

    def more_violations(self) -> list[Violation]:
        return []

    async def _input_is_replicated(self) -> None:
        """Waits until every broker has all of the input and knows that it is committed. A broker
        that has not come back holds the high watermark until its old session ends."""

        found: list[tuple[TopicPartition, int, int]] = []

        async def is_done() -> bool:
            found[:] = [
                (partition, replica.high_watermark.value, replica.log.log_end_offset)
                for broker in self.cluster.brokers
                for replica in broker.partitions()
                if (partition := replica.topic_partition) in self.sources
            ]
            is_everywhere = len(found) == len(self.sources) * len(self.cluster.brokers)
            is_committed = all(high == end for _, high, end in found)
            return is_everywhere and is_committed and len(set(found)) == len(self.sources)

        await self.cluster.until(is_done, lambda: f"high watermarks and ends stay apart: {found}")

    async def _input_is_used_up(self) -> None:
        told: dict[TopicPartition, int] = {}
        last: dict[TopicPartition, int] = {}

        async def is_done() -> bool:
            options = self.cluster.reader_options("read_committed")
            found = await self.cluster.operator(
                lambda world: read_all(world, self.sources, options)
            )
            last.update(
                {partition: records[-1][0] for partition, records in found.items() if records}
            )
            told.update(await self.cluster.operator(self._observer.look))
            return all(told.get(partition, 0) > offset for partition, offset in last.items())

        await self.cluster.until(
            is_done, lambda: f"the group stands at {told}, the ends are {last}"
        )

    async def _everything_is_decided(self, partitions: list[TopicPartition]) -> None:
        """Waits until every open transaction has ended: by its producer, or by its timeout."""
        ends: list[dict[TopicPartition, int]] = []

        async def look(world: World) -> bool:
            ends.clear()
            for isolation in ("read_committed", "read_uncommitted"):
                options = self.cluster.reader_options(isolation)
                ends.append(await read_ends(world, partitions, options))
            return ends[0] == ends[1]

        await self.cluster.until(
            lambda: self.cluster.operator(look),
            lambda: f"transactions that nobody ends: stable to {ends[0]}, written to {ends[1]}",
        )

    async def _read_everything(self) -> None:
        partitions = [*self.sources, *self._targets]
        for isolation, history in (
            ("read_uncommitted", self.history.log),
            ("read_committed", self.history.committed),
        ):
            options = self.cluster.reader_options(isolation)
            found = await self.cluster.operator(
                lambda world, options=options: read_all(world, partitions, options)  # type: ignore[misc]
            )
            for partition, records in found.items():
                history.read_at_the_end(partition, records)

    async def _readers_catch_up(self) -> None:
        ends = {
            partition: records[-1][0] + 1
            for partition, records in self.history.log.final.items()
            if records
        }

        async def all_are_there() -> bool:
            return all(
                reader.reached(partition, end)
                for reader in self._readers
                for partition, end in ends.items()
            )

        await self.cluster.until(
            all_are_there,
            lambda: f"{[reader.positions for reader in self._readers]}, the ends are {ends}",
        )

    def _judge(self) -> None:
        history = self.history
        self.groups.commits = commits_of(history)
        readable = {
            source: [offset for offset, _ in history.committed.final[source]]
            for source in self.sources
        }
        require_no_violations(
            [
                *transaction_violations(history),
                *exactly_once(history, self.sources, self._targets),
                *group_violations(self.groups, readable),
                *self.more_violations(),
            ]
        )

    def _summary(self, working: ClientPool) -> str:
        attempts = self.history.attempts
        committed = sum(attempt.is_committed for attempt in attempts)
        return (
            f"version {self.version}, {self.cluster.protocol} {self.cluster.assignor},"
            f" {self.cluster.faults.count} faults, {working.replaced} workers replaced,"
            f" {committed} of {len(attempts)} transactions committed,"
            f" {sum(attempt.is_aborted for attempt in attempts)} aborted,"
            f" {len(self.history.log.sends)} records"
        )


def last_epoch(simulation: Simulation) -> None:
    """In some runs producer epochs are used up after a few transactions, and ids rotate."""
    if simulation.random("epochs").random() < _FEW_EPOCHS:
        few_epochs(simulation)


def few_epochs(simulation: Simulation) -> None:
    """Sets the last producer epoch for this run."""
    usual = transaction.LAST_EPOCH

    def change(last: int) -> None:
        for place in KNOW_THE_LAST_EPOCH:
            vars(place)["LAST_EPOCH"] = last

    simulation.at_end(lambda: change(usual))
    change(_LAST_OF_FEW)


def in_force(simulation: Simulation, version: int) -> None:
    """Sets the `transaction.version` of the cluster for this run."""
    name = "transaction.version"
    usual = FEATURES[name]

    def change(feature: Feature) -> None:
        FEATURES[name] = feature
        api_versions.make_response.cache_clear()  # It tells the versions in force.

    simulation.at_end(lambda: change(usual))
    change(usual._replace(finalized_version=version))


async def transactions(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    cluster = TransactionScenario(simulation)
    in_force(simulation, cluster.version)
    last_epoch(simulation)
    return await cluster.run()
