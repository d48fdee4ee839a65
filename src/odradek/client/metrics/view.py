"""Computes the metrics of a client from its figures, when somebody asks.

Rates and averages are of the last half to whole minute, as in Kafka, if somebody asks that often:
the view notes the figures when it is asked, at most every half minute, and compares with the note
before the last. Otherwise they are of the time since the last question, or since the start.
Maxima begin anew with each note.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.client.metrics.catalogue import ClientMetric, Formula, Scope
from odradek.client.metrics.figures import Figures, Part, Read, Reading

_WINDOW_S: Final = 30.0
_NOTHING: Final[Figures] = {}


@dataclass(frozen=True, slots=True)
class MetricName:
    """The key of a metric: its name, its group and its tags. Two are equal if these are."""

    name: str
    group: str
    description: str
    tags: Mapping[str, str]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetricName) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        return self.name, self.group, frozenset(self.tags.items())


class _Note(NamedTuple):
    at_s: float
    reading: Reading


class Computed(NamedTuple):
    """The value of a metric for one part of a client."""

    metric: ClientMetric
    tags: Mapping[str, str]
    value: float


class MetricsView:
    """One for each client, made when it is first asked for."""

    def __init__(
        self,
        client_id: str,
        metrics: tuple[ClientMetric, ...],
        read: Read,
        reset_maxima: Callable[[], None],
        *,
        now_s: Callable[[], float],
        started_s: float,
    ) -> None:
        self._client_id = client_id
        self._metrics = metrics
        self._read = read
        self._reset_maxima = reset_maxima
        self._now_s = now_s
        self._before = self._last = _Note(started_s, {})

    def metrics(self) -> dict[MetricName, float]:
        """Returns all metrics by name, as Kafka's `metrics()`."""
        return {
            MetricName(
                found.metric.name,
                found.metric.group,
                found.metric.description,
                MappingProxyType({"client-id": self._client_id, **found.tags}),
            ): found.value
            for found in self.compute()
        }

    def compute(self) -> Iterable[Computed]:
        """Returns the values of all metrics for the parts that they are about."""
        now = _Note(self._now_s(), {})
        now = now._replace(reading=self._read(now.at_s))
        before = self._before
        computed = [
            Computed(metric, _tags(part), _value(metric, part, figures, now, before))
            for part, figures in now.reading.items()
            for metric in self._metrics
            if metric.scope is part.scope and metric.figure in figures
        ]
        if now.at_s - self._last.at_s >= _WINDOW_S:
            self._before, self._last = self._last, now
            self._reset_maxima()
        return computed


def _tags(part: Part) -> dict[str, str]:
    names: tuple[str, ...] = part.scope.value
    return dict(zip(names, part.tags, strict=True))


def _value(metric: ClientMetric, part: Part, figures: Figures, now: _Note, before: _Note) -> float:
    amount = figures[metric.figure]
    if metric.formula in (Formula.VALUE, Formula.TOTAL):
        return amount * metric.factor
    old = before.reading.get(part, _NOTHING)
    grown = amount - old.get(metric.figure, 0.0)
    if metric.formula is Formula.RATE:
        passed_s = now.at_s - before.at_s
        return grown / passed_s * metric.factor if passed_s > 0 else 0.0
    count = figures.get(metric.per, 0.0) - old.get(metric.per, 0.0)
    return grown / count * metric.factor if count else 0.0


__all__ = ["Computed", "MetricName", "MetricsView", "Scope"]
