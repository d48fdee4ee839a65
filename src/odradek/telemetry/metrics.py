"""Counters, gauges and histograms, cheap enough for the hot path, and their text for Prometheus.

A counter is an attribute to add to (`requests.value += 1`): no call, no lock, no search for labels.
A component asks the registry for its metrics once, in its constructor, and keeps them. A histogram
sorts integers into fixed buckets, four to each power of two, so a quantile is right to within 25 %.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, TypeVar

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# Bucket 0 to 4 hold one number each; then four buckets for each power of two up to 2**63.
_EXACT: Final = 4
_BUCKETS: Final = _EXACT + 1 + 4 * 61


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    """A number that rises and falls: `value` is set, or a function reads it."""

    __slots__ = ("_read", "value")

    def __init__(self, read: Callable[[], float] | None = None) -> None:
        self.value: float = 0
        self._read = read

    def current(self) -> float:
        return self.value if self._read is None else self._read()


class Histogram:
    """Counts integers by size: microseconds, bytes, records."""

    __slots__ = ("_counts", "total", "unit")

    def __init__(self, unit: float = 1) -> None:
        """Values are multiplied by `unit` when they are shown: 1e-6 turns microseconds into
        seconds."""
        self._counts = [0] * _BUCKETS
        self.total = 0
        self.unit = unit

    def observe(self, value: int) -> None:
        self.total += value
        if value <= _EXACT:
            self._counts[value if value > 0 else 0] += 1
            return
        below = value - 1
        shift = below.bit_length() - 3
        if shift > 60:
            below, shift = (1 << 63) - 1, 60
        # below >> shift is 4 to 7: the two bits after the highest choose among four.
        self._counts[(shift << 2) + (below >> shift) + 1] += 1

    @property
    def count(self) -> int:
        return sum(self._counts)

    def quantile(self, fraction: float) -> int:
        """Returns the smallest bucket bound that this fraction of the values does not exceed; 0 if
        there are no values."""
        target = fraction * self.count
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen and seen >= target:
                return _bound(index)
        return 0

    def cumulative(self) -> Iterable[tuple[int, int]]:
        """Yields each power of two from 4 on, with the number of values that do not exceed it,
        until all values are counted."""
        seen = sum(self._counts[: _EXACT + 1])
        index = _EXACT + 1
        yield _EXACT, seen
        total = self.count
        while index < _BUCKETS and seen < total:
            seen += sum(self._counts[index : index + 4])
            index += 4
            yield _bound(index - 1), seen


def _bound(index: int) -> int:
    """Returns the largest number in a bucket."""
    if index <= _EXACT:
        return index
    shift, quarter = divmod(index - _EXACT - 1, 4)
    return (_EXACT + quarter + 1) << shift


class _Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


Metric = Counter | Gauge | Histogram
M = TypeVar("M", bound=Metric)
Labels = tuple[tuple[str, str], ...]


class _Family:
    """The metrics of one name, by their labels."""

    __slots__ = ("doc", "kind", "metrics")

    def __init__(self, kind: _Kind, doc: str) -> None:
        self.kind = kind
        self.doc = doc
        self.metrics: dict[Labels, Metric] = {}


class Registry:
    """The metrics of one broker."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def counter(self, name: str, doc: str, **labels: str) -> Counter:
        return self._get(name, _Kind.COUNTER, doc, labels, Counter())

    def gauge(
        self, name: str, doc: str, read: Callable[[], float] | None = None, **labels: str
    ) -> Gauge:
        return self._get(name, _Kind.GAUGE, doc, labels, Gauge(read))

    def histogram(self, name: str, doc: str, unit: float = 1, **labels: str) -> Histogram:
        return self._get(name, _Kind.HISTOGRAM, doc, labels, Histogram(unit))

    def remove(self, name: str, **labels: str) -> None:
        """Removes a metric whose subject does not exist any more, for instance a deleted topic."""
        family = self._families.get(name)
        if family is not None:
            family.metrics.pop(_labels(labels), None)

    def exposition(self) -> str:
        """Returns all metrics in Prometheus's text format."""
        lines: list[str] = []
        for name, family in sorted(self._families.items()):
            lines.append(f"# HELP {name} {_escape(family.doc, quotes=False)}")
            lines.append(f"# TYPE {name} {family.kind.value}")
            for labels, metric in sorted(family.metrics.items(), key=lambda item: item[0]):
                lines += _samples(name, labels, metric)
        return "\n".join(lines) + "\n" if lines else ""

    def _get(self, name: str, kind: _Kind, doc: str, labels: dict[str, str], fresh: M) -> M:
        family = self._families.get(name)
        if family is None:
            if not all(map(_NAME.fullmatch, (name, *labels))):
                raise ValueError(f"not a name for a metric or label: {name} {list(labels)}")
            family = self._families[name] = _Family(kind, doc)
        if family.kind is not kind:
            raise ValueError(f"{name} is a {family.kind.value} already")
        metric = family.metrics.setdefault(_labels(labels), fresh)
        assert isinstance(metric, type(fresh))  # the kind says so
        return metric


def _labels(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _samples(name: str, labels: Labels, metric: Metric) -> Iterable[str]:
    if isinstance(metric, Counter):
        yield f"{name}{_braces(labels)} {metric.value}"
    elif isinstance(metric, Gauge):
        yield f"{name}{_braces(labels)} {metric.current()}"
    else:
        for bound, seen in metric.cumulative():
            limit = ("le", f"{bound * metric.unit:g}")
            yield f"{name}_bucket{_braces((*labels, limit))} {seen}"
        count = metric.count
        yield f"{name}_bucket{_braces((*labels, ('le', '+Inf')))} {count}"
        yield f"{name}_sum{_braces(labels)} {metric.total * metric.unit:.12g}"
        yield f"{name}_count{_braces(labels)} {count}"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in labels)
    return f"{{{inside}}}"


def _escape(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
