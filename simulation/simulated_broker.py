"""A broker on a simulated host, and the faults that it can be given.

The metadata store stands outside the brokers and outlives them. A broker that dies loses its
session with the store at once, as when a connection to it breaks, or when the store has waited
for the session's timeout. A paused broker is silent to the store, too.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.config import BrokerSettings
from odradek.metadata.memory import MemoryMetadata
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.world import World
from simulation.disk import PowerCut
from simulation.stores import SESSION_TIMEOUT_MS, LoneStore, MemoryStore, Store, StoreConnection
from simulation.world import Host, Simulation

PORT = 9092
_RECONNECTS_S = 0.005


class InspectableBroker(Broker):
    """Gives the simulation access to its replicas."""

    replicas: Replicas | None = None
    is_alone = False

    @property
    def _is_shared(self) -> bool:
        return not self.is_alone

    def _assemble(self, *parts: Any) -> Any:
        assembled = super()._assemble(*parts)
        self.replicas = assembled.services.replicas
        return assembled


class SimulatedBroker:
    """One broker and its machine. `properties` are Kafka's settings."""

    def __init__(
        self,
        simulation: Simulation,
        store: MemoryMetadata | Store,
        node_id: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        timeout_ms = SESSION_TIMEOUT_MS
        if isinstance(store, MemoryMetadata):
            timeout_ms = round(store.session_timeout_s * 1000)
            store = MemoryStore(store)
        self.node_id = node_id
        self.name = f"broker-{node_id}"
        self.address = f"{self.name}:{PORT}"
        self.host: Host = simulation.host(self.name)
        self.properties = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": "/data",
            "odradek.metadata.session.timeout.ms": str(timeout_ms),
            "odradek.log.dirs.reserve.bytes": "4096",
            **(properties or {}),
        }
        self.starts = 0
        self._is_alone = isinstance(store, LoneStore)
        self._store_connection: StoreConnection = store.connection(self.name)
        self._task: asyncio.Task[None] | None = None
        self._broker: InspectableBroker | None = None
        self._is_paused = False
        # How often something stopped it, let it go on, or made it ready.
        self.interruptions = 0
        self._simulation = simulation
        self._session_timeout_s = timeout_ms / 1000
        self._cut_off_s: float | None = None
        self.host.disk.on_power_cut = self.power_off

    @property
    def session_id(self) -> int | None:
        """The session of the process that runs now."""
        return self._store_connection.session_id

    def expire_session(self) -> None:
        """The store ends its session, and the broker hears of it.

        A broker that cannot hear the store keeps its session until the timeout, which the store
        itself counts: no lease could be trusted if a session ended earlier than promised.
        """
        is_in_touch = self._cut_off_s is None and not self._is_paused
        if self.is_running and self.session_id is not None and is_in_touch:
            self.host.trace("the store ends its session")
            self._store_connection.expire()

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def has_lost_lease(self) -> bool:
        """Whether it runs although its store has not heard of it for the whole session timeout."""
        if not self.is_running or self._is_paused or self._cut_off_s is None:
            return False
        return self._simulation.loop.time() >= self._cut_off_s + self._session_timeout_s

    @property
    def is_running(self) -> bool:
        return bool(self.host.processes)

    def partitions(self) -> Iterable[Partition]:
        """The replicas of the process that runs now."""
        broker = self._broker
        if not self.is_running or broker is None or broker.replicas is None:
            return ()
        return broker.replicas.partitions()

    def start(self) -> None:
        """Starts the broker unless it runs, however its last process ended."""
        if self.is_running:
            return
        self._note_failed_start()
        self._store_connection.died()
        self.starts += 1
        self.interruptions += 1
        self._cut_off_s = None
        self._task = self.host.start(self._program, f"{self.name}#{self.starts}")

    async def _program(self, world: World) -> None:
        settings = BrokerSettings.from_properties(self.properties)
        broker = self._broker = InspectableBroker(
            settings, world, self._store_connection.open(world)
        )
        broker.is_alone = self._is_alone
        await broker.run(self._note_ready)

    def _note_ready(self) -> None:
        """Before this moment it answers nobody, so whatever was asked earlier had to wait."""
        self.interruptions += 1
        self.host.trace("ready")

    def kill(self, *, is_noticed: bool = True) -> None:
        self._is_paused = False
        self.interruptions += 1
        self._broker = None
        self.host.kill()
        self._store_connection.died(is_noticed=is_noticed)

    def power_off(self, *, is_noticed: bool = True) -> None:
        self._is_paused = False
        self.interruptions += 1
        self._broker = None
        self.host.power_off()
        self._store_connection.died(is_noticed=is_noticed)

    def pause(self) -> None:
        """Stops it as SIGSTOP does: the store hears nothing of it either."""
        if self.is_running and not self._is_paused:
            self._is_paused = True
            self.interruptions += 1
            self.host.stop()
            self._store_connection.pause()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.interruptions += 1
            self.host.resume()
            # Queued requests come first, notifications of the store a moment later.
            loop = self.host.simulation.loop
            loop.call_later(
                _RECONNECTS_S, self.reconnect_store, context=self.host.simulation.no_process
            )

    def cut_store(self) -> None:
        """Cuts the connection to the store, or ends the session where it cannot be cut."""
        if not self._store_connection.can_be_cut:
            self.expire_session()
            return
        self.host.trace("cut off from the store")
        if self._cut_off_s is None:
            self._cut_off_s = self._simulation.loop.time()
        self._store_connection.cut()

    def reconnect_store(self) -> None:
        if not self._is_paused:
            self.host.trace("connected to the store")
            self._cut_off_s = None
            self._store_connection.reconnect()

    def slow_store(self, delay_s: float) -> None:
        """Delays its writes to the store from now on."""
        self.host.trace(f"writes reach the store after {delay_s} s")
        self._store_connection.slow(delay_s)

    async def stop(self) -> None:
        """Stops it cleanly, as Ctrl-C does."""
        if self._task is not None and self.is_running:
            self.interruptions += 1
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    def require_alive(self) -> None:
        """Raises what the broker ended with, if it ended by itself."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            # A power cut during its start ends its own task. That is not an error of the broker.
            with suppress(PowerCut):
                self._task.result()

    def supervise(self) -> None:
        """Starts it again if it could not start: the store or the disk was away. Any other end
        by itself is an error."""
        if not self.is_running and self._note_failed_start():
            self.start()

    def forgive_failed_start(self) -> None:
        """Accepts that it ended with `BrokerCannotStart`: no broker starts on a disk that fails."""
        if not self.is_running:
            self._note_failed_start()

    def _note_failed_start(self) -> bool:
        try:
            self.require_alive()
        except BrokerCannotStart as error:
            self.host.trace(f"could not start: {error}")
            self._task = None
            return True
        return False
