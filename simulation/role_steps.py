"""The steps of `scenarios.roles`: records are written, and brokers lose and regain their roles.

Some steps are a single event; others arrange what has once gone wrong in this or another broker: a
leader that is cut off with records of its own, a follower that is elected as soon as it is in sync.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from odradek.client.admin.partitions import ElectionType
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.allowed_loss import AllowedLoss
from simulation.on_demand_producer import OnDemandProducer
from simulation.simulated_broker import SimulatedBroker
from simulation.simulated_cluster import Brokers, is_level
from simulation.verdicts import NeverHappened
from simulation.walk import Step
from simulation.world import Simulation

# How often a leader loses its store that has let a follower in, in runs where that happens.
_UNREAD_ENTRIES: Final = 0.5


class RoleSteps:
    def __init__(
        self,
        simulation: Simulation,
        random: Random,
        brokers: Brokers,
        partitions: Sequence[TopicPartition],
        allowed_loss: AllowedLoss,
        *,
        producer: OnDemandProducer,
        clicker: OnDemandProducer,
    ) -> None:
        """`producer` waits for acks=all, `clicker` for the leader alone."""
        self._simulation = simulation
        self._random = random
        self._brokers = brokers
        self._partitions = partitions
        self._allowed_loss = allowed_loss
        self._producer = producer
        self._clicker = clicker
        # A generator of its own, so that the other runs are as if there were no such faults.
        self.unread = simulation.random("unread entries")

    def by_name(self) -> dict[str, Step]:
        return {
            "write": self._write,
            "write-to-one": self._write_to_one,
            "fork": self._fork,
            "swap": self._swap,
            "relay": self._relay,
            "flap": self._flap,
            "stall": self._stall,
            "late-entry": self._late_entry,
            "lone-disk": self._lone_disk,
            "blackout": self._blackout,
            "kill": self._kill,
            "kill-all": self._kill_all,
            "kill-leader": self._kill_leader,
            "stop": self._stop,
            "bounce": self._bounce,
            "start": self._start,
            "start-all": self._start_all,
            "pause": self._pause,
            "cut": self._cut,
            "settle": self._settle,
            "wait": self._wait,
            "elect": self._elect,
            "power-cut": self._power_cut,
            "replace-disk": self._replace_disk,
            "lose-store": self._lose_store,
            "expire": self._expire,
            **({} if self._brokers.store_service is None else {"keeper": self._store_service_dies}),
        }

    async def _write(self) -> None:
        self._producer.write(self._random.randint(1, 6))
        await asyncio.sleep(self._random.choice((0.02, 0.1, 0.5)))

    async def _write_to_one(self) -> None:
        self._clicker.write(self._random.randint(1, 3))
        await asyncio.sleep(self._random.choice((0.02, 0.1)))

    def _any(self) -> SimulatedBroker:
        return self._random.choice(self._brokers.all)

    def _leader(self) -> SimulatedBroker:
        leader = self._brokers.leader_of(self._random.choice(self._partitions))
        return leader if leader is not None else self._any()

    async def _fork(self) -> None:
        await self._fork_of(self._leader())

    async def _fork_of(self, leader: SimulatedBroker) -> None:
        """The leader is cut off, writes records that no follower gets, and is killed."""
        others = [broker for broker in self._brokers.running if broker is not leader]
        network = self._simulation.network
        pauses = self._random.random() < 0.3
        for other in others:
            if pauses:
                other.pause()
            else:
                network.cut(leader.name, other.name)
        for _ in range(self._random.randint(1, 3)):
            self._random.choice((self._producer, self._clicker)).write(self._random.randint(1, 3))
            await asyncio.sleep(self._random.uniform(0.02, 0.2))
        leader.kill(is_noticed=self._random.random() < 0.8)
        for other in others:
            other.resume()
            network.heal(leader.name, other.name)

    async def _swap(self) -> None:
        """The leader goes down, and brokers that were down come back and lead."""
        leader = self._leader()
        down = [
            other for other in self._brokers.all if not other.is_running and other is not leader
        ]
        if self._random.random() < 0.5:
            await leader.stop()
        else:
            leader.kill()
        for broker in down:
            broker.start()
        await asyncio.sleep(self._random.choice((0.1, 0.5, 2.0)))

    async def _relay(self) -> None:
        """A broker leads and is killed with records that only it has; another one leads; then the
        first leads again."""
        first = self._leader()
        others = [broker for broker in self._brokers.all if broker is not first]
        second = self._random.choice(others)
        for third in others:
            if third is not second and not third.is_paused:
                await third.stop()
        await self._fork_of(first)
        await asyncio.sleep(1.5)
        if self._random.random() < 0.7:
            await second.stop()
        else:
            second.kill()
        first.start()
        await asyncio.sleep(self._random.choice((0.5, 2.0)))
        second.start()
        await self._settle()
        self._producer.write(2)
        await asyncio.sleep(0.3)

    async def _flap(self) -> None:
        """A follower loses power and restarts several times, each time without its unflushed
        tail."""
        leader = self._leader()
        follower = self._random.choice(
            [broker for broker in self._brokers.all if broker is not leader]
        )
        for _ in range(self._random.randint(3, 8)):
            self._producer.write(self._random.randint(1, 3))
            if self._allowed_loss.may_forget(follower):
                self._allowed_loss.power_off(follower)
            else:
                follower.kill()
            follower.start()
            await asyncio.sleep(self._random.uniform(0, 0.4))
        if self._random.random() < 0.5:
            leader.kill()

    async def _stall(self) -> None:
        """A follower comes back, is cut off as soon as it is in the ISR, and is elected."""
        leader = self._leader()
        follower = self._random.choice(
            [broker for broker in self._brokers.all if broker is not leader]
        )
        follower.kill()
        self._producer.write(2)
        await asyncio.sleep(self._random.choice((0.1, 1.5)))
        follower.start()
        network = self._simulation.network
        await asyncio.sleep(self._random.uniform(0, 0.5))
        network.cut(leader.name, follower.name)
        self._producer.write(3)
        await asyncio.sleep(self._random.uniform(0, 0.6))
        leader.kill()
        network.heal(leader.name, follower.name)

    async def _late_entry(self) -> None:
        """The leader's write that a follower is in sync reaches the store late. By then the
        follower has lost its log, or is cut off."""
        leader = self._leader()
        follower = self._random.choice(
            [broker for broker in self._brokers.all if broker is not leader]
        )
        follower.kill()
        self._producer.write(3)
        await asyncio.sleep(self._random.choice((0.1, 1.5)))
        leader.slow_store(self._random.choice((1.0, 2.5)))
        follower.start()
        with suppress(NeverHappened):
            await self._brokers.until(
                lambda: is_level(follower, leader, self._partitions),
                lambda: "a follower that catches up",
                4.0,
            )
        await asyncio.sleep(self._random.uniform(0, 0.1))
        network = self._simulation.network
        if self._random.random() < 0.5 and self._allowed_loss.may_forget(follower):
            self._allowed_loss.power_off(follower)
            follower.start()
        else:
            network.cut(leader.name, follower.name)
            self._producer.write(3)
        await asyncio.sleep(self._random.uniform(1.0, 3.0))
        leader.slow_store(0.0)
        network.heal(leader.name, follower.name)

    def lose_store_of_leader(
        self, topic_partition: TopicPartition, follower: SimulatedBroker
    ) -> None:
        """A leader loses its store when a larger ISR is stored, before it reads it again, and the
        follower that entered cannot fetch."""
        leader = self._brokers.leader_of(topic_partition)
        if leader is None or leader is follower or self.unread.random() > _UNREAD_ENTRIES:
            return
        self._simulation.trace.add("-", f"{leader.name} loses its store and {follower.name}")
        network, outside = self._simulation.network, self._simulation.no_process
        outside.run(leader.cut_store)
        outside.run(network.cut, leader.name, follower.name)
        self._later(self.unread.choice((0.01, 0.1)), self._producer.write, 2, topic_partition)
        away_s = self.unread.choice((0.5, 2.0, 5.0))
        self._later(away_s, leader.reconnect_store)
        self._later(away_s, network.heal, leader.name, follower.name)

    async def _lone_disk(self) -> None:
        """The last broker in sync gets an empty disk before the others are back."""
        last = self._leader()
        others = [broker for broker in self._brokers.all if broker is not last]
        for other in others:
            if not other.is_paused:
                await other.stop()
        self._producer.write(2)
        await asyncio.sleep(0.5)
        if self._allowed_loss.may_forget(last):
            self._allowed_loss.replace_disk(last)
            last.start()
            await asyncio.sleep(self._random.choice((0.5, 2.0)))
        for other in others:
            other.start()

    async def _blackout(self) -> None:
        """All brokers are killed, and come back one after the other."""
        await self._kill_all()
        for broker in self._random.sample(self._brokers.all, len(self._brokers.all)):
            broker.start()
            await asyncio.sleep(self._random.choice((0.1, 1.0)))

    async def _kill(self) -> None:
        self._any().kill(is_noticed=self._random.random() < 0.8)

    async def _kill_leader(self) -> None:
        self._leader().kill(is_noticed=self._random.random() < 0.8)

    async def _kill_all(self) -> None:
        for broker in self._brokers.all:
            broker.kill()

    async def _stop(self) -> None:
        await self._random.choice((self._any(), self._leader())).stop()

    async def _bounce(self) -> None:
        broker = self._any()
        broker.kill()
        broker.start()

    async def _start(self) -> None:
        down = [broker for broker in self._brokers.all if not broker.is_running]
        if down:
            self._random.choice(down).start()
            await asyncio.sleep(self._random.choice((0.0, 0.3, 1.0)))

    async def _start_all(self) -> None:
        for broker in self._random.sample(self._brokers.all, len(self._brokers.all)):
            broker.start()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.5, 2.0)))

    async def _pause(self) -> None:
        broker = self._any()
        broker.pause()
        await asyncio.sleep(self._random.choice((0.1, 1.0, 5.0, 7.0)))
        broker.resume()

    async def _cut(self) -> None:
        one, other = self._random.sample(self._brokers.all, 2)
        network = self._simulation.network
        network.cut(one.name, other.name, both_ways=self._random.random() < 0.7)
        self._later(self._random.choice((0.5, 3.0, 8.0)), network.heal, one.name, other.name)

    def _later(self, after_s: float, call: object, *arguments: object) -> None:
        self._simulation.loop.call_later(
            after_s,
            call,  # type: ignore[arg-type]
            *arguments,
            context=self._simulation.no_process,
        )

    async def _settle(self) -> None:
        with suppress(NeverHappened):
            patience_s = self._random.choice((2.0, 8.0))
            await self._brokers.until(
                self._brokers.is_healthy, self._brokers.describe_unhealthy, patience_s
            )

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.choice((0.1, 1.0, 3.0, 8.0)))

    async def _elect(self) -> None:
        async def elect(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                await admin.elect_leaders(ElectionType.PREFERRED)

        await self._brokers.try_to(elect, 2.0)

    async def _power_cut(self) -> None:
        broker = self._random.choice((self._any(), self._leader()))
        if self._allowed_loss.may_forget(broker):
            self._allowed_loss.power_off(broker)

    async def _replace_disk(self) -> None:
        broker = self._random.choice((self._any(), self._leader()))
        if self._allowed_loss.may_forget(broker):
            self._allowed_loss.replace_disk(broker)

    async def _lose_store(self) -> None:
        broker = self._random.choice((self._any(), self._leader()))
        broker.cut_store()
        self._later(self._random.choice((0.5, 5.0, 9.0)), broker.reconnect_store)

    async def _expire(self) -> None:
        self._any().expire_session()

    async def _store_service_dies(self) -> None:
        """Kills the service of the metadata store, or stops it for a while."""
        store_service = self._brokers.store_service
        assert store_service is not None
        away_s = self._random.choice((0.2, 2.0, 7.0))
        if self._random.random() < 0.5:
            store_service.kill()
            self._later(away_s, store_service.start)
        else:
            store_service.pause()
            self._later(away_s, store_service.resume)
