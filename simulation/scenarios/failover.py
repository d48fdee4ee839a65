"""Coordinators of three brokers fail over while records are carried in transactions.

The workers, producers and readers are those of `transactions`, in groups of both protocols, with
offsets committed in transactions. Coordinators are killed, stopped past their sessions with
requests queued up, cut off from the store alone or from the other brokers, or have a follower that
hears nothing. Besides the rules of `transactions` and `groups`, an observer at each broker checks
what a broker answers that no longer leads (`direct_observer`).
"""

import asyncio
from typing import Final

from odradek.metadata.memory import MemoryMetadata
from simulation.checkers import Violation
from simulation.cluster_invariants import ClusterInvariants
from simulation.coordinator_faults import CoordinatorFaults
from simulation.direct_observer import Committer, DirectObserver
from simulation.group_checkers import GroupHistory, wrong_observations
from simulation.scenarios.faulty_cluster import GROUP, FaultyCluster
from simulation.scenarios.transactions import TransactionScenario, in_force, last_epoch
from simulation.stores import SocketStore
from simulation.world import Simulation

BROKERS: Final = 3
_COMMIT_TIMEOUT_S: Final = 2.0
# A small request waits at most for the commit timeout, for the lease, and for a load.
_MAX_ANSWER_S: Final = 9.0
_LOOK_S: Final = 0.2
_LEDGER: Final = "ledger"


class FailoverScenario(TransactionScenario):
    def __init__(self, simulation: Simulation) -> None:
        random = simulation.random("failover")
        properties = {
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": str(BROKERS),
            "transaction.state.log.replication.factor": str(BROKERS),
            "transaction.state.log.min.isr": "2",
            "offsets.commit.timeout.ms": str(round(_COMMIT_TIMEOUT_S * 1000)),
            "replica.lag.time.max.ms": random.choice(("1000", "3000", "30000")),
            "replica.socket.timeout.ms": "2000",
            "replica.fetch.wait.max.ms": "500",
            "leader.imbalance.check.interval.seconds": random.choice(("5", "300")),
        }
        cluster = FaultyCluster(simulation, BROKERS, properties)
        cluster.max_fault_time_s = 28.0
        cluster.is_supervised = True
        self._store_service = cluster.store if isinstance(cluster.store, SocketStore) else None
        cluster.faults = CoordinatorFaults(simulation, random, cluster.brokers, self._store_service)
        super().__init__(simulation, cluster)
        store = cluster.store
        watched = store.tree if isinstance(store, MemoryMetadata) else store
        self._invariants = ClusterInvariants(simulation, watched, cluster.brokers)
        self._ledger = GroupHistory()
        self._committer = Committer(_LEDGER, self._ledger, self.sources[0], cluster.bootstrap)
        self._observers = [
            DirectObserver(
                broker,
                {GROUP: self.groups, _LEDGER: self._ledger},
                self.sources,
                acknowledged=self.history.log,
                longest_s=_MAX_ANSWER_S,
            )
            for broker in cluster.brokers
        ]
        self._watchers: list[DirectObserver | Committer] = [*self._observers, self._committer]
        self._looking: asyncio.Task[None] | None = None

    def begin_watching(self) -> None:
        for watcher in self._watchers:
            self.cluster.simulation.host(watcher.name).start(watcher.run, watcher.name)
        self._looking = asyncio.ensure_future(self._look())

    def end_watching(self) -> None:
        for watcher in self._watchers:
            self.cluster.simulation.host(watcher.name).kill()

    async def _look(self) -> None:
        """Ends the run when an invariant is broken: nobody waits for this task."""
        while True:
            try:
                self._invariants.look()
                for broker in self.cluster.brokers:
                    broker.supervise()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                self.cluster.simulation.loop.fail(str(error), error)
            await asyncio.sleep(_LOOK_S)

    def more_violations(self) -> list[Violation]:
        found = [record for observer in self._observers for record in observer.found]
        return [*found, *wrong_observations(self._ledger)]

    async def run(self) -> str:
        try:
            return await super().run()
        finally:
            if self._looking is not None:
                self._looking.cancel()
            if self._store_service is not None:
                self._store_service.end()


async def failover(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    cluster = FailoverScenario(simulation)
    in_force(simulation, cluster.version)
    last_epoch(simulation)
    return await cluster.run()
