"""Proposes steps that may bring a cluster nearer to a goal, the most promising first.

The planner takes a step only if it helps the goal and does no harm to an earlier goal. Steps that
the scope forbids are not proposed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from odradek.ops.balance.goals import Bounds, Goal, LeavingBrokers, RackAwareness
from odradek.ops.balance.model import Replicas, Resource
from odradek.ops.balance.placement import Placement, Step, led_by, replaced
from odradek.protocol.types import TopicPartition

# How many pairs of replicas are tried for a swap between two brokers.
_SWAPS: Final = 200
# How many partitions of each of the two brokers are considered for a swap.
_SWAP_PARTITIONS: Final = 40


@dataclass(frozen=True, slots=True)
class Scope:
    """Which steps a plan may take."""

    eligible: frozenset[int]
    """Brokers that may have replicas after the plan."""
    receiving: frozenset[int]
    """The eligible brokers to which replicas may be moved."""
    movable: frozenset[TopicPartition]
    swaps: bool = field(default=True)
    """Whether two replicas may change places. A swap gives both brokers a new replica."""

    def allows(self, name: TopicPartition, before: Replicas, after: Replicas) -> bool:
        return (
            name in self.movable
            and after[0] in self.eligible
            and all(broker in self.receiving for broker in after if broker not in before)
        )


class _Transfer(NamedTuple):
    """How much of a resource one broker should give to another."""

    source: int
    target: int
    wanted: float


def single_steps(goal: Goal, placement: Placement, scope: Scope) -> Iterator[Step]:
    """Yields steps that change one partition."""
    if isinstance(goal, LeavingBrokers):
        for broker in sorted(goal.leaving):
            yield from _away_from(broker, list(placement.held[broker]), placement, scope)
    elif isinstance(goal, RackAwareness):
        for name, replicas in placement.replicas.items():
            if name in scope.movable and goal.cost_of(replicas):
                for broker in replicas:
                    yield from _away_from(broker, [name], placement, scope)
    elif isinstance(goal, Bounds):
        for transfer in _transfers(goal, placement, scope):
            yield from _steps_of(transfer, goal.resource, placement, scope)


def swaps(goal: Goal, placement: Placement, scope: Scope) -> Iterator[Step]:
    """Yields steps in which two partitions exchange a broker or their leaders. They keep the number
    of replicas of both brokers, so they are possible where a single step is not."""
    if not isinstance(goal, Bounds) or not scope.swaps:
        return
    for transfer in _transfers(goal, placement, scope):
        back = _Transfer(transfer.target, transfer.source, 0.0)
        giving = list(_steps_of(transfer, goal.resource, placement, scope))
        returning = list(_steps_of(back, goal.resource, placement, scope))
        wanted = transfer.wanted
        for given, returned in _fitting(giving, returning, wanted, goal.resource, placement):
            if given[0][0] != returned[0][0]:
                yield given + returned


def _away_from(
    broker: int, names: list[TopicPartition], placement: Placement, scope: Scope
) -> Iterator[Step]:
    for name in names:
        before = placement.replicas[name]
        for target in sorted(scope.receiving):
            if target not in before:
                after = replaced(before, broker, target)
                if after[0] not in scope.eligible:
                    after = led_by(after, target)
                if scope.allows(name, before, after):
                    yield ((name, after),)


def _transfers(goal: Bounds, placement: Placement, scope: Scope) -> Iterator[_Transfer]:
    """Yields pairs of brokers of which the first should give load to the second. At least one of
    them is outside its bounds. Pairs with the largest difference come first."""
    resource = goal.resource
    load = {broker: placement.loads[broker][resource] for broker in scope.eligible}
    everywhere = (0.0, float("inf"))
    pairs = [
        (load[target] - load[source], source, target)
        for source, target in product(sorted(load), sorted(load))
        if load[source] > load[target]
        and (
            load[source] > goal.bounds.get(source, everywhere)[1]
            or load[target] < goal.bounds.get(target, everywhere)[0]
        )
    ]
    for difference, source, target in sorted(pairs):
        yield _Transfer(source, target, -difference / 2)


def _steps_of(
    transfer: _Transfer, resource: Resource, placement: Placement, scope: Scope
) -> Iterator[Step]:
    """Yields steps that do a transfer with a single partition. Partitions whose weight is nearest
    to the wanted transfer come first."""
    source, target, wanted = transfer
    partitions = placement.model.partitions
    by_leaders = resource in (Resource.LEADERS, Resource.LEADER_RATE)

    def distance(name: TopicPartition) -> float:
        return abs(partitions[name].weight(resource) - wanted)

    for name in _nearest(placement, source, distance):
        before = placement.replicas[name]
        if name not in scope.movable or (by_leaders and before[0] != source):
            continue
        if by_leaders and target in before:
            after = led_by(before, target)
        elif target in before:
            continue
        else:
            after = replaced(before, source, target)
        if scope.allows(name, before, after):
            yield ((name, after),)


def _nearest(
    placement: Placement, broker: int, distance: Callable[[TopicPartition], float]
) -> list[TopicPartition]:
    return sorted(placement.held[broker], key=lambda name: (distance(name), name))


def _fitting(
    giving: list[Step],
    returning: list[Step],
    wanted: float,
    resource: Resource,
    placement: Placement,
) -> list[tuple[Step, Step]]:
    """Returns pairs of steps whose weights differ by about the wanted transfer, the best first."""
    partitions = placement.model.partitions

    def weight(step: Step) -> float:
        return partitions[step[0][0]].weight(resource)

    pairs = [
        (abs(weight(given) - weight(returned) - wanted), given, returned)
        for given in _sample(giving)
        for returned in _sample(returning)
        if weight(given) > weight(returned)
    ]
    pairs.sort(key=lambda pair: pair[0])
    return [(given, returned) for _, given, returned in pairs[:_SWAPS]]


def _sample(steps: list[Step]) -> list[Step]:
    """Returns at most `_SWAP_PARTITIONS` steps, taken at equal distances from the list."""
    every = max(1, len(steps) // _SWAP_PARTITIONS)
    return steps[::every][:_SWAP_PARTITIONS]
