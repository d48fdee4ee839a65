"""Columns whose values are hidden or shortened on their way: `column.mask.*`, `column.truncate.*`.

    column.truncate.to.20.chars=shop.customers.note
    column.mask.with.8.chars=shop.customers.phone,.*\\.secret
    column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K=shop.customers.email

Debezium's names, rules and results. Each lists patterns of whole columns, as TABLE.COLUMN after
the schema or database. Where several fit a column, a length wins over a mask, and a mask over a
hash. Masks and hashes change texts and enums; a length shortens everything that is text or bytes.
Keys keep their values, because consumers find rows by them.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.connect.connectors.cdc.filters import NameFilter
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import Problems, invalid

PREFIXES: Final = ("column.mask.", "column.truncate.")
_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.([1-9]\d*)\.chars")
_MASK: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash(\.v2)?\.([^.]+)\.with\.salt\.(.+)")
_ONE_OF: Final = (
    "such settings are column.truncate.to.N.chars, column.mask.with.N.chars,"
    " column.mask.hash.v2.ALGORITHM.with.salt.SALT and column.mask.hash.ALGORITHM.with.salt.SALT"
)
# What Java writes before a text when it writes it as an object: a short one, and a long one.
_JAVA_TEXT: Final = b"\xac\xed\x00\x05t"
_JAVA_LONG_TEXT: Final = b"\xac\xed\x00\x05|"
_LONGEST_SHORT: Final = 0xFFFF

Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Mask:
    """What is done with the values of a column. `parameter` is added to its schema. `instead` takes
    the place of every value, null too."""

    parameter: tuple[str, str]
    length: int | None = None
    instead: str | None = None
    hashed: Callable[[str], str] | None = None

    def schema(self, schema: Schema) -> Schema:
        return replace(schema, parameters={**schema.parameters, **dict([self.parameter])})

    def changes(self, schema: Schema, *, is_text: bool) -> bool:
        """Whether values of this schema are changed; `is_text` if the database calls them text."""
        return is_text if self.length is None else schema.type in {Type.STRING, Type.BYTES}

    def change(self, declared_length: int | None) -> Change:
        """Returns what makes the values that are written. Hashes are as long as a text that was
        declared with a length may be."""
        if self.length is not None:
            return lambda value: value[: self.length] if isinstance(value, str | bytes) else value
        hashed = self.hashed
        if hashed is None:
            return lambda _: self.instead
        return lambda value: hashed(value)[:declared_length] if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class ColumnMasks:
    rules: tuple[tuple[NameFilter, Mask], ...] = ()

    def of(self, column: str) -> Mask | None:
        """Returns what is done with a column, by its full name."""
        return next((mask for names, mask in self.rules if names.selects(column)), None)


def read_masks(properties: Mapping[str, str | None]) -> tuple[ColumnMasks, Problems]:
    """Returns the rules of a connector's properties, and what is wrong with them."""
    found: list[tuple[int, str, NameFilter, Mask]] = []
    problems: Problems = {}
    for name, text in properties.items():
        if not name.startswith(PREFIXES) or not text:
            continue
        try:
            order, mask = _mask(name)
            found.append((order, name, NameFilter(text, None), mask))
        except InvalidConfig as error:
            problems[name] = [invalid(name, text, str(error))]
    found.sort(key=lambda rule: rule[:2])
    return ColumnMasks(tuple((names, mask) for _, _, names, mask in found)), problems


def _mask(name: str) -> tuple[int, Mask]:
    if (shortened := _TRUNCATE.fullmatch(name)) is not None:
        return 0, Mask(("truncateLength", shortened[1]), length=int(shortened[1]))
    masked = ("masked", "true")
    if (hidden := _MASK.fullmatch(name)) is not None:
        return 1, Mask(masked, instead="*" * int(hidden[1]))
    if (salted := _HASH.fullmatch(name)) is not None:
        is_plain = salted[1] is not None
        return (3 if is_plain else 2), Mask(
            masked, hashed=_hashing(salted[2], salted[3], is_plain=is_plain)
        )
    raise InvalidConfig(_ONE_OF)


def _as_java_writes(text: str) -> bytes:
    """Returns a text as Java writes it in objects: letters beyond the first plane are two of three
    bytes each, and the letter 0 is two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(units[at] << 8 | units[at + 1]) for at in range(0, len(units), 2))
    return halves.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


def _hashing(algorithm: str, salt: str, *, is_plain: bool) -> Callable[[str], str]:
    """Version 1 of Debezium's hashes is of the text as Java writes it as an object."""
    name = re.sub(r"^sha-", "sha", algorithm.lower()).replace("-", "_").replace("/", "_")
    if name not in hashlib.algorithms_available or name.startswith("shake"):
        raise InvalidConfig(f"{algorithm} is not a hash that is known here; SHA-256 is one")
    begin = salt.encode()

    def hashed(text: str) -> str:
        data = text.encode() if is_plain else _as_java_writes(text)
        if not is_plain:
            is_short = len(data) <= _LONGEST_SHORT
            head = _JAVA_TEXT if is_short else _JAVA_LONG_TEXT
            data = head + len(data).to_bytes(2 if is_short else 8, "big") + data
        return hashlib.new(name, begin + data).hexdigest()

    return hashed
