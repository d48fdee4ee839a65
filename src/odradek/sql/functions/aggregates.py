"""Aggregate functions: a state, how a row is added to it and undone, and how two are merged.

A state is made of lists, dicts and plain values, because it is written to a changelog. `undo` is
what aggregation over a table needs; a function without it is refused there. `add` never gets a null
unless `nulls` says so.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from odradek.sql.functions.declaring import Signature, signature
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.types import (
    ArrayType,
    SqlType,
    StructType,
)

_MOST: Final = 1000
"""The most values that a collection has, unless a property says another number; what comes after is
left out."""


def _most(constants: Sequence[Any]) -> int | None:
    """Returns the most values that a collection has; None if it has any number of them."""
    limit = constants[0] if constants else _MOST
    return None if limit < 0 else int(limit)


@dataclass(frozen=True)
class Aggregator:
    """An aggregate function that is bound to its arguments."""

    initial: Callable[[], Any]
    add: Callable[[Any, tuple[Any, ...]], Any]
    result: Callable[[Any], Any]
    merge: Callable[[Any, Any], Any]
    returns: SqlType
    undo: Callable[[Any, tuple[Any, ...]], Any] | None = None


Binder = Callable[[Sequence[SqlType], Sequence[Any]], Aggregator]
"""Gets the types of the arguments, and the values of the constant ones at the end."""


@dataclass(frozen=True)
class AggregateFunction:
    name: str
    doc: str
    signatures: tuple[Signature, ...]
    bind: Binder
    constants: int = 0
    """How many of the last parameters, where they are given, must be constants."""


AGGREGATES: Final[dict[str, AggregateFunction]] = {}


def aggregate(name: str, *signatures: str, constants: int = 0) -> Callable[[Binder], Binder]:
    """Declares an aggregate function; the docstring of what binds it says what it does."""

    def declare(bind: Binder) -> Binder:
        text = " ".join((bind.__doc__ or "").split())
        parsed = tuple(signature(one) for one in signatures)
        AGGREGATES[name] = AggregateFunction(name, text, parsed, bind, constants)
        return bind

    return declare


def _same(state: Any) -> Any:
    return state


_BIGINT: Final = signature("-> BIGINT").result
_DOUBLE: Final = signature("-> DOUBLE").result


@aggregate("COUNT", "ANY... -> BIGINT")
def _count(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Counts rows: all with *, else those in which the argument is not null."""

    def counts(values: tuple[Any, ...]) -> int:
        return int(not values or values[0] is not None)

    return Aggregator(
        lambda: 0, lambda state, values: state + counts(values), _same,
        lambda one, other: one + other, _BIGINT, lambda state, values: state - counts(values),
    )  # fmt: skip


@aggregate("SUM", "N -> N")
def _sum(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Adds up numbers; nulls are left out."""
    kind = kinds[0]
    zero: Any = Decimal(0) if kind.name == "DECIMAL" else 0.0 if kind.name == "DOUBLE" else 0
    bits = {"INTEGER": 32, "BIGINT": 64}.get(kind.name)

    def checked(total: Any) -> Any:
        if bits is not None and not -(1 << bits - 1) <= total < 1 << bits - 1:
            raise OverflowError(f"the sum {total} is too large for {kind}")
        return total

    def add(state: Any, values: tuple[Any, ...]) -> Any:
        return state if values[0] is None else checked(state + values[0])

    def undo(state: Any, values: tuple[Any, ...]) -> Any:
        return state if values[0] is None else checked(state - values[0])

    return Aggregator(lambda: zero, add, _same, lambda one, two: checked(one + two), kind, undo)


@aggregate("AVG", "N -> DOUBLE")
def _avg(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Returns the mean of numbers; 0 if there are none."""

    def result(state: list[Any]) -> float | None:
        return float(state[0]) / state[1] if state[1] else 0.0

    return Aggregator(
        lambda: [0, 0],
        lambda state, values: state if values[0] is None else [state[0] + values[0], state[1] + 1],
        result,
        lambda one, two: [one[0] + two[0], one[1] + two[1]],
        _DOUBLE,
        lambda state, values: state if values[0] is None else [state[0] - values[0], state[1] - 1],
    )


def _extreme(choose: Callable[[Any, Any], Any]) -> Binder:
    def bind(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
        def pick(one: Any, two: Any) -> Any:
            return two if one is None else one if two is None else choose(one, two)

        return Aggregator(
            lambda: None, lambda state, values: pick(state, values[0]), _same, pick, kinds[0]
        )

    return bind


_max, _min = _extreme(max), _extreme(min)
_max.__doc__ = "Returns the largest value."
_min.__doc__ = "Returns the smallest value."
_ORDERED: Final = (
    "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP",
)  # fmt: skip
"""The types whose values have an order."""
aggregate("MAX", *(f"{kind} -> {kind}" for kind in _ORDERED))(_max)
aggregate("MIN", *(f"{kind} -> {kind}" for kind in _ORDERED))(_min)


@aggregate("COLLECT_LIST", "T -> ARRAY<T>")
def _collect_list(kinds: Sequence[SqlType], constants: Sequence[Any]) -> Aggregator:
    """Returns all values, nulls included, in the order in which they came; 1,000 at most, or as
    many as ksql.functions.collect_list.limit says."""
    most = _most(constants)

    def undo(state: list[Any], values: tuple[Any, ...]) -> list[Any]:
        if values[0] not in state:
            return state
        place = len(state) - 1 - state[::-1].index(values[0])
        return [*state[:place], *state[place + 1 :]]

    return Aggregator(
        list, lambda state, values: [*state, values[0]][:most], list,
        lambda one, two: [*one, *two][:most], ArrayType(kinds[0]), undo,
    )  # fmt: skip


@aggregate("COLLECT_SET", "T -> ARRAY<T>")
def _collect_set(kinds: Sequence[SqlType], constants: Sequence[Any]) -> Aggregator:
    """Returns each value once, in the order in which they came; 1,000 at most, or as many as
    ksql.functions.collect_set.limit says."""
    most = _most(constants)

    def merge(one: list[Any], two: list[Any]) -> list[Any]:
        return [*one, *(value for value in two if value not in one)][:most]

    return Aggregator(
        list, lambda state, values: merge(state, [values[0]]), list, merge, ArrayType(kinds[0])
    )


@aggregate("COUNT_DISTINCT", "T -> BIGINT")
def _count_distinct(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Counts different values, exactly; nulls are left out. The state has each of them."""

    def add(state: list[Any], values: tuple[Any, ...]) -> list[Any]:
        known = {hashable(value) for value in state}
        is_new = values[0] is not None and hashable(values[0]) not in known
        return [*state, values[0]] if is_new else state

    def merge(one: list[Any], two: list[Any]) -> list[Any]:
        return list({hashable(value): value for value in [*one, *two]}.values())

    return Aggregator(list, add, len, merge, _BIGINT)


@aggregate("HISTOGRAM", "STRING -> MAP<STRING, BIGINT>")
def _histogram(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Returns how often each text occurs; 1,000 different ones at most."""

    def changed(state: dict[str, int], values: tuple[Any, ...], by: int) -> dict[str, int]:
        value = values[0]
        if value is None or (value not in state and len(state) >= _MOST):
            return state
        count = state.get(value, 0) + by
        if count > 0:
            return {**state, value: count}
        return {key: number for key, number in state.items() if key != value}

    def merge(one: dict[str, int], two: dict[str, int]) -> dict[str, int]:
        merged = dict(one)
        for value, count in two.items():
            if value in merged or len(merged) < _MOST:
                merged[value] = merged.get(value, 0) + count
        return merged

    return Aggregator(
        dict, lambda state, values: changed(state, values, 1), dict, merge,
        signature("-> MAP<STRING, BIGINT>").result,
        lambda state, values: changed(state, values, -1),
    )  # fmt: skip


@aggregate("SUM_LIST", "ARRAY<INTEGER> -> INTEGER", "ARRAY<BIGINT> -> BIGINT",
            "ARRAY<DOUBLE> -> DOUBLE")  # fmt: skip
def _sum_list(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Adds up the numbers in arrays; nulls are left out."""
    element = kinds[0].element if isinstance(kinds[0], ArrayType) else kinds[0]
    inner = _sum([element], ())
    assert inner.undo is not None
    undo_one = inner.undo

    def all_of(state: Any, values: tuple[Any, ...], step: Callable[[Any, Any], Any]) -> Any:
        for value in values[0] or ():
            state = step(state, (value,))
        return state

    return Aggregator(
        inner.initial, lambda state, values: all_of(state, values, inner.add), inner.result,
        inner.merge, inner.returns, lambda state, values: all_of(state, values, undo_one),
    )  # fmt: skip


def _by_offset(is_latest: bool) -> Binder:
    def bind(kinds: Sequence[SqlType], constants: Sequence[Any]) -> Aggregator:
        numbers = [value for value in constants if not isinstance(value, bool)]
        flags = [value for value in constants if isinstance(value, bool)]
        ignores_nulls = flags[0] if flags else True
        limit = numbers[0] if numbers else 1
        if limit < 1:
            raise ValueError(f"the number of values is 1 at least, not {limit}")

        def kept(values: list[Any]) -> list[Any]:
            return values[-limit:] if is_latest else values[:limit]

        def add(state: list[Any], values: tuple[Any, ...]) -> list[Any]:
            if values[0] is None and ignores_nulls:
                return state
            return kept([*state, values[0]])

        def result(state: list[Any]) -> Any:
            if numbers:
                return list(state)
            return state[0] if state else None

        kind = ArrayType(kinds[0]) if numbers else kinds[0]
        # When sessions are merged, the one that is given first is the earlier one.
        return Aggregator(list, add, result, lambda one, two: kept([*one, *two]), kind)

    return bind


_OFFSET_SIGNATURES: Final = (
    "T -> T", "T, BOOLEAN -> T", "T, INTEGER -> ARRAY<T>", "T, INTEGER, BOOLEAN -> ARRAY<T>",
)  # fmt: skip
_latest, _earliest = _by_offset(is_latest=True), _by_offset(is_latest=False)
_latest.__doc__ = (
    "Returns the latest value, or an array of the latest n. Nulls are left out, unless a last"
    " argument is false."
)
_earliest.__doc__ = (
    "Returns the earliest value, or an array of the earliest n. Nulls are left out, unless a last"
    " argument is false."
)
aggregate("LATEST_BY_OFFSET", *_OFFSET_SIGNATURES, constants=2)(_latest)
aggregate("EARLIEST_BY_OFFSET", *_OFFSET_SIGNATURES, constants=2)(_earliest)


def _top(is_distinct: bool) -> Binder:
    def bind(kinds: Sequence[SqlType], constants: Sequence[Any]) -> Aggregator:
        (limit,) = constants
        if limit < 1:
            raise ValueError(f"the number of values is 1 at least, not {limit}")
        is_struct = len(kinds) > 1

        def kept(rows: list[Any]) -> list[Any]:
            found: list[Any] = []
            for row in rows:
                if is_distinct and row in found:
                    continue
                insort(found, row, key=lambda one: _Descending(one[0]))
            return found[:limit]

        def add(state: list[Any], values: tuple[Any, ...]) -> list[Any]:
            return state if values[0] is None else kept([*state, list(values)])

        def result(state: list[Any]) -> list[Any]:
            if not is_struct:
                return [row[0] for row in state]
            names = ("sort_col", *(f"col{index}" for index in range(len(kinds) - 1)))
            return [dict(zip(names, row, strict=True)) for row in state]

        kind: SqlType = kinds[0]
        if is_struct:
            fields = [("sort_col", kinds[0])]
            fields += [(f"col{place}", other) for place, other in enumerate(kinds[1:])]
            kind = StructType(tuple(fields))
        return Aggregator(list, add, result, lambda one, two: kept([*one, *two]), ArrayType(kind))

    return bind


class _Descending:
    """Orders values from the largest to the smallest."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.value < self.value)


_topk, _topkdistinct = _top(is_distinct=False), _top(is_distinct=True)
_topk.__doc__ = (
    "Returns the k largest values. With other columns between, structs of sort_col, col0, col1..."
)
_topkdistinct.__doc__ = "Returns the k largest values, each once."
aggregate(
    "TOPK", *(f"{kind}, INTEGER -> ARRAY<{kind}>" for kind in _ORDERED),
    *(f"{kind}, ANY... -> ARRAY<STRUCT>" for kind in _ORDERED), constants=1,
)(_topk)  # fmt: skip
aggregate(
    "TOPKDISTINCT", *(f"{kind}, INTEGER -> ARRAY<{kind}>" for kind in _ORDERED), constants=1
)(_topkdistinct)  # fmt: skip


@aggregate("ATTR", "T -> T")
def _attr(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
    """Returns the value that all rows have, or null if they differ."""

    def changed(state: list[Any], values: tuple[Any, ...], by: int) -> list[Any]:
        rest = []
        is_found = False
        for value, count in state:
            if value == values[0]:
                is_found = True
                rest += [[value, count + by]] if count + by else []
            else:
                rest.append([value, count])
        return rest if is_found or by < 0 else [*rest, [values[0], 1]]

    def merge(one: list[Any], two: list[Any]) -> list[Any]:
        for value, count in two:
            for _ in range(count):
                one = changed(one, (value,), 1)
        return one

    return Aggregator(
        list, lambda state, values: changed(state, values, 1),
        lambda state: state[0][0] if len(state) == 1 else None, merge, kinds[0],
        lambda state, values: changed(state, values, -1),
    )  # fmt: skip
