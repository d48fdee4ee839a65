"""Functions of arrays and maps, and those that take a function as an argument."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

from odradek.sql.functions.declaring import Subject
from odradek.streams.formats.columns import text_of
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.types import STRING, ArrayType, SqlType, StructType

SUBJECT: Final = Subject("Arrays and maps")
INVOKING: Final = Subject("Functions with lambdas")
scalar = SUBJECT.scalar
_MAX_SERIES: Final = 1_000_000


def _distinct(values: list[Any]) -> list[Any]:
    """Returns each value once, where it comes first. Values may be arrays and maps."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(hashable(value), value)
    return list(found.values())


@scalar("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>", nulls=True)
def array_concat(one: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    """Joins two arrays."""
    if one is None and other is None:
        return None
    return [*(one or ()), *(other or ())]


@scalar("ARRAY_CONTAINS", "ARRAY<T>, T -> BOOLEAN", nulls=True)
def array_contains(values: list[Any] | None, wanted: Any) -> bool:
    """Returns whether a value is in an array."""
    return values is not None and wanted in values


@scalar("ARRAY_DISTINCT", "ARRAY<T> -> ARRAY<T>")
def array_distinct(values: list[Any]) -> list[Any]:
    """Returns each value of an array once."""
    return _distinct(values)


@scalar("ARRAY_EXCEPT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_except(values: list[Any], others: list[Any]) -> list[Any]:
    """Returns each value of the first array that is not in the second, once."""
    return [value for value in _distinct(values) if value not in others]


@scalar("ARRAY_INTERSECT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_intersect(values: list[Any], others: list[Any]) -> list[Any]:
    """Returns each value that is in both arrays, once."""
    return [value for value in _distinct(values) if value in others]


@scalar("ARRAY_UNION", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_union(values: list[Any], others: list[Any]) -> list[Any]:
    """Returns each value that is in one of two arrays, once."""
    return _distinct([*values, *others])


@scalar("ARRAY_JOIN", "ARRAY<T> -> STRING", "ARRAY<T>, STRING -> STRING", nulls=True)
def array_join(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
    """Writes the values of an array as one text, with commas or a delimiter between."""
    if values is None:
        return None
    if any(isinstance(value, list | dict) for value in values):
        raise TypeError("ARRAY_JOIN joins primitive values alone")
    texts = ("null" if value is None else text_of(value, STRING) for value in values)
    return (delimiter or "").join(texts)


@scalar("ARRAY_LENGTH", "ARRAY<T> -> INTEGER")
def array_length(values: list[Any]) -> int:
    """Returns how many values an array has."""
    return len(values)


@scalar("ARRAY_MAX", "ARRAY<T> -> T")
def array_max(values: list[Any]) -> Any:
    """Returns the largest value of an array that is not null."""
    return max((value for value in values if value is not None), default=None)


@scalar("ARRAY_MIN", "ARRAY<T> -> T")
def array_min(values: list[Any]) -> Any:
    """Returns the smallest value of an array that is not null."""
    return min((value for value in values if value is not None), default=None)


@scalar("ARRAY_REMOVE", "ARRAY<T>, T -> ARRAY<T>", nulls=True)
def array_remove(values: list[Any] | None, unwanted: Any) -> list[Any] | None:
    """Returns an array without a value."""
    return None if values is None else [value for value in values if value != unwanted]


@scalar("ARRAY_SORT", "ARRAY<T> -> ARRAY<T>", "ARRAY<T>, STRING -> ARRAY<T>")
def array_sort(values: list[Any], order: str = "ASC") -> list[Any] | None:
    """Sorts an array, ASC or DESC; nulls are last."""
    if order.upper() not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    known = [value for value in values if value is not None]
    known.sort(reverse=order.upper().startswith("DESC"))
    return [*known, *([None] * (len(values) - len(known)))]


@scalar("AS_MAP", "ARRAY<STRING>, ARRAY<V> -> MAP<STRING, V>")
def as_map(keys: list[str], values: list[Any]) -> dict[str, Any]:
    """Makes a map of an array of keys and one of values."""
    return dict(zip_longest(keys, values[: len(keys)]))


def _entry_type(kinds: Any) -> SqlType:
    value = getattr(kinds[0], "value", STRING)
    return ArrayType(StructType((("K", STRING), ("V", value))))


@scalar("ENTRIES", "MAP<STRING, V>, BOOLEAN -> ARRAY<STRUCT>", returns=_entry_type)
def entries(given: dict[str, Any], is_sorted: bool) -> list[dict[str, Any]]:
    """Returns the entries of a map as structs of K and V, sorted by key if the second argument is
    true."""
    keys = sorted(given) if is_sorted else list(given)
    return [{"K": key, "V": given[key]} for key in keys]


@scalar("GENERATE_SERIES", "INTEGER, INTEGER -> ARRAY<INTEGER>",
        "INTEGER, INTEGER, INTEGER -> ARRAY<INTEGER>", "BIGINT, BIGINT -> ARRAY<BIGINT>",
        "BIGINT, BIGINT, INTEGER -> ARRAY<BIGINT>")  # fmt: skip
def generate_series(first: int, last: int, step: int | None = None) -> list[int]:
    """Returns the numbers from one to another, both included."""
    if step is None:
        step = 1 if first <= last else -1
    if step == 0 or (last - first) * step < 0:
        raise ValueError(f"a step of {step} does not lead from {first} to {last}")
    if (last - first) // step > _MAX_SERIES:
        raise ValueError(f"a series has {_MAX_SERIES:,} numbers at most")
    return list(range(first, last + (1 if step > 0 else -1), step))


@scalar("MAP_KEYS", "MAP<K, V> -> ARRAY<K>")
def map_keys(given: dict[Any, Any]) -> list[Any]:
    """Returns the keys of a map."""
    return list(given)


@scalar("MAP_VALUES", "MAP<K, V> -> ARRAY<V>")
def map_values(given: dict[Any, Any]) -> list[Any]:
    """Returns the values of a map."""
    return list(given.values())


@scalar("MAP_UNION", "MAP<K, V>, MAP<K, V> -> MAP<K, V>", nulls=True)
def map_union(one: dict[Any, Any] | None, other: dict[Any, Any] | None) -> dict[Any, Any] | None:
    """Returns the entries of two maps; the second wins."""
    if one is None and other is None:
        return None
    return {**(one or {}), **(other or {})}


@scalar("SLICE", "ARRAY<T>, INTEGER, INTEGER -> ARRAY<T>", nulls=True)
def slice_(values: list[Any] | None, first: int | None, last: int | None) -> list[Any] | None:
    """Returns the values of an array from one place to another; both count from 1."""
    if values is None:
        return None
    start = 0 if first is None else first - 1
    end = len(values) if last is None else last
    return values[start:end] if 0 <= start <= end <= len(values) else None


@INVOKING.scalar("FILTER", "ARRAY<T>, (T) => BOOLEAN -> ARRAY<T>")
def filter_array(values: list[Any], keeps: Callable[..., Any]) -> list[Any]:
    """Returns the values, or entries of a map, for which a function is true."""
    return [value for value in values if _is_true(keeps(value))]


def _is_true(value: Any) -> bool:
    if value is None:
        raise ValueError("a condition in FILTER is null")
    return bool(value)


@INVOKING.scalar("FILTER", "MAP<K, V>, (K, V) => BOOLEAN -> MAP<K, V>")
def filter_map(given: dict[Any, Any], keeps: Callable[..., Any]) -> dict[Any, Any]:
    kept = [(key, value) for key, value in given.items() if _is_true(keeps(key, value))]
    return _map_of(kept)


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Returns a map. Raises for a null or for a key that comes twice, as in ksqlDB."""
    made = dict(pairs)
    if len(made) < len(pairs) or None in [value for _, value in pairs]:
        raise ValueError("a map is made of different keys, and of values that are not null")
    return made


@INVOKING.scalar("REDUCE", "ARRAY<T>, S, (S, T) => S -> S", nulls=True)
def reduce_array(values: list[Any] | None, state: Any, step: Callable[..., Any]) -> Any:
    """Combines the values of an array, or entries of a map, with a state that is given first."""
    if state is None or values is None:
        return state
    for value in values:
        state = step(state, value)
    return state


@INVOKING.scalar("REDUCE", "MAP<K, V>, S, (S, K, V) => S -> S", nulls=True)
def reduce_map(given: dict[Any, Any] | None, state: Any, step: Callable[..., Any]) -> Any:
    if state is None or given is None:
        return state
    for key, value in given.items():
        state = step(state, key, value)
    return state


@INVOKING.scalar("TRANSFORM", "ARRAY<T>, (T) => R -> ARRAY<R>")
def transform_array(values: list[Any], change: Callable[..., Any]) -> list[Any]:
    """Changes each value of an array by a function, or the keys and values of a map by two."""
    return [change(value) for value in values]


@INVOKING.scalar("TRANSFORM", "MAP<K, V>, (K, V) => R, (K, V) => S -> MAP<R, S>")
def transform_map(
    given: dict[Any, Any], change_key: Callable[..., Any], change_value: Callable[..., Any]
) -> dict[Any, Any]:
    return _map_of(
        [(change_key(key, value), change_value(key, value)) for key, value in given.items()]
    )
