"""A histogram that is cheap enough for the hot path.

It sorts integers into fixed buckets, four to each power of two, so a quantile is right to within 25
%. Counters need no class: they are attributes of the object that counts (`self.failed += 1`), and a
collector reads them when the broker is scraped (`telemetry.declarations`).
"""

from collections.abc import Iterable, Sequence
from operator import add
from typing import Final, Optional

# Bucket 0 to 4 hold one number each; then four buckets for each power of two up to 2**63.
_EXACT: Final = 4
_BUCKETS: Final = _EXACT + 1 + 4 * 61


class Histogram:
    """Counts integers by size: microseconds, bytes, records."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.total = 0

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
        return self.quantiles((fraction,))[0]

    def quantiles(
        self, fractions: Sequence[float], other: Optional["Histogram"] = None
    ) -> tuple[int, ...]:
        """Returns the quantiles of the values of this histogram, and of an other one too."""
        counts = self._counts if other is None else list(map(add, self._counts, other._counts))
        filled = [(index, count) for index, count in enumerate(counts) if count]
        total = sum(count for _, count in filled)
        return tuple(_quantile(filled, fraction * total) for fraction in fractions)

    def cumulative(self, highest: int) -> Iterable[tuple[int, int]]:
        """Yields each power of two from 4 to `highest`, with the number of values that do not
        exceed it. The bounds are always the same, so that those of several brokers can be added."""
        seen, index, bound = sum(self._counts[: _EXACT + 1]), _EXACT + 1, _EXACT
        yield bound, seen
        while bound < highest and index < _BUCKETS:
            seen += sum(self._counts[index : index + 4])
            index += 4
            bound = _bound(index - 1)
            yield bound, seen


def _quantile(filled: Sequence[tuple[int, int]], target: float) -> int:
    seen = 0
    for index, count in filled:
        seen += count
        if seen >= target:
            return _bound(index)
    return _bound(filled[-1][0]) if filled else 0


def _bound(index: int) -> int:
    """Returns the largest number in a bucket."""
    if index <= _EXACT:
        return index
    shift, quarter = divmod(index - _EXACT - 1, 4)
    return (_EXACT + quarter + 1) << shift
