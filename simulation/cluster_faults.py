"""The faults of `cluster`: in its network, its brokers, their disks, clocks and metadata store.

Each fault begins, lasts and heals while others go on. A broker has one fault at a time, a link any
number.

`AllowedFaults` says what the cluster promises to survive. Without flushing, fewer brokers than
`min.insync.replicas` may lose what they have not flushed before they are in sync again: of three
brokers with `min.insync.replicas=2`, one at a time. Kills spare the page cache and lose nothing,
at any time and in any number.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum, auto
from random import Random
from typing import Any

from simulation.simulated_broker import SimulatedBroker
from simulation.world import Simulation


class AllowedFaults(Enum):
    """Which faults of brokers one run may combine."""

    # Any number of kills at any time. The page cache always survives.
    KILLS = auto()
    # Power cuts and failing disks, of one broker at a time, and any number of kills.
    ONE_AT_A_TIME = auto()
    # Power cuts anywhere at any time, with `flush.messages=1`.
    FLUSHED = auto()


_FAILING = ("write", "sync", "rename", "sync_directory", "truncate", "read")


class ClusterFaults:
    def __init__(
        self,
        simulation: Simulation,
        random: Random,
        brokers: Sequence[SimulatedBroker],
        *,
        allowed: AllowedFaults,
        is_healthy: Callable[[SimulatedBroker], bool],
    ) -> None:
        """`is_healthy` says whether a broker is in sync wherever it has a replica."""
        self.count = 0
        self._simulation = simulation
        self._random = random
        self._brokers = brokers
        self._allowed = allowed
        self._is_healthy = is_healthy
        self._faulty: dict[str, asyncio.Task[None]] = {}
        self._lost: dict[str, SimulatedBroker] = {}

    def inject(self, clients: Sequence[str]) -> None:
        """Starts one fault."""
        self.count += 1
        self._forget_ended()
        if self._random.random() < 0.4:
            self._network_suffers(clients)
            return
        broker = self._random.choice(self._brokers)
        if broker.name in self._faulty:
            return
        self._begin(broker, self._choose_incident()(broker))

    def begin_rolling_restart(self) -> None:
        """One broker after the other stops in good order and is started again."""

        async def restart_all() -> None:
            for broker in self._brokers:
                if broker.name not in self._faulty and broker.is_running:
                    self._faulty[broker.name] = task
                    await broker.stop()
                    broker.start()
                    del self._faulty[broker.name]
                    await asyncio.sleep(self._random.uniform(0.5, 3))

        task = asyncio.ensure_future(restart_all())
        self._faulty["all"] = task

    def _begin(self, broker: SimulatedBroker, incident: Coroutine[Any, Any, None]) -> None:
        self._faulty[broker.name] = asyncio.ensure_future(incident)

    def _forget_ended(self) -> None:
        for name, task in list(self._faulty.items()):
            if task.done():
                task.result()
                del self._faulty[name]
        for name, broker in list(self._lost.items()):
            if broker.is_running and name not in self._faulty and self._is_healthy(broker):
                del self._lost[name]

    # Brokers

    def _choose_incident(self) -> Callable[[SimulatedBroker], Coroutine[Any, Any, None]]:
        return self._random.choice(
            (
                self._crash,
                self._crash,
                self._power_cut,
                self._power_cut,
                self._pause,
                self._pause,
                self._stop,
                self._bounce,
                self._disk_fails,
                self._store_is_away,
                self._session_expires,
                self._clock_steps,
            )
        )

    def _may_lose_power(self) -> bool:
        return self._allowed is not AllowedFaults.KILLS

    def _may_forget(self, broker: SimulatedBroker) -> bool:
        """Returns whether the broker may lose unflushed data now, and notes that it does."""
        if self._allowed is AllowedFaults.ONE_AT_A_TIME:
            if self._lost.keys() - {broker.name}:
                return False
            self._lost[broker.name] = broker
        return True

    def _delay_s(self) -> float:
        return self._random.choice((0.0, self._random.uniform(0, 2), self._random.uniform(0, 10)))

    async def _crash(self, broker: SimulatedBroker) -> None:
        broker.kill(is_noticed=self._random.random() < 0.7)
        await asyncio.sleep(self._delay_s())
        broker.start()

    async def _bounce(self, broker: SimulatedBroker) -> None:
        for _ in range(self._random.randint(2, 5)):
            broker.kill()
            broker.start()
            await asyncio.sleep(self._random.uniform(0, 1))

    async def _stop(self, broker: SimulatedBroker) -> None:
        await broker.stop()
        await asyncio.sleep(self._delay_s())
        broker.start()

    async def _power_cut(self, broker: SimulatedBroker) -> None:
        if not self._may_lose_power() or not self._may_forget(broker):
            await self._crash(broker)
            return
        if self._random.random() < 0.5:
            broker.power_off(is_noticed=self._random.random() < 0.5)
        else:
            # In the middle of an operation, if there is one soon enough.
            broker.host.disk.cut_power_after(self._random.randint(0, 30))
            await asyncio.sleep(1)
            broker.host.disk.keep_power()
        await asyncio.sleep(self._delay_s())
        broker.start()

    async def _pause(self, broker: SimulatedBroker) -> None:
        broker.pause()
        await asyncio.sleep(self._delay_s())
        broker.resume()

    async def _disk_fails(self, broker: SimulatedBroker) -> None:
        """Its directory goes offline at the first error. Later the disk is mended, and the broker
        restarts."""
        if not self._may_forget(broker):
            return
        operation = self._random.choice(_FAILING)
        if operation == "sync" and not self._may_lose_power():
            operation = "write"
        error = self._random.choice((errno.EIO, errno.ENOSPC))
        broker.host.disk.fail_next(operation, error, under="/data")
        await asyncio.sleep(self._random.uniform(0, 5))
        broker.host.disk.heal()
        if operation == "sync":
            # After a failed sync the kernel calls pages clean that never reached the disk, and no
            # later sync writes them. Only a restart of the machine shows what is on the disk.
            broker.power_off()
        else:
            broker.kill()
        broker.start()

    async def _store_is_away(self, broker: SimulatedBroker) -> None:
        broker.cut_store()
        await asyncio.sleep(self._delay_s())
        broker.reconnect_store()

    async def _session_expires(self, broker: SimulatedBroker) -> None:
        broker.expire_session()

    async def _clock_steps(self, broker: SimulatedBroker) -> None:
        by_ms = self._random.choice((-100_000, -3000, 3000, 100_000))
        broker.host.trace(f"the clock is set by {by_ms} ms")
        broker.host.clock.step(by_ms)

    # The network

    def _network_suffers(self, clients: Sequence[str]) -> None:
        random, network = self._random, self._simulation.network
        broker = random.choice(self._brokers).name
        everyone = [*(one.name for one in self._brokers), *clients]
        other = random.choice([name for name in everyone if name != broker])
        if random.random() < 0.6:
            other = random.choice([one.name for one in self._brokers if one.name != broker])
        match random.randrange(6):
            case 0:
                network.cut(broker, other)
                self._later(network.heal, broker, other)
            case 1:
                network.cut(*random.sample((broker, other), 2), both_ways=False)
                self._later(network.heal, broker, other)
            case 2:
                for name in everyone:
                    if name != broker:
                        network.cut(broker, name)
                        self._later(network.heal, broker, name)
            case 3:
                network.reset(broker, random.choice((other, None)))
            case 4:
                network.set_delay(broker, other, (0.0001, random.choice((0.05, 1.0, 3.0))))
                self._later(network.set_delay, broker, other, network.delay_s)
            case 5:
                network.refuse(broker)
                self._later(network.admit, broker)

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        self._simulation.loop.call_later(
            self._delay_s(), call, *arguments, context=self._simulation.no_process
        )

    # The end

    async def heal(self) -> None:
        """Ends every fault and starts every broker."""
        while self._faulty:
            await asyncio.wait(list(self._faulty.values()))
            self._forget_ended()
        network = self._simulation.network
        network.heal_all()
        for broker in self._brokers:
            network.admit(broker.name)
            for name in self._simulation.hosts:
                if name != broker.name:
                    network.set_delay(broker.name, name, network.delay_s)
            broker.host.disk.heal()
            broker.start()
