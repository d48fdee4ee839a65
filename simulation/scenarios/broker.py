"""One broker and its clients.

The seed draws the settings, the clients and the faults: slow links, cuts in one or both directions,
resets, refused connections, a stopped broker, kills, clean restarts, power cuts, failing disks,
clock steps, clients that die. In the end every fault is healed, the producers finish, and the
history is checked. An acknowledged record survives a power cut only with `flush.messages=1`.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from odradek.client import Admin
from odradek.client.errors import ClientError
from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import Randomness, World
from simulation.batch_staging import staged_by_seed
from simulation.checkers import History, violations
from simulation.simulated_broker import SimulatedBroker
from simulation.workload import ConsumingClient, Options, ProducingClient, read_to_the_end
from simulation.world import Simulation

TOPIC = "orders"
_PATIENCE_S = 300.0


class BrokerScenario:
    """One run."""

    def __init__(self, simulation: Simulation) -> None:
        random = self._random = simulation.random("day")
        self._simulation = simulation
        # The longest sync. Slow ones leave more unsynced data for a power cut to take.
        simulation.worker_delay_s = (0.0, random.choice((0.001, 0.02, 0.3)))
        self._history = History()
        # With `flush.messages=1` every acknowledgement survives a power cut; without, it need
        # not, but whatever happens the broker and its clients go on.
        self._flushes = random.random() < 0.5
        self._has_power_cuts = self._flushes or random.random() < 0.3
        self._idempotent = random.random() < 0.7
        self._partitions = [TopicPartition(TOPIC, n) for n in range(random.randint(1, 3))]
        self._directories = ["/data/one", "/data/two", "/data/three"][: random.randint(1, 3)]
        properties = _broker_properties(random, flushes=self._flushes)
        properties["log.dirs"] = ",".join(self._directories)
        faults = StoreFaults(
            Randomness(random.getrandbits(64)),
            max_notification_delay_s=random.choice((0.0, 0.5)),
            max_operation_delay_s=random.choice((0.0, 0.05)),
        )
        self._broker = SimulatedBroker(simulation, MemoryMetadata(faults), 1, properties)
        self._producers = [
            ProducingClient(
                f"producer-{number}",
                self._history,
                self._partitions,
                random.randint(10, 80),
                self._producer_options(),
            )
            for number in range(1, random.randint(2, 4))
        ]
        self._consumers = [
            ConsumingClient(
                f"consumer-{number}", self._history, self._partitions, self._consumer_options()
            )
            for number in range(1, random.randint(2, 3))
        ]
        self._running: dict[str, asyncio.Task[None]] = {}
        self.faults = 0

    def _start(self, client: ProducingClient | ConsumingClient) -> None:
        host = self._simulation.host(client.name)
        self._running[client.name] = host.start(client.run, client.name)

    def _producer_options(self) -> Options:
        random = self._random
        return {
            "bootstrap_servers": self._broker.address,
            "enable_idempotence": self._idempotent,
            "acks": "all" if self._idempotent else random.choice(("all", "1")),
            # Without idempotence only one request at a time keeps the order.
            "max_in_flight_requests_per_connection": random.randint(1, 5)
            if self._idempotent
            else 1,
            "linger_ms": random.choice((0, 5, 50)),
            "compression_type": random.choice(("none", "gzip", "zstd", "lz4", "snappy")),
            "request_timeout_ms": random.choice((1000, 5000)),
            "delivery_timeout_ms": random.choice((10_000, 120_000)),
        }

    def _consumer_options(self) -> Options:
        return {
            "bootstrap_servers": self._broker.address,
            "auto_offset_reset": "none",
            "request_timeout_ms": 5000,
            "fetch_max_bytes": self._random.choice((100, 10_000, 50 << 20)),
        }

    async def run(self) -> None:
        simulation, broker = self._simulation, self._broker
        broker.start()
        await self._operator(self._create_topic)
        for client in self._clients():
            self._start(client)
        faults_end_s = self._random.uniform(2, 30)
        while simulation.loop.time() < faults_end_s:
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._something_happens()
            broker.require_alive()
        await self._evening()
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*(self._running[producer.name] for producer in self._producers))
        await self._operator(self._read_everything)
        await self._consumers_catch_up()
        broker.require_alive()
        durable = self._flushes or not self._has_power_cuts
        found = violations(self._history, idempotent=self._idempotent, durable=durable)
        assert not found, "\n".join(map(str, found[:10]))

    async def _operator(self, program: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            await self._simulation.host("operator").start(program, "operator")

    async def _create_topic(self, world: World) -> None:
        async with Admin(world=world, bootstrap_servers=self._broker.address) as admin:
            while True:
                try:
                    await admin.create_topic(TOPIC, len(self._partitions), 1)
                except (ClientError, KafkaError):
                    await asyncio.sleep(0.1)
                else:
                    return

    async def _read_everything(self, world: World) -> None:
        options = {**self._consumer_options(), "fetch_max_bytes": 1 << 20}
        found = await read_to_the_end(world, self._partitions, options)
        for partition, records in found.items():
            self._history.read_at_the_end(partition, records)

    async def _consumers_catch_up(self) -> None:
        """Waits until every consumer has reached the end of every partition."""
        ends: dict[TopicPartition, int] = {}
        for partition in self._partitions:
            for offset, _ in self._history.final[partition][-1:]:
                ends[partition] = offset + 1
        for consumer in self._consumers:
            deadline_s = self._simulation.loop.time() + _PATIENCE_S
            while any(
                consumer.next_offsets.get(topic_partition, 0) < end
                for topic_partition, end in ends.items()
            ):
                position = f"{consumer.name} stands at {consumer.next_offsets}, the ends are {ends}"
                assert self._simulation.loop.time() < deadline_s, position
                await asyncio.sleep(0.1)

    # Faults

    async def _something_happens(self) -> None:
        if not self._broker.is_running:
            self._broker.start()
            return
        self.faults += 1
        network = self._simulation.network
        client = self._random.choice(self._client_names())
        match self._random.randrange(10):
            case 0 | 1:
                self._cut(client)
            case 2 | 3:
                network.heal_all()
            case 4:
                network.reset(self._broker.name, self._random.choice((client, None)))
            case 5:
                slow_s = self._random.choice((0.001, 0.05, 1.0))
                network.set_delay(self._broker.name, client, (0.0001, slow_s))
            case 6:
                network.refuse(self._broker.name)
                self._simulation.loop.call_later(1.0, network.admit, self._broker.name)
            case 7:
                self._client_dies()
            case _:
                await self._broker_suffers()

    def _clients(self) -> list[ProducingClient | ConsumingClient]:
        return [*self._producers, *self._consumers]

    def _client_names(self) -> list[str]:
        return [client.name for client in self._clients()]

    def _cut(self, client: str) -> None:
        source, target = self._random.sample((self._broker.name, client), 2)
        both_ways = self._random.random() < 0.5
        self._simulation.network.cut(source, target, both_ways=both_ways)

    def _client_dies(self) -> None:
        """Kills a client and starts another one like it."""
        client = self._random.choice(self._clients())
        if not self._running[client.name].done():
            self._simulation.host(client.name).kill()
            self._start(client)

    async def _broker_suffers(self) -> None:
        broker = self._broker
        if self._has_power_cuts and self._random.random() < 0.5:
            await self._power_cut()
            return
        match self._random.randrange(5):
            case 0:
                broker.host.stop()
                await asyncio.sleep(self._random.uniform(0, 8))
                broker.host.resume()
            case 1:
                broker.kill()
            case 2:
                await broker.stop()
            case 3:
                broker.host.clock.step(self._random.randint(-100_000, 100_000))
            case 4:
                await self._disk_fails()

    async def _power_cut(self) -> None:
        if self._random.random() < 0.5:
            self._broker.power_off()
        else:
            # In the middle of an operation, if there is one soon enough.
            self._broker.host.disk.cut_power_after(self._random.randint(0, 30))
            await asyncio.sleep(1)
            self._broker.host.disk.keep_power()

    async def _disk_fails(self) -> None:
        """A directory goes offline at its first error. Later the disk works, and the broker
        restarts."""
        disk = self._broker.host.disk
        operation = self._random.choice(("write", "sync", "rename", "sync_directory"))
        disk.fail_next(
            operation,
            self._random.choice((errno.EIO, errno.ENOSPC)),
            under=self._random.choice(self._directories),
        )
        await asyncio.sleep(self._random.uniform(0, 5))
        disk.heal()
        # Without a directory that works a broker cannot start, like Kafka's.
        self._broker.forgive_failed_start()
        if operation == "sync" and self._has_power_cuts:
            # After a failed sync the kernel calls pages clean that never reached the disk, and no
            # later sync writes them. Only a restart of the machine shows what is on the disk.
            self._broker.power_off()
        else:
            self._broker.kill()

    async def _evening(self) -> None:
        """Ends every fault and starts the broker."""
        network = self._simulation.network
        network.heal_all()
        network.admit(self._broker.name)
        for client in self._client_names():
            network.set_delay(self._broker.name, client, (0.0001, 0.001))
        self._broker.start()
        await asyncio.sleep(1)

    def summary(self) -> str:
        sends = self._history.sends
        return (
            f"{self.faults} faults, {self._broker.starts} starts of the broker, "
            f"{self._history.acknowledged_count()} of {len(sends)} sends acknowledged"
        )


def _broker_properties(random: Random, *, flushes: bool) -> dict[str, str]:
    properties = {
        "log.segment.bytes": random.choice(("2000", "20000", "1073741824")),
        "log.index.interval.bytes": random.choice(("10", "4096")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("100", "60000")),
    }
    if flushes:
        properties["log.flush.interval.messages"] = "1"
    return properties


async def broker(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    scenario = BrokerScenario(simulation)
    with staged_by_seed(simulation):
        await scenario.run()
    return scenario.summary()
