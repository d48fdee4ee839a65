"""Table functions: they make several rows of one. A row for which they make none is left out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from odradek.sql.functions.declaring import Signature, signature


@dataclass(frozen=True)
class Tabular:
    name: str
    doc: str
    signatures: tuple[Signature, ...]
    call: Callable[..., Iterator[Any]]


def _explode(values: list[Any] | None) -> Iterator[Any]:
    yield from values or ()


def _cube(values: list[Any] | None) -> Iterator[Any]:
    """Yields all combinations in which each value is itself or null."""
    if values:
        choices = [(None,) if value is None else (None, value) for value in values]
        yield from map(list, product(*choices))


TABULAR: Final = {
    function.name: function
    for function in (
        Tabular(
            "EXPLODE", "Makes a row of each value of an array.",
            (signature("ARRAY<T> -> T"),), _explode,
        ),
        Tabular(
            "CUBE_EXPLODE",
            "Makes a row of each combination in which each value of an array is itself or null.",
            (signature("ARRAY<T> -> ARRAY<T>"),), _cube,
        ),
    )
}  # fmt: skip
