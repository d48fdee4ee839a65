"""Brokers on simulated hosts.

The metadata store stands outside the brokers and outlives them. A broker that dies loses its
session with the store at once, as when a connection to it breaks.
"""

import asyncio
from collections.abc import Mapping

from odradek.broker import Broker
from odradek.config import BrokerSettings
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.world import World
from simulation.world import Host, Simulation

PORT = 9092


class WatchedMetadata(MemoryMetadata):
    """Remembers the session of the broker it was made for."""

    def __init__(self, store: MemoryMetadata) -> None:
        super().__init__(store.weakness)
        self.tree = store.tree
        self._sessions: list[MemorySession] = []

    def connect(self) -> MemorySession:
        session = super().connect()
        self._sessions.append(session)
        return session

    @property
    def session(self) -> MemorySession:
        """The line of the process that runs now: to cut, to mend, to expire."""
        return self._sessions[-1]

    def expire(self) -> None:
        """What the store does when it hears no more of a broker."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.crash()


class SimulatedBroker:
    """One broker and its machine. Properties are Kafka's."""

    def __init__(
        self,
        simulation: Simulation,
        store: MemoryMetadata,
        node_id: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"broker-{node_id}"
        self.address = f"{self.name}:{PORT}"
        self.host: Host = simulation.host(self.name)
        self.properties = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": "/data",
            **(properties or {}),
        }
        self.starts = 0
        self._metadata = WatchedMetadata(store)
        self._task: asyncio.Task[None] | None = None

    @property
    def session(self) -> MemorySession:
        return self._metadata.session

    @property
    def is_running(self) -> bool:
        return bool(self.host.processes)

    def start(self) -> None:
        """Starts it, after whatever end its last process came to."""
        if self.is_running:
            return
        self._metadata.expire()
        self.starts += 1
        self._task = self.host.start(self._program, f"{self.name}#{self.starts}")

    async def _program(self, world: World) -> None:
        settings = BrokerSettings.from_properties(self.properties)
        await Broker(settings, world, self._metadata).run(lambda: self.host.trace("ready"))

    def kill(self) -> None:
        self.host.kill()
        self._metadata.expire()

    def power_off(self) -> None:
        self.host.power_off()
        self._metadata.expire()

    async def stop(self) -> None:
        """Stops it cleanly, as Ctrl-C does."""
        if self._task is not None and self.is_running:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    def require_alive(self) -> None:
        """Raises what the broker ended with, if it ended by itself."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
