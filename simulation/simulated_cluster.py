"""Several brokers of one cluster, their store, and an operator who sends requests to them.

What the walks of `roles`, `topics`, `failover` and others have in common: start, supervise, look
at the invariants, wait for something to come true.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from odradek.client import Admin
from odradek.client.errors import ClientError
from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import Randomness, World
from simulation.cluster_invariants import ClusterInvariants
from simulation.simulated_broker import SimulatedBroker
from simulation.stores import MemoryStore, SocketStore, Store
from simulation.verdicts import NeverHappened
from simulation.world import Simulation

T = TypeVar("T")
Program = Callable[[World], Coroutine[Any, Any, T]]

# Virtual time after which a state that was not reached counts as never reached.
PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.05
# The share of seeds whose metadata is in SQLite behind its service.
_SOCKET_STORES: Final = 0.25


class Brokers:
    """Brokers 1 to `count` with the same settings."""

    def __init__(
        self,
        simulation: Simulation,
        count: int,
        properties: Mapping[str, str],
        *,
        allows_unclean: bool = False,
        store: Store | None = None,
    ) -> None:
        """Without a store the seed chooses one: in memory, or SQLite behind its service."""
        random = simulation.random("brokers")
        self.simulation = simulation
        self.faults = StoreFaults(
            Randomness(random.getrandbits(64)),
            max_notification_delay_s=random.choice((0.0, 0.0, 0.05, 0.5)),
            max_operation_delay_s=random.choice((0.0, 0.05, 0.3, 0.3)),
            max_read_lag_s=random.choice((0.0, 0.0, 0.3)),
            lost_replies=random.choice((0.0, 0.0, 0.05)),
        )
        self.store_service: SocketStore | None = None
        if store is None:
            if simulation.random("store").random() < _SOCKET_STORES:
                store = self.store_service = SocketStore(simulation)
            else:
                store = MemoryStore(MemoryMetadata(self.faults))
        self.all = [
            SimulatedBroker(simulation, store, number, properties) for number in range(1, count + 1)
        ]
        self.bootstrap = ",".join(broker.address for broker in self.all)
        self.invariants = ClusterInvariants(
            simulation, store, self.all, allows_unclean=allows_unclean
        )
        self._looking: asyncio.Task[None] | None = None
        self._asked = 0

    def __getitem__(self, node_id: int) -> SimulatedBroker:
        return self.all[node_id - 1]

    @property
    def running(self) -> list[SimulatedBroker]:
        return [broker for broker in self.all if broker.is_running]

    def start(self) -> None:
        if self.store_service is not None:
            self.store_service.start()
        for broker in self.all:
            broker.start()
        self._looking = asyncio.ensure_future(self._look())

    def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self.store_service is not None:
            self.store_service.end()

    async def _look(self) -> None:
        """Checks the invariants every 50 ms. A violation ends the run through the loop, because no
        code awaits this task."""
        while True:
            try:
                self.invariants.look()
                for broker in self.all:
                    broker.supervise()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                self.simulation.loop.fail(str(error), error)
            await asyncio.sleep(_LOOK_S)

    # The operator

    def admin(self, world: World) -> Admin:
        return Admin(world=world, bootstrap_servers=self.bootstrap, request_timeout_ms=3000)

    async def ask(self, program: Program[T], patience_s: float = PATIENCE_S) -> T:
        """Runs a program on the operator's host, which has no faults."""
        self._asked += 1
        name = f"operator#{self._asked}"
        async with asyncio.timeout(patience_s):
            return await self.simulation.host("operator").start(program, name)

    async def try_to(self, program: Program[Any], patience_s: float = 5.0) -> bool:
        """Returns whether it succeeded in time. While faults go on it need not."""
        with suppress(TimeoutError, ClientError, KafkaError):
            await self.ask(program, patience_s)
            return True
        return False

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the topic, and tries again until it exists."""

        async def create(world: World) -> None:
            async with self.admin(world) as admin:
                while True:
                    try:
                        await admin.create_topic(name, partitions, replicas, configs)
                    except KafkaError as error:
                        if error.code.name == "TOPIC_ALREADY_EXISTS":
                            return
                    except ClientError:
                        pass
                    else:
                        return
                    await asyncio.sleep(0.1)

        await self.ask(create)

    # Waiting

    async def until(
        self, holds: Callable[[], bool], what: Callable[[], str], patience_s: float = PATIENCE_S
    ) -> None:
        """Waits until `holds()`, or raises `NeverHappened` with what `what()` says."""
        deadline_s = self.simulation.loop.time() + patience_s
        while not holds():
            if self.simulation.loop.time() >= deadline_s:
                raise NeverHappened(f"unseen: {what()}")
            await asyncio.sleep(0.1)

    async def heal(self) -> None:
        """Ends every fault and starts every broker."""
        network = self.simulation.network
        network.heal_all()
        if self.store_service is not None:
            self.store_service.resume()
            self.store_service.start()
        for broker in self.all:
            network.admit(broker.name)
            broker.host.disk.heal()
            broker.resume()
            broker.reconnect_store()
            broker.slow_store(0.0)
            for name in self.simulation.hosts:
                if name != broker.name:
                    network.set_delay(broker.name, name, network.delay_s)
            broker.start()
        self.faults.lost_replies = 0.0

    def is_healthy(self) -> bool:
        """Every replica is in sync and every partition has a leader."""
        return all(map(self.invariants.is_healthy, self.all)) and all(
            state.leader > 0 for state in self.invariants.states.values()
        )

    def describe_unhealthy(self) -> str:
        ill = [
            f"{path}: {state} of {self.invariants.replicas_of(path)}"
            for path, state in self.invariants.states.items()
            if len(state.isr) < len(self.invariants.replicas_of(path)) or state.leader < 0
        ]
        missing = [broker.name for broker in self.all if not self.invariants.is_healthy(broker)]
        return f"not healed: {missing}, {ill}"

    def leader_of(self, topic_partition: TopicPartition) -> SimulatedBroker | None:
        state = self.invariants.state_of(topic_partition)
        return None if state is None or state.leader < 1 else self[state.leader]


def is_level(
    follower: SimulatedBroker, leader: SimulatedBroker, partitions: Iterable[TopicPartition]
) -> bool:
    """Whether the follower's logs of these partitions are as long as the leader's."""
    held, led = (
        {
            partition.topic_partition: partition.log.log_end_offset
            for partition in broker.partitions()
        }
        for broker in (follower, leader)
    )
    return all(
        topic_partition in led and held.get(topic_partition) == led[topic_partition]
        for topic_partition in partitions
    )
