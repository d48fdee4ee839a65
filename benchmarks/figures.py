"""Names, units and goals of the figures, and the statistics over rounds.

A figure is known by its name; its unit and direction follow from how the name begins, so that a
scenario only returns names and numbers. Goals are those the project has set itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

Figures = Mapping[str, float]


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Kind:
    """The unit and direction of figures whose names begin with a prefix."""

    beginning: str
    unit: str
    better: Better


# The first prefix that matches counts.
KINDS = (
    Kind("CPU", "s per million", Better.LOWER),
    Kind("produce", "records/s", Better.HIGHER),
    Kind("consume", "records/s", Better.HIGHER),
    Kind("commits", "commits/s", Better.HIGHER),
    Kind("transactions", "transactions/s", Better.HIGHER),
    Kind("join", "ms", Better.LOWER),
    Kind("Java produce", "records/s", Better.HIGHER),
    Kind("one-record", "requests/s", Better.HIGHER),
    Kind("beside 200 slow connections: one-record", "requests/s", Better.HIGHER),
    Kind("beside 200 slow connections: p99", "ms", Better.LOWER),
    Kind("beside 200 slow connections: longest", "ms", Better.LOWER),
    Kind("beside 200 slow connections: memory", "MB", Better.LOWER),
    Kind("end to end", "ms", Better.LOWER),
    Kind("cold start", "s", Better.LOWER),
    Kind("memory", "MB", Better.LOWER),
    Kind("failover", "s", Better.LOWER),
)


def kind_of(name: str) -> Kind:
    return next(kind for kind in KINDS if name.startswith(kind.beginning))


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for our own value (absolute) or for its ratio to Apache Kafka's."""

    bound: float
    is_ratio: bool

    def text(self, better: Better) -> str:
        sign = "≥" if better is Better.HIGHER else "≤"
        return f"{sign} {self.bound:g}{'x' if self.is_ratio else ''}"

    def is_met(self, better: Better, value: float, ratio: float | None) -> bool | None:
        subject = ratio if self.is_ratio else value
        if subject is None:
            return None
        return subject >= self.bound if better is Better.HIGHER else subject <= self.bound


def goal_of(name: str) -> Goal | None:
    """The goals are set for one librdkafka client with acks=1."""
    absolute = {
        "cold start to the first acknowledged record": 0.4,
        "memory when idle": 60.0,
        "memory after the load": 120.0,
        "cold start of three brokers": 2.0,
        "memory of three brokers when idle": 220.0,
        "failover after kill -9: without a leader": 1.0,
    }
    if name in absolute:
        return Goal(absolute[name], is_ratio=False)
    as_good = ("produce", "consume", "commits", "transactions", "join")
    if name.startswith(as_good) and ("acks=all" not in name or "3 replicas" in name):
        return Goal(1.0, is_ratio=True)
    if name.startswith(("CPU to produce", "CPU to consume")) and "acks=all" not in name:
        return Goal(0.7, is_ratio=True)
    if name.startswith("one-record"):
        return Goal(1.5, is_ratio=True)
    if name.startswith("end to end"):
        return Goal(0.7 if name.endswith("p99.9") else 1.0, is_ratio=True)
    return None


def percentile(values: Sequence[float], at: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * at))]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table: medians over the rounds, side by side."""

    name: str
    ours: float
    theirs: float | None

    @property
    def kind(self) -> Kind:
        return kind_of(self.name)

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def goal(self) -> Goal | None:
        return goal_of(self.name)

    @property
    def is_met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.goal.is_met(self.kind.better, self.ours, self.ratio)


class Results:
    """Every value of every round, by broker and figure."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}

    def add(self, broker: str, figures: Figures) -> None:
        for name, value in figures.items():
            self.values.setdefault(name, {}).setdefault(broker, []).append(value)

    def compare(self, ours: str, theirs: str) -> list[Comparison]:
        comparisons = []
        for name, by_broker in self.values.items():
            if ours in by_broker:
                other = by_broker.get(theirs)
                comparisons.append(
                    Comparison(name, median(by_broker[ours]), median(other) if other else None)
                )
        return comparisons
