"""Makes a balance plan of a model: goal after goal, step by step.

For each goal the planner looks at steps that may help. It takes the one that makes the loads of all
resources most even, among those that lower the cost of the goal and raise the cost of no earlier
goal (`goals`). When there is none, it tries swaps of two replicas, then goes on to the next goal.
The result depends on nothing but the model, so the same cluster gives the same plan.

A plan never loses a replica: a step only replaces a broker by another, or changes the order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.ops.balance.goals import (
    LEAVING_BROKERS,
    PREFERRED_LEADERS,
    Bounds,
    Goal,
    Limits,
    goals_for,
)
from odradek.ops.balance.model import ClusterModel, Resource
from odradek.ops.balance.placement import Effect, Placement, Step, led_by
from odradek.ops.balance.plan import GoalResult, Move, Plan
from odradek.ops.balance.steps import Scope, single_steps, swaps
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

# Of so many steps that would help, the best is taken.
_ENOUGH: Final = 24
# So many steps are looked at before a goal is given up.
_MAX_LOOKS: Final = 4_000
# A cost below this is a rounding error of adding and subtracting floating-point numbers.
_ROUNDING: Final = 1e-6


class PlanImpossible(Exception):
    """The plan that was asked for cannot exist; the message says why."""


class Kind(Enum):
    BALANCE = "balance"
    """All replicas may move."""
    ADD = "add-broker"
    """Replicas move only to the named brokers, which are new."""
    REMOVE = "remove-broker"
    """The replicas of the named brokers move to others; nothing else moves."""
    DEMOTE = "demote-broker"
    """The named brokers lead nothing where another replica can; no data moves."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to plan."""

    kind: Kind = Kind.BALANCE
    brokers: frozenset[int] = frozenset()
    exclude_topics: str | None = None
    """A regular expression for whole names of topics that do not move."""
    limits: Limits = field(default_factory=Limits)


StepTaken = Callable[[Goal, Step], None]


def refuse_unknown(request: Request, brokers: Iterable[int]) -> None:
    """Raises if a request names brokers that the cluster does not have."""
    known = list(brokers)
    if unknown := sorted(request.brokers - set(known)):
        raise PlanImpossible(
            f"there is no broker {', '.join(map(str, unknown))};"
            f" the cluster has {', '.join(map(str, known))}"
        )


def make_plan(
    model: ClusterModel, request: Request | None = None, on_step: StepTaken | None = None
) -> Plan:
    """Returns the plan. `on_step` is told of each step before it is taken; tests use it."""
    request = request or Request()
    refuse_unknown(request, model.brokers)
    placement = Placement(model)
    planning = _Planning(placement, request)
    goals = planning.goals
    before = [goal.cost(placement) for goal in goals]
    if request.kind is Kind.DEMOTE:
        _demote(placement, request.brokers)
    else:
        planning.pursue(on_step)
    return _result(placement, planning, before)


class _Planning:
    """One plan in the making."""

    def __init__(self, placement: Placement, request: Request) -> None:
        model = placement.model
        self._placement = placement
        self._request = request
        leaving = request.brokers if request.kind is Kind.REMOVE else frozenset()
        eligible = frozenset(model.alive) - leaving
        if not eligible:
            raise PlanImpossible("no broker would be left; what they hold has nowhere to go")
        receiving = eligible
        if request.kind is Kind.ADD:
            dead = request.brokers - eligible
            if dead:
                raise PlanImpossible(f"broker {min(dead)} does not run; start it first")
            receiving = request.brokers
        self.leaving = leaving
        self.fixed = _fixed(model, request, leaving)
        self._scope = Scope(
            eligible=eligible,
            receiving=receiving,
            movable=frozenset(model.partitions) - frozenset(self.fixed),
            swaps=request.kind is Kind.BALANCE,
        )
        self.goals = goals_for(placement, eligible, leaving, request.limits)
        if leaving:
            _require_room(placement, leaving, len(eligible))

    def pursue(self, on_step: StepTaken | None) -> None:
        last = 1 if self._request.kind is Kind.REMOVE else len(self.goals)
        for index, goal in enumerate(self.goals[:last]):
            while (cost := goal.cost(self._placement)) > _ROUNDING:
                # Steps that hardly help are not worth a move, unless little is left to do.
                least = min(goal.least, cost / 2)
                found = self._find(index, least, single_steps) or self._find(index, least, swaps)
                if found is None:
                    break
                if on_step is not None:
                    on_step(goal, found[0])
                self._placement.apply(*found)

    def _find(
        self,
        index: int,
        least: float,
        propose: Callable[[Goal, Placement, Scope], Iterator[Step]],
    ) -> tuple[Step, Effect] | None:
        """Returns the best step that lowers the cost of a goal by at least `least`, with its
        effect, or None if there is none."""
        placement, goal = self._placement, self.goals[index]
        best: tuple[tuple[float, ...], Step, Effect] | None = None
        found = 0
        for looks, step in enumerate(propose(goal, placement, self._scope)):
            if looks >= _MAX_LOOKS or found >= _ENOUGH:
                break
            effect = placement.effect(step)
            if goal.change(placement, step, effect) > -least:
                continue
            if any(
                earlier.change(placement, step, effect) > _ROUNDING
                for earlier in self.goals[:index]
            ):
                continue
            found += 1
            score = self._score(index, step, effect)
            if best is None or score < best[0]:
                best = score, step, effect
        return None if best is None else best[1:]

    def _score(self, index: int, step: Step, effect: Effect) -> tuple[float, ...]:
        """Lower is better: hard goals that come later, then how uneven the loads become, then the
        bytes that move."""
        placement = self._placement
        hard = [
            goal.change(placement, step, effect) for goal in self.goals[index + 1 :] if goal.is_hard
        ]
        uneven = 0.0
        for goal in self.goals:
            if isinstance(goal, Bounds) and not goal.is_hard:
                for broker, change in effect.items():
                    amount = change[goal.resource]
                    load = placement.loads[broker][goal.resource]
                    uneven += amount * (2 * load + amount) / max(goal.average, 1.0) ** 2
        moved = sum(
            placement.model.partitions[name].size_bytes
            for name, after in step
            if set(after) != set(placement.replicas[name])
        )
        return (*hard, uneven, moved)


def excluded_topics(pattern: str | None, topics: Iterable[str]) -> frozenset[str]:
    """Returns the topics that a request leaves as they are. The expression has RE2's syntax and is
    matched in linear time: who may ask for a plan must not keep the process busy with it."""
    try:
        return compile_pattern(pattern).matching(topics) if pattern else frozenset()
    except InvalidPattern as error:
        raise PlanImpossible(f"{pattern!r} cannot be matched against topics: {error}") from None


def _fixed(
    model: ClusterModel, request: Request, leaving: Collection[int]
) -> dict[TopicPartition, str]:
    """Returns the partitions that cannot move, with the reason."""
    excluded = excluded_topics(
        request.exclude_topics, {partition.topic for partition in model.partitions}
    )
    fixed: dict[TopicPartition, str] = {}
    for name, partition in model.partitions.items():
        dead = [
            broker
            for broker in partition.replicas
            if broker not in leaving and not model.brokers[broker].is_alive
        ]
        if name.topic in excluded:
            fixed[name] = "excluded"
        elif partition.leader < 0:
            fixed[name] = "no leader"
        elif dead:
            fixed[name] = f"broker {dead[0]} does not run"
    return fixed


def _require_room(placement: Placement, leaving: Iterable[int], brokers: int) -> None:
    names = {name for broker in leaving for name in placement.held[broker]}
    most = max((len(placement.replicas[name]) for name in names), default=0)
    if most > brokers:
        topics = sorted({name.topic for name in names if len(placement.replicas[name]) > brokers})
        raise PlanImpossible(
            f"{', '.join(topics[:3])}{' and others' if topics[3:] else ''}: there would be"
            f" {counted(most, 'replica')} on {counted(brokers, 'broker')}; add a broker first, or"
            " lower the replication factor with odradek reassign-partitions"
        )


def _demote(placement: Placement, demoted: Collection[int]) -> None:
    """Puts the brokers last among the replicas of each partition. Of the others, one that leads
    few partitions leads."""
    model = placement.model
    for name, before in list(placement.replicas.items()):
        rest = [broker for broker in before if broker not in demoted]
        able = [broker for broker in rest if model.brokers[broker].is_alive]
        if len(rest) == len(before) or not able:
            continue
        after = (*rest, *(broker for broker in before if broker in demoted))
        if before[0] in demoted:
            leaders = placement.loads
            fewest = min(able, key=lambda broker: (leaders[broker][Resource.LEADERS], broker))
            after = led_by(after, fewest)
        step = ((name, after),)
        placement.apply(step, placement.effect(step))


def _result(placement: Placement, planning: _Planning, before: list[float]) -> Plan:
    model = placement.model
    moves = tuple(
        Move(name, old.replicas, new, old.size_bytes, old.leader, old.rate)
        for name, new in placement.replicas.items()
        if (old := model.partitions[name]).replicas != new
    )
    elections = tuple(
        name
        for name, new in placement.replicas.items()
        if model.partitions[name].leader not in (-1, new[0])
        and set(new) == set(model.partitions[name].replicas)
        and model.brokers[new[0]].is_alive
        and name not in planning.fixed
    )
    goals = [
        GoalResult(goal.name, goal.is_hard, _rounded(cost), _rounded(goal.cost(placement)))
        for goal, cost in zip(planning.goals, before, strict=True)
        if planning.leaving or goal.name != LEAVING_BROKERS
    ]
    wrong = [
        name
        for name, partition in model.partitions.items()
        if partition.leader not in (-1, partition.replicas[0])
    ]
    left = len(set(wrong) - set(elections) - {move.partition for move in moves})
    goals.append(GoalResult(PREFERRED_LEADERS, False, len(wrong), left))
    return Plan(
        before=model,
        after=model.with_replicas(placement.replicas),
        moves=moves,
        elections=elections,
        goals=tuple(goals),
        warnings=tuple(_warnings(placement, planning, goals)),
    )


def _rounded(cost: float) -> float:
    return 0.0 if cost <= _ROUNDING else round(cost, 3)


def _warnings(
    placement: Placement, planning: _Planning, goals: Iterable[GoalResult]
) -> Iterator[str]:
    for goal in goals:
        if goal.is_hard and not goal.is_met:
            yield f"the goal {goal.name!r} cannot be met by moving replicas"
    reasons: dict[str, int] = {}
    for reason in planning.fixed.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        if reason != "excluded":
            yield f"{counted(count, 'partition stays', 'partitions stay')} as they are: {reason}"
    demoted = planning._request.brokers if planning._request.kind is Kind.DEMOTE else ()
    for broker in sorted(demoted):
        alone = sum(1 for name in placement.held[broker] if placement.replicas[name][0] == broker)
        if alone:
            yield (
                f"broker {broker} goes on to lead {counted(alone, 'partition')} that no other live"
                " broker has a replica of"
            )
