"""A producer for a `MiniCluster`."""

from odradek.client import Producer
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster


def producer(cluster: MiniCluster, simulation: Simulation, **options: object) -> Producer:
    world = simulation.host("main").world()
    return Producer(bootstrap_servers=cluster.bootstrap, world=world, **options)  # type: ignore[arg-type]


def values(cluster: MiniCluster, partition: int = 0) -> list[bytes | None]:
    logs = list(cluster.logs.values())
    return [record.value for record in logs[partition].records()]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]
