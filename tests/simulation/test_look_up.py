"""Look-ups by key while brokers die: never older than what was acknowledged before the question.

Three brokers, one partition on all of them, a writer that waits for all, somebody who asks all
day, and brokers that are killed, lose their power or stand still, one at a time. Indexes are made
of a few batches each, so that leaders with old ones come back, and compaction goes on beside it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest

from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.errors import ClientError
from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.errors import KafkaError
from odradek.storage.key_index.index import KeyIndexLimits
from odradek.storage.key_index.key_indexes import KeyIndexes
from odradek.world import World
from simulation.run import run
from simulation.simulated_broker import SimulatedBroker
from simulation.world import Simulation

TOPIC = "table"
KEYS = [b"key %d" % number for number in range(6)]
DAY_S = 15.0
PROPERTIES = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "200",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.backoff.ms": "1000",
}


class Table:
    """What was written, and what of it was acknowledged."""

    def __init__(self) -> None:
        self.sent = dict.fromkeys(KEYS, 0)
        self.acknowledged = dict.fromkeys(KEYS, 0)
        self.answers = 0
        self.indexed = 0

    async def write(self, world: World, bootstrap: str, random: Random) -> None:
        options = {"bootstrap_servers": bootstrap, "max_block_ms": 60_000}
        async with Producer(ProducerSettings.from_options(options), world=world) as producer:
            while True:
                key = random.choice(KEYS)
                self.sent[key] += 1
                number = self.sent[key]
                delivery = await producer.send(TOPIC, b"%d " % number + bytes(60), key)
                await delivery
                self.acknowledged[key] = number
                await asyncio.sleep(random.choice((0, 0.005, 0.05)))

    async def ask(self, world: World, bootstrap: str, random: Random) -> None:
        options = {"bootstrap_servers": bootstrap, "request_timeout_ms": 2000}
        async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
            while True:
                key = random.choice([*KEYS, b"nobody"])
                least = self.acknowledged.get(key, 0)
                try:
                    record = await consumer.get(TOPIC, key)
                except (ClientError, KafkaError):
                    continue
                value = 0 if record is None else int(record.value.split()[0])
                assert least <= value <= self.sent.get(key, 0), (key, least, value)
                self.answers += 1
                await asyncio.sleep(random.choice((0, 0.01, 0.1)))


async def trouble(brokers: list[SimulatedBroker], random: Random, table: Table) -> None:
    """One broker at a time; the next when all are in sync again."""
    while True:
        await asyncio.sleep(random.uniform(0.5, 3.0))
        victim = random.choice(brokers)
        harm = random.choice(("kill", "power", "pause", "stop"))
        if harm == "pause":
            victim.pause()
        elif harm == "stop":
            await victim.stop()
        else:
            (victim.kill if harm == "kill" else victim.power_off)()
        await asyncio.sleep(random.uniform(0.1, 8.0))
        if harm == "pause":
            victim.resume()
        else:
            victim.start()
        while not is_healthy(brokers):
            for broker in brokers:
                broker.supervise()
            await asyncio.sleep(0.1)
        table.indexed += sum(
            name.endswith(".keys")
            for broker in brokers
            for name in broker.host.disk.list_directory(f"/data/{TOPIC}-0")
        )


def is_healthy(brokers: list[SimulatedBroker]) -> bool:
    terms = [
        one.leadership
        for broker in brokers
        for one in broker.partitions()
        if one.leadership is not None
    ]
    return all(broker.is_running for broker in brokers) and any(
        len(term.in_sync) == len(brokers) for term in terms
    )


@asynccontextmanager
async def cluster(simulation: Simulation) -> AsyncIterator[list[SimulatedBroker]]:
    store = MemoryMetadata()
    brokers = [SimulatedBroker(simulation, store, number, PROPERTIES) for number in (1, 2, 3)]
    for broker in brokers:
        broker.start()
    async with Admin(bootstrap_servers=brokers[0].address) as admin:
        config = {"cleanup.policy": "compact"}
        await admin.create_topics(
            [NewTopic(TOPIC, partitions=1, replication_factor=3, configs=config)]
        )
    while not is_healthy(brokers):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    try:
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


async def day(simulation: Simulation) -> None:
    random = simulation.random("look-ups")
    table = Table()
    async with cluster(simulation) as brokers:
        bootstrap = ",".join(broker.address for broker in brokers)
        clients = simulation.host("clients")
        tasks = [
            clients.start(partial(work, bootstrap=bootstrap, random=random), name)
            for name, work in (("writer", table.write), ("asker", table.ask))
        ]
        tasks.append(asyncio.ensure_future(trouble(brokers, random, table)))
        done, _ = await asyncio.wait(tasks, timeout=DAY_S, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
    assert table.answers > 50
    assert sum(table.acknowledged.values()) > 50
    assert table.indexed


@pytest.mark.parametrize("seed", range(1, 5))
def test_an_answer_is_never_older_than_what_was_acknowledged(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = KeyIndexLimits(min_bytes=500, job_bytes=2000, job_entries=20)
    monkeypatch.setattr(KeyIndexes, "limits", limits)
    run(day, seed=seed)
