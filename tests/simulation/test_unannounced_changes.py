"""A store may be killed after it wrote a change and before it told anybody: `ClusterInvariants`."""

import pytest

from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.node_values import PartitionState, TopicAssignment
from odradek.metadata.paths import partition_state_path
from odradek.metadata.store import Set
from odradek.metadata.store_setup import prepare_store
from odradek.metadata.topic_operations import create_topic
from odradek.metadata.tree import Tree
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from simulation.cluster_invariants import ClusterInvariants
from simulation.loop import SimulationError
from simulation.run import run
from simulation.simulated_broker import SimulatedBroker
from simulation.world import Simulation

PATH = partition_state_path("t", 0)
REPLICAS = TopicAssignment(TopicId(bytes(16)), (tuple(map(BrokerId, (1, 2, 3))),))


def state(leader: int, epoch: int, *in_sync: int) -> PartitionState:
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), tuple(map(BrokerId, in_sync)), 1)


def restart_the_store(unannounced: PartitionState, then: PartitionState) -> None:
    """Broker 1 leads with broker 2 in sync. The store is killed after it wrote the first state,
    and writes the second one when it is back."""

    async def main(simulation: Simulation) -> None:
        metadata = MemoryMetadata()
        brokers = [SimulatedBroker(simulation, metadata, number, {}) for number in (1, 2, 3)]
        invariants = ClusterInvariants(simulation, metadata.tree, brokers)
        store = metadata.connect()
        await prepare_store(store, "cluster")
        await store.multi(*create_topic("t", REPLICAS, [state(1, 0, 1, 2)], {}, None))

        nodes = dict(metadata.tree.nodes)
        nodes[PATH] = nodes[PATH]._replace(value=unannounced.encode(), version=1)
        metadata.tree = Tree(nodes, transaction=metadata.tree.transaction)
        invariants.watch(metadata.tree)
        await metadata.connect().multi(Set(PATH, then.encode(), 1))

    run(main, seed=1)


def test_an_election_may_rest_on_a_change_that_was_not_announced() -> None:
    restart_the_store(state(1, 0, 1, 2, 3), then=state(3, 1, 1, 2, 3))


def test_a_change_that_was_not_announced_is_judged() -> None:
    with pytest.raises(SimulationError, match="unclean in t-0"):
        restart_the_store(state(3, 1, 1, 2, 3), then=state(3, 1, 1, 2))
