"""The columns that an expression can name. A row is a tuple; a column is a place in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Place
from odradek.streams.plan.types import BIGINT, INTEGER, Column, SqlType

ROWTIME: Final = "ROWTIME"
ROWPARTITION: Final = "ROWPARTITION"
ROWOFFSET: Final = "ROWOFFSET"
WINDOW_START: Final = "WINDOWSTART"
WINDOW_END: Final = "WINDOWEND"
SYSTEM: Final = (ROWTIME, ROWPARTITION, ROWOFFSET, WINDOW_START, WINDOW_END)
"""Columns that every stream or table has, or every windowed one; `*` does not mean them."""
SYSTEM_TYPES: Final[dict[str, SqlType]] = {
    ROWTIME: BIGINT, ROWPARTITION: INTEGER, ROWOFFSET: BIGINT,
    WINDOW_START: BIGINT, WINDOW_END: BIGINT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    source: str
    """The alias of the stream or table that it is from; empty for what a query computes."""
    name: str
    kind: SqlType
    index: int
    is_key: bool = False
    is_variable: bool = False
    """Whether it is a variable of a lambda, which hides columns of the same name."""

    @property
    def is_system(self) -> bool:
        return self.name in SYSTEM

    @property
    def column(self) -> Column:
        return Column(self.name, self.kind)


class Scope:
    def __init__(self, columns: Iterable[ScopeColumn], width: int | None = None) -> None:
        self.columns = tuple(columns)
        self.width = len(self.columns) if width is None else width
        self._by_name: dict[str, list[ScopeColumn]] = {}
        for column in self.columns:
            self._by_name.setdefault(column.name, []).append(column)

    @classmethod
    def of(cls, source: str, keys: Sequence[Column], others: Sequence[Column]) -> "Scope":
        """Returns the scope of one stream or table."""
        columns = [
            ScopeColumn(source, column.name, column.kind, index, is_key=index < len(keys))
            for index, column in enumerate((*keys, *others))
        ]
        return cls(columns)

    def __add__(self, other: "Scope") -> "Scope":
        """Returns the scope of rows that are joined: the other's columns follow these."""
        moved = (
            ScopeColumn(
                column.source, column.name, column.kind, column.index + self.width, column.is_key
            )
            for column in other.columns
        )
        return Scope((*self.columns, *moved), self.width + other.width)

    def with_variables(self, variables: Sequence[tuple[str, SqlType]]) -> "Scope":
        """Returns the scope within a lambda: its variables hide columns of the same name, unless
        these are written with their source."""
        added = [
            ScopeColumn("", name, kind, self.width + place, is_variable=True)
            for place, (name, kind) in enumerate(variables)
        ]
        return Scope((*self.columns, *added), self.width + len(variables))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.source for column in self.columns if column.source))

    def find(self, name: str, source: str | None, place: Place | None) -> ScopeColumn:
        """Returns a column. Raises `Invalid` if there is none, or more than one."""
        found = self._by_name.get(name, [])
        if source is not None:
            if source not in self.sources:
                near = did_you_mean(source, list(self.sources))
                raise Invalid(f"'{source}' is not a stream or table of this query{near}", place)
            found = [column for column in found if column.source == source]
        elif any(column.is_variable for column in found):
            # The innermost lambda comes last.
            found = found[-1:]
        if not found:
            names = [column.name for column in self.columns]
            shown = name if source is None else f"{source}.{name}"
            raise Invalid(f"Column '{shown}' cannot be resolved{did_you_mean(name, names)}", place)
        if len(found) > 1:
            choices = " or ".join(f"{column.source}.{column.name}" for column in found)
            raise Invalid(f"Column '{name}' is ambiguous: write {choices}", place)
        return found[0]

    def has(self, name: str) -> bool:
        """Returns whether there is a column of a name."""
        return name in self._by_name

    def is_clashing(self, name: str) -> bool:
        return len(self._by_name.get(name, [])) > 1
