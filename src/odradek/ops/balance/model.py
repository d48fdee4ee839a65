"""What a balance plan is computed from: brokers and partitions with their loads, as plain values.

`reading` makes a model of a live cluster; tests write one down. A model never changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from odradek.protocol.types import TopicPartition

Replicas = tuple[int, ...]
"""Ids of brokers. The first one is the preferred leader."""


class Resource(IntEnum):
    """What a broker is loaded with. The value is the index in a list of loads."""

    REPLICAS = 0
    LEADERS = 1
    RATE = 2
    """Bytes a second that are written to all replicas of the broker."""
    LEADER_RATE = 3
    """Bytes a second that producers send to the broker."""
    DISK = 4
    """Bytes in the logs of all replicas of the broker."""


@dataclass(frozen=True, slots=True)
class BrokerModel:
    """A broker. `capacity_bytes` is what its logs may use at most: what they use now and what is
    free on its disks; None if the broker does not say."""

    id: int
    rack: str | None = None
    capacity_bytes: int | None = None
    is_alive: bool = True

    @property
    def place(self) -> str:
        """The rack. A broker without one is a rack of its own."""
        return f"broker {self.id}" if self.rack is None else f"rack {self.rack}"


@dataclass(frozen=True, slots=True)
class PartitionModel:
    """A partition. `leader` is the broker that leads now, or -1. `rate` is bytes a second."""

    partition: TopicPartition
    replicas: Replicas
    leader: int
    size_bytes: int = 0
    rate: float = 0.0

    def weight(self, resource: Resource) -> float:
        """Returns what one replica of the partition adds to a resource of its broker. For the
        resources of leaders, it is what the leader adds."""
        if resource is Resource.DISK:
            return self.size_bytes
        if resource in (Resource.RATE, Resource.LEADER_RATE):
            return self.rate
        return 1


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """A cluster. Every broker that a partition names is in `brokers`, also if it is dead."""

    brokers: Mapping[int, BrokerModel]
    partitions: Mapping[TopicPartition, PartitionModel]
    rates_known: bool = True
    cluster_id: str = ""

    def __post_init__(self) -> None:
        for partition in self.partitions.values():
            unknown = set(partition.replicas) - set(self.brokers)
            if unknown or len(set(partition.replicas)) != len(partition.replicas):
                raise ValueError(f"{partition.partition} has the replicas {partition.replicas}")

    @property
    def alive(self) -> list[int]:
        return sorted(broker.id for broker in self.brokers.values() if broker.is_alive)

    def current_loads(self) -> dict[int, list[float]]:
        """Returns the loads by broker and resource, with the leaders that lead now."""
        loads = {broker: [0.0] * len(Resource) for broker in self.brokers}
        for partition in self.partitions.values():
            for broker in partition.replicas:
                load = loads[broker]
                load[Resource.REPLICAS] += 1
                load[Resource.RATE] += partition.rate
                load[Resource.DISK] += partition.size_bytes
            if partition.leader in loads:
                loads[partition.leader][Resource.LEADERS] += 1
                loads[partition.leader][Resource.LEADER_RATE] += partition.rate
        return loads

    def with_replicas(self, placed: Mapping[TopicPartition, Replicas]) -> "ClusterModel":
        """Returns the model after a plan: the first replica of every partition leads, if the
        partition has a leader at all."""
        return replace(
            self,
            partitions={
                name: replace(
                    partition,
                    replicas=placed[name],
                    leader=partition.leader if partition.leader < 0 else placed[name][0],
                )
                for name, partition in self.partitions.items()
            },
        )
