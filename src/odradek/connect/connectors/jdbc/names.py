"""Names of tables, and SQL text with places for values."""

import re
from typing import Final, NamedTuple

from odradek.connect.errors import DataError

PLACE: Final = "\0"
"""Stands for a value in SQL text, until a dialect writes it as its driver wants it."""


class TableId(NamedTuple):
    """The name of a table. MySQL calls the first part a catalog, PostgreSQL the second a schema."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.catalog, self.schema, self.name) if part)

    def __str__(self) -> str:
        return ".".join(self.parts)


def quoted(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def split_identifiers(text: str, quotes: str, separator: str) -> list[str]:
    """Splits at a separator outside quotes, and takes the quotes off. Raises `DataError`."""
    part = rf"([{quotes}])(?:(?!\1).|\1\1)*\1|[^{quotes}{re.escape(separator)}]+"
    found: list[str] = []
    position = 0
    pattern = re.compile(part)
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise DataError(f"{text!r} is not the name of a table: check its quotes and points")
        position = match.end()
        found.append(_unquoted(match.group().strip(), match[1]))
        if position < len(text):
            if text[position] != separator:
                raise DataError(f"{text!r} is not the name of a table: check its quotes and points")
            position += 1
    return found


def _unquoted(text: str, quote: str | None) -> str:
    return text if quote is None else text[1:-1].replace(quote * 2, quote)


def split_list(text: str, quotes: str) -> list[str]:
    """Splits a list at its commas, and leaves quotes as they are."""
    part = rf"(?:([{quotes}])(?:(?!\1).|\1\1)*\1|[^,{quotes}])+"
    return [match.group().strip() for match in re.finditer(part, text) if match.group().strip()]
