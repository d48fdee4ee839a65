"""Whoever is in sync or eligible is a replica (`ClusterInvariants`)."""

import pytest

from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.node_values import PartitionState, TopicAssignment
from odradek.metadata.paths import partition_state_path, topic_path
from odradek.metadata.store import Operation, Set
from odradek.metadata.store_setup import prepare_store
from odradek.metadata.topic_operations import create_topic
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from simulation.cluster_invariants import ClusterInvariants
from simulation.loop import SimulationError
from simulation.run import run
from simulation.simulated_broker import SimulatedBroker
from simulation.world import Simulation


def assignment(*replicas: int) -> TopicAssignment:
    return TopicAssignment(TopicId(bytes(16)), (tuple(map(BrokerId, replicas)),))


def state(*in_sync: int, eligible: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(
        BrokerId(1),
        LeaderEpoch(0),
        tuple(map(BrokerId, in_sync)),
        1,
        eligible=tuple(map(BrokerId, eligible)),
    )


def change(before: PartitionState, *operations: Operation) -> None:
    """Changes a partition on brokers 1, 2 and 3 in one multi, as its invariants watch."""

    async def main(simulation: Simulation) -> None:
        metadata = MemoryMetadata()
        brokers = [SimulatedBroker(simulation, metadata, number, {}) for number in (1, 2, 3)]
        ClusterInvariants(simulation, metadata.tree, brokers)
        store = metadata.connect()
        await prepare_store(store, "cluster")
        await store.multi(*create_topic("t", assignment(1, 2, 3), [before], {}, None))
        await store.multi(*operations)

    run(main, seed=1)


def assign(*replicas: int) -> Set:
    return Set(topic_path("t"), assignment(*replicas).encode(), 0)


def put(after: PartitionState) -> Set:
    return Set(partition_state_path("t", 0), after.encode(), 0)


@pytest.mark.parametrize(
    ("before", "operations"),
    [
        (state(1, 3), [assign(1, 2)]),
        (state(1, eligible=(3,)), [assign(1, 2)]),
        (state(1, 2), [assign(1, 2), put(state(1, 3))]),
    ],
)
def test_a_broker_that_is_no_replica_is_found(
    before: PartitionState, operations: list[Operation]
) -> None:
    with pytest.raises(SimulationError, match="no replica in t-0"):
        change(before, *operations)


def test_assignment_and_state_may_change_together() -> None:
    change(state(1, 3), put(state(1)), assign(1, 2))
    change(state(1, 3), assign(1, 2), put(state(1)))
    change(state(1, 2), assign(1, 2))
