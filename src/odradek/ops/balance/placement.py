"""The replicas of all partitions while a plan is made, and the loads that follow from them.

The planner proposes steps; goals judge a step by its effect before it is applied.
"""

from typing import Final

from odradek.ops.balance.model import ClusterModel, PartitionModel, Replicas, Resource
from odradek.protocol.types import TopicPartition

Step = tuple[tuple[TopicPartition, Replicas], ...]
"""Partitions with their new replicas: one partition for a move, two if they swap brokers."""

Effect = dict[int, list[float]]
"""By how much a step changes the loads of the brokers that it touches."""

_RESOURCES: Final = len(Resource)


class Placement:
    """Invariant: `loads` and `held` are what follows from `replicas`, and a partition keeps its
    number of replicas."""

    def __init__(self, model: ClusterModel) -> None:
        self.model = model
        self.replicas: dict[TopicPartition, Replicas] = {
            name: model.partitions[name].replicas for name in sorted(model.partitions)
        }
        self.loads: dict[int, list[float]] = {
            broker: [0.0] * _RESOURCES for broker in sorted(model.brokers)
        }
        # A dict for its order, so that equal models give equal plans.
        self.held: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in self.loads}
        for name, replicas in self.replicas.items():
            partition = model.partitions[name]
            for position, broker in enumerate(replicas):
                self.held[broker][name] = None
                _add(self.loads[broker], partition, 1, leads=position == 0)

    def effect(self, step: Step) -> Effect:
        """Returns how the loads would change."""
        effect: Effect = {}
        for name, after in step:
            partition = self.model.partitions[name]
            before = self.replicas[name]
            for sign, replicas, others in ((-1, before, after), (1, after, before)):
                for position, broker in enumerate(replicas):
                    leads = position == 0
                    if broker in others and leads == (others[0] == broker):
                        continue
                    change = effect.setdefault(broker, [0.0] * _RESOURCES)
                    _add(change, partition, sign, leads=leads)
        return effect

    def apply(self, step: Step, effect: Effect) -> None:
        for name, after in step:
            before = self.replicas[name]
            assert len(set(after)) == len(before), f"{name}: {before} would become {after}"
            for broker in before:
                if broker not in after:
                    del self.held[broker][name]
            for broker in after:
                self.held[broker][name] = None
            self.replicas[name] = after
        for broker, change in effect.items():
            load = self.loads[broker]
            for resource, amount in enumerate(change):
                load[resource] += amount

    def check(self) -> None:
        """Raises if the loads are not those of the replicas. Tests call it."""
        fresh = Placement(self.model.with_replicas(self.replicas))
        assert {broker: set(held) for broker, held in fresh.held.items()} == {
            broker: set(held) for broker, held in self.held.items()
        }
        for broker, load in fresh.loads.items():
            for expected, actual in zip(load, self.loads[broker], strict=True):
                assert abs(expected - actual) <= 1e-6 * max(1.0, abs(expected))


def _add(load: list[float], partition: PartitionModel, sign: int, *, leads: bool) -> None:
    load[Resource.REPLICAS] += sign
    load[Resource.RATE] += sign * partition.rate
    load[Resource.DISK] += sign * partition.size_bytes
    if leads:
        load[Resource.LEADERS] += sign
        load[Resource.LEADER_RATE] += sign * partition.rate


def replaced(replicas: Replicas, leaver: int, comer: int) -> Replicas:
    """Returns the replicas with another broker at the same position."""
    return tuple(comer if broker == leaver else broker for broker in replicas)


def led_by(replicas: Replicas, leader: int) -> Replicas:
    """Returns the same replicas with another preferred leader, which swaps places with the old."""
    position = replicas.index(leader)
    order = list(replicas)
    order[0], order[position] = order[position], order[0]
    return tuple(order)
