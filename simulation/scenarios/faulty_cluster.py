"""What `groups`, `transactions` and `failover` have in common: brokers, topics and faults.

The seed draws the settings and every fault. With `flush.messages=1` power cuts are among the
faults; without, brokers are only killed and stopped, which loses nothing. In some runs the topics
of the coordinators are compacted all the time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from odradek.client import Admin
from odradek.client.errors import ClientError
from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.protocol.errors import KafkaError
from odradek.world import Randomness, World
from simulation.client_pool import ClientPool
from simulation.compaction_workload import compaction_of
from simulation.faults import Faults
from simulation.simulated_broker import SimulatedBroker
from simulation.stores import SocketStore
from simulation.verdicts import NeverHappened
from simulation.workload import Options
from simulation.world import Simulation

PATIENCE_S = 300.0
GROUP = "workers"

_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 20.0

OFFSETS_PARTITIONS = 2
_BROKER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
}
# The protocol and the assignor of a group.
_PROTOCOLS = (
    ("classic", "range"),
    ("classic", "sticky"),
    ("classic", "cooperative-sticky"),
    ("consumer", "uniform"),
    ("consumer", "range"),
)

# The share of runs with several brokers whose metadata is in SQLite behind its service.
_SOCKET_STORES = 0.25

T = TypeVar("T")


class FaultInjector(Protocol):
    count: int

    async def inject(self, clients: Sequence[str]) -> None:
        """Injects one fault."""

    async def heal(self) -> None:
        """Ends every fault and starts every broker."""


class FaultyCluster:
    """Brokers and the faults injected into them. Subclasses and users add the clients."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 1,
        more_properties: Mapping[str, str] | None = None,
    ) -> None:
        random = self.random = simulation.random("day")
        self.simulation = simulation
        # The longest sync. Slow ones leave more unsynced data for a power cut to take.
        simulation.worker_delay_s = (0.0, random.choice((0.001, 0.02, 0.3)))
        flushes = random.random() < 0.5
        properties = {**_BROKER, "log.segment.bytes": random.choice(("2000", "1073741824"))}
        if flushes:
            properties["log.flush.interval.messages"] = "1"
        compaction = compaction_of(simulation)
        self.is_compacting = compaction is not None
        if compaction is not None:
            properties |= compaction.properties
        properties |= more_properties or {}
        self.store: MemoryMetadata | SocketStore = MemoryMetadata(
            StoreFaults(
                Randomness(random.getrandbits(64)),
                max_notification_delay_s=random.choice((0.0, 0.5)),
                max_operation_delay_s=random.choice((0.0, 0.05)),
            )
        )
        if brokers > 1 and simulation.random("store").random() < _SOCKET_STORES:
            self.store = SocketStore(simulation)
        self.brokers = [
            SimulatedBroker(simulation, self.store, number, properties)
            for number in range(1, brokers + 1)
        ]
        self.bootstrap = ",".join(broker.address for broker in self.brokers)
        self.max_fault_time_s = 40.0
        # Whether a broker that could not start, because its store was away, is started again.
        self.is_supervised = False
        self.protocol, self.assignor = random.choice(_PROTOCOLS)
        self.faults: FaultInjector = Faults(simulation, random, self.brokers, cuts_power=flushes)

    def member_options(self) -> Options:
        """Settings of a consumer in the group, without automatic commits."""
        options: Options = {
            "bootstrap_servers": self.bootstrap,
            "group_id": GROUP,
            "group_protocol": self.protocol,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 500,
            "max_poll_interval_ms": 8000,
            "request_timeout_ms": self.random.choice((2000, 5000)),
        }
        if self.protocol == "consumer":
            return {**options, "group_remote_assignor": self.assignor}
        return {
            **options,
            "partition_assignment_strategy": self.assignor,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 1000,
        }

    def reader_options(self, isolation: str) -> Options:
        return {
            "bootstrap_servers": self.bootstrap,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
            "request_timeout_ms": 5000,
            "fetch_max_bytes": self.random.choice((100, 10_000, 50 << 20)),
        }

    async def start(self, topics: dict[str, int]) -> None:
        """Starts the brokers and creates the topics."""
        if isinstance(self.store, SocketStore):
            self.store.start()
        for broker in self.brokers:
            broker.start()
        await asyncio.sleep(1)
        self.require_alive()

        async def create(world: World) -> None:
            async with Admin(world=world, bootstrap_servers=self.bootstrap) as admin:
                for name, partitions in topics.items():
                    await _until_it_works(
                        lambda name=name, partitions=partitions: admin.create_topic(  # type: ignore[misc]
                            name, partitions, len(self.brokers)
                        )
                    )

        await self.operator(create)

    async def run_with_faults(self, pools: Sequence[ClientPool]) -> None:
        faults_end_s = self.random.uniform(5, self.max_fault_time_s)
        while self.simulation.loop.time() < faults_end_s:
            await asyncio.sleep(self.random.uniform(0, 2))
            if self.random.random() < 0.5:
                self.random.choice(pools).inject()
            else:
                await self.faults.inject([name for pool in pools for name in pool.hosts])
            self.require_alive()

    def require_alive(self) -> None:
        for broker in self.brokers:
            if self.is_supervised:
                broker.supervise()
            else:
                broker.require_alive()

    async def operator(self, program: Callable[[World], Coroutine[Any, Any, T]]) -> T:
        """Runs a program on the operator's host, which has no faults."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.simulation.host("operator").start(program, "operator")

    async def until(self, holds: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
        """Waits until `holds()`, or raises `NeverHappened` with what `what()` says."""
        deadline_s = self.simulation.loop.time() + PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        while not await holds():
            self.require_alive()
            if self.simulation.loop.time() >= deadline_s:
                raise NeverHappened(f"unseen: {what()}")
            # Each look costs real time, so the pauses grow.
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _MAX_PAUSE_S)


async def _until_it_works(ask: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await ask()
        except KafkaError as error:
            if error.code.name == "TOPIC_ALREADY_EXISTS":
                return
        except ClientError:
            pass
        else:
            return
        await asyncio.sleep(0.1)
