"""Faults of coordinators: most of them hit a leader of `__consumer_offsets` or
`__transaction_state`.

Each fault begins, lasts and heals while others go on. The seed switches some kinds off and makes
others frequent, as in `walk`. `failover` and `leases` use it.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from simulation.simulated_broker import SimulatedBroker
from simulation.stores import SocketStore
from simulation.walk import Step, Walk
from simulation.world import Simulation

_COORDINATORS: Final = ("__consumer_offsets", "__transaction_state")
_THEMES: Final = (
    ("lose-store", "pause", "slow-follower"),
    ("lose-store", "cut-off-from-brokers", "kill"),
    ("kill", "bounce", "stop", "expire"),
    ("slow-follower", "slow-link"),
    ("pause", "expire", "kill"),
)


class CoordinatorFaults:
    def __init__(
        self,
        simulation: Simulation,
        random: Random,
        brokers: Sequence[SimulatedBroker],
        store_service: SocketStore | None,
    ) -> None:
        self.count = 0
        self._simulation = simulation
        self._random = random
        self._brokers = brokers
        self._store_service = store_service
        steps: dict[str, Step] = {
            "kill": self._kill,
            "bounce": self._bounce,
            "stop": self._stop,
            "pause": self._pause,
            "lose-store": self._lose_store,
            "expire": self._expire,
            "cut-off-from-brokers": self._cut_off_from_brokers,
            "slow-follower": self._slow_follower,
            "slow-link": self._slow_link,
            "client": self._client_suffers,
        }
        if store_service is not None:
            steps["keeper"] = self._store_service_dies
        self._walk = Walk(simulation, steps, {"lose-store": 3.0}, themes=_THEMES)
        self._clients: Sequence[str] = ()

    async def inject(self, clients: Sequence[str]) -> None:
        """Starts one fault of a broker, or between it and others."""
        self.count += 1
        self._clients = clients
        await self._walk.take(1)

    # Choosing a broker

    def _chosen(self) -> SimulatedBroker:
        """Returns a broker, mostly one that coordinates."""
        leading = [
            broker
            for broker in self._brokers
            if any(
                partition.is_leader and partition.topic_partition.topic in _COORDINATORS
                for partition in broker.partitions()
            )
        ]
        if leading and self._random.random() < 0.7:
            return self._random.choice(leading)
        return self._random.choice(self._brokers)

    def _later(self, after_s: float, call: Callable[..., object], *arguments: Any) -> None:
        self._simulation.loop.call_later(
            after_s, call, *arguments, context=self._simulation.no_process
        )

    # Faults

    async def _kill(self) -> None:
        broker = self._chosen()
        broker.kill(is_noticed=self._random.random() < 0.7)
        self._later(self._random.choice((0.0, 1.0, 5.0)), broker.start)

    async def _bounce(self) -> None:
        broker = self._chosen()
        broker.kill()
        broker.start()

    async def _stop(self) -> None:
        broker = self._chosen()
        if not broker.is_paused:
            await broker.stop()
            self._later(self._random.choice((0.0, 2.0)), broker.start)

    async def _pause(self) -> None:
        """Stops it as SIGSTOP does, often beyond its session. Requests queue up meanwhile."""
        broker = self._chosen()
        broker.pause()
        self._later(self._random.choice((0.5, 3.0, 7.0, 12.0)), broker.resume)

    async def _lose_store(self) -> None:
        """Cuts it off from the store alone. Clients and other brokers still reach it."""
        broker = self._chosen()
        broker.cut_store()
        self._later(self._random.choice((3.0, 12.0, 20.0)), broker.reconnect_store)

    async def _expire(self) -> None:
        self._chosen().expire_session()

    async def _cut_off_from_brokers(self) -> None:
        broker, network = self._chosen(), self._simulation.network
        after_s = self._random.choice((1.0, 4.0, 10.0))
        for other in self._brokers:
            if other is not broker:
                network.cut(broker.name, other.name)
                self._later(after_s, network.heal, broker.name, other.name)

    async def _slow_follower(self) -> None:
        """Cuts a follower off from its leader. It stays in the ISR until the leader shrinks
        the set."""
        leader, network = self._chosen(), self._simulation.network
        follower = self._random.choice([broker for broker in self._brokers if broker is not leader])
        network.cut(leader.name, follower.name, both_ways=self._random.random() < 0.5)
        after_s = self._random.choice((2.0, 8.0, 20.0))
        self._later(after_s, network.heal, leader.name, follower.name)

    async def _slow_link(self) -> None:
        one, other = self._random.sample(self._brokers, 2)
        network = self._simulation.network
        network.set_delay(one.name, other.name, (0.0001, self._random.choice((0.05, 1.0, 3.0))))
        self._later(5.0, network.set_delay, one.name, other.name, network.delay_s)

    async def _client_suffers(self) -> None:
        broker, network = self._chosen(), self._simulation.network
        client = self._random.choice(self._clients)
        if self._random.random() < 0.5:
            network.reset(broker.name, client)
            return
        network.cut(broker.name, client, both_ways=self._random.random() < 0.5)
        self._later(self._random.choice((1.0, 6.0)), network.heal, broker.name, client)

    async def _store_service_dies(self) -> None:
        store_service = self._store_service
        assert store_service is not None
        after_s = self._random.choice((0.2, 2.0, 7.0))
        if self._random.random() < 0.5:
            store_service.kill()
            self._later(after_s, store_service.start)
        else:
            store_service.pause()
            self._later(after_s, store_service.resume)

    # Healing

    async def heal(self) -> None:
        """Ends every fault and starts every broker."""
        network = self._simulation.network
        network.heal_all()
        if self._store_service is not None:
            self._store_service.resume()
            self._store_service.start()
        for broker in self._brokers:
            network.admit(broker.name)
            broker.resume()
            broker.reconnect_store()
            for name in self._simulation.hosts:
                if name != broker.name:
                    network.set_delay(broker.name, name, network.delay_s)
            broker.start()
        await asyncio.sleep(1)
        # Delayed parts of faults (`_later`) have run by now, or find nothing to do.
        for broker in self._brokers:
            broker.start()
