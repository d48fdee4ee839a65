"""The signature of a Python function, from its annotations.

    bool BOOLEAN, int BIGINT, float DOUBLE, str STRING, bytes BYTES, Decimal DECIMAL (a parameter),
    date DATE, time TIME, datetime TIMESTAMP (in UTC), list[T] ARRAY<T>, dict[str, T] MAP<STRING, T>

SQL has times as numbers; a function that is annotated gets and returns those of `datetime`.
"""

import inspect
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES: Final[dict[Any, str]] = {
    bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING", bytes: "BYTES",
    Decimal: "DECIMAL", date: "DATE", time: "TIME", datetime: "TIMESTAMP",
}  # fmt: skip
_READ: Final[dict[Any, Callable[[int], Any]]] = {
    date: lambda days: _EPOCH.date() + timedelta(days=days),
    time: lambda ms: (_EPOCH + timedelta(milliseconds=ms)).time(),
    datetime: lambda ms: _EPOCH + timedelta(milliseconds=ms),
}
_WRITE: Final[dict[Any, Callable[[Any], int]]] = {
    date: lambda day: (day - _EPOCH.date()).days,
    time: lambda one: (datetime.combine(_EPOCH.date(), one, UTC) - _EPOCH) // timedelta(
        milliseconds=1
    ),
    datetime: lambda one: (one.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1),
}  # fmt: skip


class BadAnnotation(Exception):
    """The annotations do not say the types of SQL."""


@dataclass(frozen=True)
class Conversion:
    """Values of SQL as those that a function gets, and back."""

    reads: tuple[Callable[[int], Any] | None, ...] = ()
    write: Callable[[Any], int] | None = None
    takes_nulls: bool = False

    def arguments(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not any(self.reads):
            return values
        last = self.reads[-1]
        reads = (*self.reads, *(last for _ in values[len(self.reads) :]))
        return tuple(
            value if read is None or value is None else read(value)
            for value, read in zip(values, reads, strict=False)
        )

    def result(self, value: Any) -> Any:
        return value if value is None or self.write is None else self.write(value)


def signature_of(given: Callable[..., Any], *, is_table: bool) -> tuple[str, Conversion]:
    """Returns the signature of a function as a text, and what converts its values."""
    try:
        hints = typing.get_type_hints(given)
    except (NameError, TypeError) as error:
        raise BadAnnotation(f"the annotations cannot be read: {error}") from None
    names, reads, takes_nulls = [], [], False
    for parameter in inspect.signature(given).parameters.values():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise BadAnnotation(f"{parameter.name} cannot be given in SQL")
        if parameter.name not in hints:
            raise BadAnnotation(f"the type of {parameter.name} is not annotated")
        kind, may_be_null = _without_none(hints[parameter.name])
        takes_nulls = takes_nulls or may_be_null
        dots = "..." if parameter.kind is parameter.VAR_POSITIONAL else ""
        names.append(_name(kind) + dots)
        reads.append(_READ.get(kind))
    if "return" not in hints:
        raise BadAnnotation("the type of the result is not annotated")
    result, _ = _without_none(hints["return"])
    if is_table:
        result = _element(result)
    if result is Decimal:
        raise BadAnnotation("a result that is a Decimal needs its digits, as DECIMAL(10, 2)")
    conversion = Conversion(tuple(reads), _WRITE.get(result), takes_nulls)
    return f"{', '.join(names)} -> {_name(result)}", conversion


def _without_none(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        others = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        if len(others) == 1:
            return others[0], True
    return kind, False


def _element(kind: Any) -> Any:
    if typing.get_origin(kind) in (Iterator, Iterable, Generator, list):
        return _without_none(typing.get_args(kind)[0])[0]
    raise BadAnnotation("a table function returns Iterator[...]")


def _name(kind: Any) -> str:
    if kind in _NAMES:
        return _NAMES[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and len(parts) == 1:
        return f"ARRAY<{_name(parts[0])}>"
    if origin is dict and len(parts) == 2 and parts[0] is str:
        return f"MAP<STRING, {_name(parts[1])}>"
    raise BadAnnotation(f"{getattr(kind, '__name__', kind)} is not a type of SQL")
