"""Functions of your own in SQL: `@udf`, `@udaf` and `@udtf`, in files of the operator's directory.

    from odradek.sql import udaf, udf, udtf

    @udf
    def initials(name: str) -> str:
        \"\"\"Returns the first letters of the words of a name.\"\"\"
        return "".join(word[0] for word in name.split())

The decorators note what is said and return what they were given, so that functions can be tested as
they are. `odradek.sql.functions.loading` makes functions of SQL of them, when a server starts.
docs/sql-functions.md is the guide.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

ATTRIBUTE: Final = "__odradek_sql__"
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Declaration:
    """What a decorator says. Without signatures they follow from the annotations."""

    kind: str
    """SCALAR, AGGREGATE or TABLE."""
    name: str | None
    signatures: tuple[str, ...]
    takes_nulls: bool | None = None
    is_deterministic: bool = True


@overload
def udf(given: F, /) -> F: ...
@overload
def udf(
    *signatures: str, name: str | None = None, nulls: bool | None = None, deterministic: bool = True
) -> Callable[[F], F]: ...
def udf(
    *given: Any, name: str | None = None, nulls: bool | None = None, deterministic: bool = True
) -> Any:
    """Declares a scalar function, which makes a value of values.

    `signatures` are texts like "BIGINT, STRING... -> STRING"; without them the annotations say it.
    It is not called with a null, and is null then, unless `nulls` is true or a parameter is
    annotated as `... | None`.
    """
    if len(given) == 1 and callable(given[0]):
        return _declared(given[0], Declaration("SCALAR", None, ()))
    declaration = Declaration("SCALAR", name, given, nulls, deterministic)
    return lambda function: _declared(function, declaration)


def udtf(*given: Any, name: str | None = None) -> Any:
    """Declares a table function of one argument, which yields a value for each of its rows."""
    if len(given) == 1 and callable(given[0]):
        return _declared(given[0], Declaration("TABLE", None, ()))
    declaration = Declaration("TABLE", name, given)
    return lambda function: _declared(function, declaration)


def udaf(*signatures: str, name: str | None = None) -> Callable[[C], C]:
    """Declares an aggregate function: a class with `initial()`, `add(state, *values)` and
    `merge(one, other)`, and, if they are needed, `result(state)` and `undo(state, *values)`.

    A state is made of numbers, texts, lists and dicts: it is written to a changelog. Methods return
    the new state. Aggregates over tables need `undo`.
    """
    declaration = Declaration("AGGREGATE", name, signatures)
    return lambda given: _declared(given, declaration)


def _declared(given: Any, declaration: Declaration) -> Any:
    setattr(given, ATTRIBUTE, declaration)
    return given
