"""The parts of an expression."""

from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A field, and fields within it: `a.b`."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """An element of an array, a map or a struct: `a[0]`, `a['b']`."""

    of: "Expression"
    key: "Expression"


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    of: "Expression"


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class IsNull:
    of: "Expression"


@dataclass(frozen=True, slots=True)
class In:
    of: "Expression"
    members: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The result of the first branch whose condition is true."""

    branches: tuple[tuple["Expression", "Expression"], ...]
    otherwise: "Expression"


@dataclass(frozen=True, slots=True)
class Cast:
    of: "Expression"
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Expression", ...]


Expression = Union[  # noqa: UP007 - it refers to itself
    Literal, Name, Index, Unary, Binary, IsNull, In, Case, Cast, Call
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `select`: an expression with its name, or all fields but some."""

    name: str
    of: Expression | None
    excluded: tuple[str, ...] = ()
