"""Aggregate functions of deviations: standard deviation and correlation."""

import math
from collections.abc import Sequence
from typing import Any, Final

from odradek.sql.functions.aggregates import AGGREGATES, Aggregator, Binder, aggregate
from odradek.streams.plan.types import DOUBLE, SqlType

__all__ = ["AGGREGATES"]
State = list[Any]
"""The number of values, their sum, and the sum of squared distances from the mean. That is carried
on by the formulas that ksqlDB uses, so results are equal to the last digit."""
_WHOLE: Final = ("INTEGER", "BIGINT")


def _distance(state: State, number: Any) -> float:
    count, total, _ = state
    return float(number * (count + 1) - (total + number))


def _added(state: State, number: Any) -> State:
    count, total, squares = state
    if count:
        squares += _distance(state, number) ** 2 / ((count + 1) * count)
    return [count + 1, total + number, squares]


def _undone(state: State, number: Any) -> State:
    count, total, squares = state
    if count > 1:
        squares -= _distance(state, number) ** 2 / ((count - 1) * count)
    return [count - 1, total - number, squares]


def _merged(one: State, two: State) -> State:
    count, squares = one[0] + two[0], one[2] + two[2]
    if one[0] and two[0]:
        distance = one[1] / one[0] - two[1] / two[0]
        squares += one[0] * two[0] * distance * distance / count
    return [count, one[1] + two[1], squares]


def _variance_of(state: State) -> float:
    return 0.0 if state[0] < 2 else max(0.0, float(state[2] / (state[0] - 1)))


def _moments(is_root: bool) -> Binder:
    def bind(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
        number = int if kinds[0].name in _WHOLE else float

        def add(state: State, values: tuple[Any, ...]) -> State:
            return state if values[0] is None else _added(state, number(values[0]))

        def undo(state: State, values: tuple[Any, ...]) -> State:
            return state if values[0] is None else _undone(state, number(values[0]))

        def result(state: State) -> float:
            variance = _variance_of(state)
            return math.sqrt(variance) if is_root else variance

        return Aggregator(lambda: [0, number(0), 0.0], add, result, _merged, DOUBLE, undo)

    return bind


_variance, _deviation = _moments(is_root=False), _moments(is_root=True)
_variance.__doc__ = "Returns the square of the sample standard deviation, as in ksqlDB."
_deviation.__doc__ = "Returns the sample standard deviation."
aggregate("STDDEV_SAMP", "N -> DOUBLE")(_variance)
aggregate("STDDEV_SAMPLE", "N -> DOUBLE")(_deviation)


@aggregate("CORRELATION", "N, N -> DOUBLE")
def _correlation(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Returns the Pearson correlation of two columns; NaN if one is constant."""

    def changed(state: list[float], values: tuple[Any, ...], by: int) -> list[float]:
        if values[0] is None or values[1] is None:
            return state
        x, y = float(values[0]), float(values[1])
        step = (1.0, x, y, x * x, y * y, x * y)
        return [old + by * new for old, new in zip(state, step, strict=True)]

    def result(state: list[float]) -> float:
        count, x, y, xx, yy, xy = state
        spread = (count * xx - x * x) * (count * yy - y * y)
        return (count * xy - x * y) / math.sqrt(spread) if count > 1 and spread > 0 else math.nan

    return Aggregator(
        lambda: [0.0] * 6, lambda state, values: changed(state, values, 1), result,
        lambda one, two: [a + b for a, b in zip(one, two, strict=True)], DOUBLE,
        lambda state, values: changed(state, values, -1),
    )  # fmt: skip
