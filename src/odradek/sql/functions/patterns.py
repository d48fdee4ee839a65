"""Functions of regular expressions, in the syntax of Java.

A pattern may come from a row, and the server's event loop waits while it is matched. So patterns
are matched by RE2, whose time grows with the text alone. What RE2 does not have (lookaround,
references to groups, possessive quantifiers, intersections of classes) is matched by another
engine, which is stopped after a tenth of a second; such a pattern is refused from then on
(docs/decisions/0101-regular-expressions.md).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2
import regex

from odradek.javatext.patterns import BadPattern, java_replacement, translated
from odradek.sql.functions.strings import SUBJECT

__all__ = ["SUBJECT"]
scalar = SUBJECT.scalar
_TIMEOUT_S: Final = 0.1
_KEPT: Final = 200
_MEMORY: Final = 1 << 20
"""How many bytes RE2 may use for one pattern."""


class _Match(Protocol):
    def __getitem__(self, group: int) -> str | None: ...
    def start(self) -> int: ...
    def end(self) -> int: ...


class Pattern:
    """A compiled pattern. Methods raise `BadPattern` if it takes too long."""

    def __init__(self, text: str) -> None:
        java = translated(text)
        self._compiled = None if _is_foreign(text) else _re2(java)
        self._limits: dict[str, float] = {}
        if self._compiled is None:
            self._limits = {"timeout": _TIMEOUT_S}
            try:
                self._compiled = regex.compile(java, regex.V1)
            except (regex.error, OverflowError, RecursionError) as error:
                raise BadPattern(f"it is no regular expression: {error}") from None
        self._was_stopped = False
        self.groups = int(self._compiled.groups)
        self.groupindex = dict(self._compiled.groupindex)

    def first(self, text: str) -> _Match | None:
        return next(self.all(text), None)

    def all(self, text: str) -> Iterator[_Match]:
        if self._was_stopped:
            raise BadPattern("the pattern took too long before, and is not tried again")
        assert self._compiled is not None
        try:
            yield from self._compiled.finditer(text, **self._limits)
        except TimeoutError:
            self._was_stopped = True
            raise BadPattern(f"the pattern takes more than {_TIMEOUT_S} s") from None


def _is_foreign(text: str) -> bool:
    """Returns whether RE2 would take a pattern for another one."""
    return "&&" in text


def _re2(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


pattern = lru_cache(maxsize=_KEPT)(Pattern)


@scalar("REGEXP_EXTRACT", "STRING, STRING -> STRING", "STRING, STRING, INTEGER -> STRING")
def regexp_extract(expression: str, value: str, group: int = 0) -> str | None:
    """Returns what a regular expression matches first, or a group of it."""
    compiled = pattern(expression)
    if not 0 <= group <= compiled.groups:
        return None
    match = compiled.first(value)
    return None if match is None else match[group]


@scalar("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>",
        "STRING, STRING, INTEGER -> ARRAY<STRING>")  # fmt: skip
def regexp_extract_all(expression: str, value: str, group: int = 0) -> list[str | None] | None:
    """Returns everything that a regular expression matches, or a group of each."""
    compiled = pattern(expression)
    if not 0 <= group <= compiled.groups:
        return None
    return [match[group] for match in compiled.all(value)]


@scalar("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def regexp_replace(value: str, expression: str, new: str) -> str:
    """Replaces all that a regular expression matches; $1 in the new text is a group."""
    compiled = pattern(expression)
    replaced = java_replacement(new, compiled)
    pieces, end = [], 0
    for match in compiled.all(value):
        pieces += [value[end : match.start()], replaced(match)]
        end = match.end()
    return "".join([*pieces, value[end:]])


@scalar("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def regexp_split_to_array(value: str, expression: str) -> list[str]:
    """Splits a text where a regular expression matches; where it may match nothing, between
    characters, without empty texts at the end."""
    compiled = pattern(expression)
    matches_nothing = any(match.end() == 0 for match in compiled.all(""))
    pieces, end = [], 0
    for match in compiled.all(value):
        if matches_nothing and match.end() == 0:
            continue
        pieces.append(value[end : match.start()])
        end = match.end()
    pieces.append(value[end:])
    if matches_nothing:
        while len(pieces) > 1 and not pieces[-1]:
            pieces.pop()
    return pieces
