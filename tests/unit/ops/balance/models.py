"""Clusters for the tests of balance: written down, or from hypothesis."""

import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from odradek.ops.balance.model import BrokerModel, ClusterModel, PartitionModel
from odradek.protocol.types import TopicPartition


def at(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


def cluster(
    racks: Mapping[int, str | None],
    replicas: Sequence[tuple[int, ...]],
    sizes: Sequence[int] | None = None,
    dead: Sequence[int] = (),
) -> ClusterModel:
    """A cluster with one topic; the first replica of each partition leads."""
    return ClusterModel(
        {
            broker: BrokerModel(broker, rack, is_alive=broker not in dead)
            for broker, rack in racks.items()
        },
        {
            at(index): PartitionModel(
                at(index), brokers, brokers[0], 0 if sizes is None else sizes[index]
            )
            for index, brokers in enumerate(replicas)
        },
    )


def skewed(seed: int, partitions: int = 400) -> ClusterModel:
    """9 brokers in 3 racks, of which nearly everything is on five; replication factors 1 to 3."""
    chance = random.Random(seed)
    brokers = {number: BrokerModel(number, "abc"[number % 3]) for number in range(1, 10)}
    made = {}
    for index in range(partitions):
        pool = range(1, 6) if chance.random() < 0.9 else range(1, 10)
        replicas = tuple(chance.sample(pool, chance.choice([1, 2, 3])))
        made[at(index)] = PartitionModel(
            at(index),
            replicas,
            chance.choice(replicas),
            int(chance.lognormvariate(16, 0.7)),
            chance.lognormvariate(9, 0.7),
        )
    return ClusterModel(brokers, made)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterModel:
    """Small clusters of any shape, some brokers dead."""
    count = draw(st.integers(2, 6))
    rack = st.sampled_from([None, "a", "b", "c"])
    brokers = {
        number: BrokerModel(
            number,
            draw(rack),
            draw(st.sampled_from([None, 10_000_000, 1_000_000_000])),
            is_alive=number == 1 or draw(st.integers(0, 9)) > 0,
        )
        for number in range(1, count + 1)
    }
    partitions = {}
    for index in range(draw(st.integers(0, 14))):
        order = draw(st.permutations(sorted(brokers)))
        replicas = tuple(order[: draw(st.integers(1, min(3, count)))])
        alive = [broker for broker in replicas if brokers[broker].is_alive]
        partitions[at(index)] = PartitionModel(
            at(index),
            replicas,
            draw(st.sampled_from(alive)) if alive else -1,
            draw(st.integers(0, 5_000_000)),
            draw(st.floats(0, 50_000)),
        )
    return ClusterModel(brokers, partitions)
