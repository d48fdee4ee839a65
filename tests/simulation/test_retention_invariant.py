"""What a replica may lack because of retention or DeleteRecords (`ClusterInvariants`)."""

from types import SimpleNamespace

import pytest

from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import topic_config_path
from odradek.metadata.store import Node
from odradek.metadata.tree import Tree
from odradek.protocol.types import TopicPartition
from simulation.cluster_invariants import ClusterInvariants
from simulation.replica_batches import Batch
from simulation.run import run
from simulation.world import EPOCH_MS, Simulation

ORDERS = TopicPartition("orders", 0)
# Written one a second, of 100 bytes each; the clock stands at ten seconds.
BATCHES = [Batch(n, 0, n, n + 1, EPOCH_MS + n * 1000, 100) for n in range(8)]
NOW_MS = EPOCH_MS + 10_000


def expired(settings: dict[str, str], held: list[Batch]) -> int:
    async def main(simulation: Simulation) -> int:
        tree = Tree()
        nodes = {path: Node(b"", 0, 0) for path in ("/config", "/config/topics")}
        value = ConfigOverrides(settings).encode()
        tree.apply({**nodes, topic_config_path("orders"): Node(value, 0, 0)})
        invariants = ClusterInvariants(simulation, tree, [])
        broker = SimpleNamespace(host=SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: NOW_MS)))
        return invariants._expired_on(broker, ORDERS, BATCHES, held)  # type: ignore[arg-type]

    return run(main, seed=1).value


@pytest.mark.parametrize(
    ("settings", "first_held", "count"),
    [
        ({}, 3, 0),
        ({"retention.ms": "5000"}, 0, 0),
        ({"retention.ms": "5000"}, 3, 3),
        # The batch of second 5 is just five seconds old: it must be there.
        ({"retention.ms": "5000"}, 7, 5),
        ({"retention.bytes": "300"}, 5, 5),
        ({"retention.bytes": "300"}, 6, 5),
        ({"retention.ms": "5000", "retention.bytes": "200"}, 6, 6),
        ({"retention.ms": "100"}, 8, 8),
    ],
)
def test_a_replica_may_lack_what_expired(
    settings: dict[str, str], first_held: int, count: int
) -> None:
    assert expired(settings, BATCHES[first_held:]) == count


def test_what_was_not_committed_yet_counts_for_the_size() -> None:
    behind = Batch(8, 0, 8, 9, EPOCH_MS + 8000, 100)
    assert expired({"retention.bytes": "300"}, [*BATCHES[6:], behind]) == 6


@pytest.mark.parametrize(
    ("before", "first_held", "count"),
    [(0, 3, 0), (3, 0, 0), (3, 3, 3), (3, 2, 2), (3, 5, 3), (8, 8, 8)],
)
def test_a_replica_may_lack_what_somebody_asked_to_delete(
    before: int, first_held: int, count: int
) -> None:
    async def main(simulation: Simulation) -> int:
        invariants = ClusterInvariants(simulation, Tree(), [])
        invariants.may_delete(ORDERS, before)
        return invariants._deleted_on(ORDERS, BATCHES, BATCHES[first_held:])

    assert run(main, seed=1).value == count
