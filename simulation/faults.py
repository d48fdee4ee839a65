"""Faults between clients and brokers, and of brokers: used by `groups` and `transactions`.

`inject` injects one fault, `heal` ends all of them. Brokers are only killed and stopped unless
power cuts are allowed, because a power cut loses what was not flushed.
"""

import asyncio
from collections.abc import Sequence
from random import Random

from simulation.simulated_broker import SimulatedBroker
from simulation.world import Simulation


class Faults:
    def __init__(
        self,
        simulation: Simulation,
        random: Random,
        brokers: Sequence[SimulatedBroker],
        *,
        cuts_power: bool,
    ) -> None:
        self.count = 0
        self._simulation = simulation
        self._random = random
        self._brokers = brokers
        self._cuts_power = cuts_power

    async def inject(self, clients: Sequence[str]) -> None:
        """Injects a fault into a broker, or between it and one of the clients' hosts."""
        broker = self._random.choice(self._brokers)
        if not broker.is_running:
            broker.start()
            return
        self.count += 1
        network = self._simulation.network
        client = self._random.choice(clients)
        match self._random.randrange(9):
            case 0 | 1:
                source, target = self._random.sample((broker.name, client), 2)
                network.cut(source, target, both_ways=self._random.random() < 0.5)
            case 2:
                network.heal_all()
            case 3:
                network.reset(broker.name, self._random.choice((client, None)))
            case 4:
                slow_s = self._random.choice((0.001, 0.05, 1.0))
                network.set_delay(broker.name, client, (0.0001, slow_s))
            case 5:
                network.refuse(broker.name)
                self._simulation.loop.call_later(1.0, network.admit, broker.name)
            case _:
                await self._broker_fault(broker)

    async def _broker_fault(self, broker: SimulatedBroker) -> None:
        if self._cuts_power and self._random.random() < 0.5:
            await self._power_cut(broker)
            return
        match self._random.randrange(8):
            case 0 | 1:
                broker.host.stop()
                await asyncio.sleep(self._random.uniform(0, 8))
                broker.host.resume()
            case 2 | 3 | 4:
                broker.kill()
                if self._random.random() < 0.5:
                    broker.start()
            case 5 | 6:
                await broker.stop()
            case 7:
                broker.host.clock.step(self._random.randint(-5000, 5000))

    async def _power_cut(self, broker: SimulatedBroker) -> None:
        if self._random.random() < 0.5:
            broker.power_off()
        else:
            # In the middle of an operation, if there is one soon enough.
            broker.host.disk.cut_power_after(self._random.randint(0, 30))
            await asyncio.sleep(1)
            broker.host.disk.keep_power()

    async def heal(self) -> None:
        """Ends every fault and starts every broker."""
        network = self._simulation.network
        network.heal_all()
        for broker in self._brokers:
            network.admit(broker.name)
            for name in self._simulation.hosts:
                if name != broker.name:
                    network.set_delay(broker.name, name, (0.0001, 0.001))
            broker.start()
        await asyncio.sleep(1)
