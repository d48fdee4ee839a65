"""Which tables and columns are captured, and which columns are the key of a table.

Lists are of regular expressions in Java's syntax, which match whole names in any case:
`table.include.list=public.orders.*`. A comma in an expression is written `\\,`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.connect.errors import InvalidConfig
from odradek.connect.transforms.java_patterns import java_pattern

_COMMA: Final = re.compile(r"(?<!\\),")
_SEMICOLON: Final = re.compile(r"(?<!\\);")


def patterns(text: str | None) -> tuple["re.Pattern[str]", ...]:
    """Returns the expressions of a list. Raises `InvalidConfig`."""
    found = []
    for part in _COMMA.split(text or ""):
        if part.strip():
            compiled = java_pattern(part.strip().replace("\\,", ","))
            found.append(re.compile(compiled.pattern, re.IGNORECASE))
    return tuple(found)


class NameFilter:
    """What an include list and an exclude list select. Without either, everything."""

    def __init__(self, include: str | None, exclude: str | None) -> None:
        self._include = patterns(include)
        self._exclude = patterns(exclude)

    @property
    def selects_all(self) -> bool:
        return not self._include and not self._exclude

    def selects(self, name: str) -> bool:
        if self._include:
            return any(pattern.fullmatch(name) for pattern in self._include)
        return not any(pattern.fullmatch(name) for pattern in self._exclude)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Returns the names that are selected: in the order of the include list, then by name."""
        selected = sorted(name for name in names if self.selects(name))
        return sorted(selected, key=self._place)

    def _place(self, name: str) -> int:
        for place, pattern in enumerate(self._include):
            if pattern.fullmatch(name):
                return place
        return 0


class KeyColumns:
    """`message.key.columns`: keys of tables other than their primary keys, as in
    `public.orders:number,year;public.items:id`."""

    def __init__(self, text: str | None) -> None:
        """Raises `InvalidConfig`."""
        self._rules: list[tuple[re.Pattern[str], tuple[str, ...]]] = []
        for part in _SEMICOLON.split(text or ""):
            if not part.strip():
                continue
            table, colon, columns = part.strip().rpartition(":")
            named = tuple(column.strip() for column in columns.split(",") if column.strip())
            if not colon or not table or not named:
                raise InvalidConfig(f"{part.strip()!r} is not like table:column,column")
            compiled = java_pattern(table)
            self._rules.append((re.compile(compiled.pattern, re.IGNORECASE), named))

    def of(self, table: str, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the key of a table, or None if there is no rule for it. `table` is the full name.
        Raises `InvalidConfig` if the table lacks a column."""
        for pattern, named in self._rules:
            if pattern.fullmatch(table):
                for column in named:
                    if column not in columns:
                        raise InvalidConfig(
                            f"message.key.columns names {column}, which {table} does not have"
                        )
                return named
        return None
