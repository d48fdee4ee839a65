"""The goals of a balance plan, in the order in which they are pursued.

    1 leaving brokers     brokers that are to be removed have no replica
    2 rack awareness      replicas of a partition are in as many racks as possible
    3 replica capacity    no broker has more replicas than allowed
    4 disk capacity       no broker uses more of its disks than allowed
    5 replica spread      every broker has about as many replicas as the others
    6 leader spread       the same for leaders
    7 byte-rate spread    the same for bytes a second of all replicas
    8 leader byte rate    the same for bytes a second of leaders
    9 disk spread         the same for bytes on disk

1 to 4 are hard: a plan that cannot meet them says so as a warning. The others are met when each
broker is within a tolerance of the average. Preferred leaders are the last goal. It needs no steps
of its own: a plan gives each partition its leader by the order of replicas, and `execution` elects
the first one.

A goal has a cost, which is 0 when it is met. A step is taken for a goal if it lowers that cost and
does not raise the cost of any goal before it, so goals that come later never undo earlier ones.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.ops.balance.model import BrokerModel, ClusterModel, Replicas, Resource
from odradek.ops.balance.placement import Effect, Placement, Step

TOLERANCE: Final = 0.1
"""How far from the average a broker may be."""
MAX_REPLICAS: Final = 10_000
DISK_SHARE: Final = 0.8
"""How much of its disks a broker may use."""
LEAVING_BROKERS: Final = "leaving brokers"
PREFERRED_LEADERS: Final = "preferred leaders"

# Differences below these are not worth a move: bytes a second, and bytes.
_NEGLIGIBLE: Final = {
    Resource.RATE: 1_000.0,
    Resource.LEADER_RATE: 1_000.0,
    Resource.DISK: 1_000_000.0,
}
_NAMES: Final = {
    Resource.REPLICAS: "replica spread",
    Resource.LEADERS: "leader spread",
    Resource.RATE: "byte-rate spread",
    Resource.LEADER_RATE: "leader byte-rate spread",
    Resource.DISK: "disk spread",
}


class Goal(Protocol):
    """`change` is the difference of the cost that a step makes, negative if it helps."""

    @property
    def name(self) -> str: ...

    @property
    def is_hard(self) -> bool: ...

    @property
    def least(self) -> float:
        """A change of the cost below this does not count, so that a plan ends."""

    def cost(self, placement: Placement) -> float: ...

    def change(self, placement: Placement, step: Step, effect: Effect) -> float: ...


class LeavingBrokers:
    """Cost: the number of replicas on brokers that are to be removed."""

    name: Final = LEAVING_BROKERS
    is_hard: Final = True
    least: Final = 1.0

    def __init__(self, leaving: Collection[int]) -> None:
        self.leaving = frozenset(leaving)

    def cost(self, placement: Placement) -> float:
        return sum(len(placement.held[broker]) for broker in self.leaving)

    def change(self, placement: Placement, step: Step, effect: Effect) -> float:
        return sum(
            change[Resource.REPLICAS] for broker, change in effect.items() if broker in self.leaving
        )


class RackAwareness:
    """Cost: the number of replicas that share a rack with more of their partition than necessary:
    with R racks and N replicas, a rack should have N / R of them, rounded up."""

    name: Final = "rack awareness"
    is_hard: Final = True
    least: Final = 1.0

    def __init__(self, brokers: Mapping[int, BrokerModel], eligible: Collection[int]) -> None:
        self._place = {broker.id: broker.place for broker in brokers.values()}
        self.racks = len({self._place[broker] for broker in eligible}) or 1
        # The same replicas are judged thousands of times.
        self._known: dict[Replicas, int] = {}

    def cost_of(self, replicas: Replicas) -> int:
        known = self._known.get(replicas)
        if known is None:
            known = self._known[replicas] = self._cost_of(replicas)
        return known

    def _cost_of(self, replicas: Replicas) -> int:
        most = math.ceil(len(replicas) / self.racks)
        counts = Counter(self._place[broker] for broker in replicas)
        return sum(count - most for count in counts.values() if count > most)

    def cost(self, placement: Placement) -> float:
        return sum(map(self.cost_of, placement.replicas.values()))

    def change(self, placement: Placement, step: Step, effect: Effect) -> float:
        return sum(
            self.cost_of(after) - self.cost_of(placement.replicas[name]) for name, after in step
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that each broker should have of a resource. Cost: how much brokers
    have beyond, together."""

    name: str
    is_hard: bool
    resource: Resource
    bounds: Mapping[int, tuple[float, float]]
    average: float
    least: float

    def cost(self, placement: Placement) -> float:
        return sum(
            self._beyond(broker, placement.loads[broker][self.resource]) for broker in self.bounds
        )

    def change(self, placement: Placement, step: Step, effect: Effect) -> float:
        total = 0.0
        for broker, change in effect.items():
            amount = change[self.resource]
            if amount:
                load = placement.loads[broker][self.resource]
                total += self._beyond(broker, load + amount) - self._beyond(broker, load)
        return total

    def _beyond(self, broker: int, load: float) -> float:
        lower, upper = self.bounds.get(broker, (0.0, math.inf))
        return load - upper if load > upper else max(0.0, lower - load)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator can set."""

    tolerance: float = TOLERANCE
    max_replicas: int = MAX_REPLICAS
    disk_share: float = DISK_SHARE


def goals_for(
    placement: Placement, eligible: Collection[int], leaving: Collection[int], limits: Limits
) -> list[Goal]:
    """Returns the goals in order. `eligible` brokers may hold replicas in the end; `leaving` ones
    may not."""
    model = placement.model
    goals: list[Goal] = [
        LeavingBrokers(leaving),
        RackAwareness(model.brokers, eligible),
        Bounds(
            "replica capacity",
            True,
            Resource.REPLICAS,
            dict.fromkeys(eligible, (0.0, float(limits.max_replicas))),
            float(limits.max_replicas),
            least=1.0,
        ),
        _disk_capacity(model, eligible, limits),
    ]
    resources = [Resource.REPLICAS, Resource.LEADERS]
    if model.rates_known:
        resources += [Resource.RATE, Resource.LEADER_RATE]
    resources.append(Resource.DISK)
    goals += [_spread(placement, resource, eligible, leaving, limits) for resource in resources]
    return goals


def _disk_capacity(model: ClusterModel, eligible: Collection[int], limits: Limits) -> Bounds:
    bounds = {
        broker: (0.0, capacity * limits.disk_share)
        for broker in eligible
        if (capacity := model.brokers[broker].capacity_bytes) is not None
    }
    return Bounds("disk capacity", True, Resource.DISK, bounds, 1.0, least=1.0)


def _spread(
    placement: Placement,
    resource: Resource,
    eligible: Collection[int],
    leaving: Collection[int],
    limits: Limits,
) -> Bounds:
    """Bounds around the average that the eligible brokers have once those that leave are empty.
    Numbers of replicas are whole, so the two whole numbers beside the average are always allowed:
    with 10 replicas on 3 brokers, 3 and 4 are both even."""
    total = sum(placement.loads[broker][resource] for broker in {*eligible, *leaving})
    average = total / max(1, len(eligible))
    lower, upper = average * (1 - limits.tolerance), average * (1 + limits.tolerance)
    if resource in _NEGLIGIBLE:
        lower = min(lower, average - _NEGLIGIBLE[resource])
        upper = max(upper, average + _NEGLIGIBLE[resource])
        least = max(1.0, average / 200)
    else:
        lower = min(math.floor(average), math.ceil(lower))
        upper, least = max(math.ceil(average), math.floor(upper)), 1.0
    bounds = dict.fromkeys(sorted(eligible), (float(lower), float(upper)))
    return Bounds(_NAMES[resource], False, resource, bounds, average, least)
