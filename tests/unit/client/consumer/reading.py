"""A consumer of a `MiniCluster`, and what it reads."""

from collections.abc import Iterable

from odradek.client import Consumer, ConsumerRecord, TopicPartition
from odradek.client.settings import ConsumerSettings
from odradek.protocol.records import BatchBuilder
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.mini_log import PartitionLog

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def consumer(cluster: MiniCluster, simulation: Simulation, **options: object) -> Consumer:
    world = simulation.host("main").world()
    defaults = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    settings = ConsumerSettings.from_options({**defaults, **options})
    return Consumer(settings, world=world)


def fill(log: PartitionLog, numbers: Iterable[int], batch_records: int = 10) -> None:
    waiting = list(numbers)
    while waiting:
        builder = BatchBuilder()
        for number in waiting[:batch_records]:
            builder.append(None, b"%d" % number, (), 1000 + number)
        del waiting[:batch_records]
        log.append(builder.build())


async def read(one: Consumer, count: int, **options: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        taken = await one.poll(10_000, **options)
        assert taken, f"only {len(found)} records came"
        for records in taken.values():
            found += records
    return found


def numbers(records: Iterable[ConsumerRecord]) -> list[int]:
    return [int(record.value) for record in records]
