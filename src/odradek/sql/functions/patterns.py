"""SQL functions of regular expressions, in the syntax of Java.

A pattern may come from a row, and the server's event loop waits while it is matched. So patterns
are matched by RE2, whose time is linear in the length of the text. Patterns that RE2 does not
support (lookaround, backreferences, possessive quantifiers, intersections of classes) are matched
by the package `regex` with a timeout. A pattern that has timed out is refused from then on
(docs/decisions/0101-regular-expressions.md).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2
import regex

from odradek.javatext.patterns import BadPattern, java_replacement
from odradek.sql.functions.java_regex import JavaRegex
from odradek.sql.functions.strings import SUBJECT

__all__ = ["SUBJECT"]
scalar = SUBJECT.scalar
_TIMEOUT_S: Final = 0.1
_MAX_CACHED: Final = 200
_MAX_MEMORY_BYTES: Final = 1 << 20
"""How much memory RE2 may use for one pattern."""


class _Match(Protocol):
    def __getitem__(self, group: int) -> str | None: ...
    def start(self) -> int: ...
    def end(self) -> int: ...


class Pattern:
    """A compiled pattern. Its methods raise `BadPattern` if matching takes too long."""

    def __init__(self, text: str) -> None:
        java = JavaRegex(text)
        self._compiled = None if java.for_re2 is None else _re2(java.for_re2)
        self._limits: dict[str, float] = {}
        if self._compiled is None:
            self._limits = {"timeout": _TIMEOUT_S}
            try:
                self._compiled = regex.compile(java.for_regex, regex.V1)
            except (regex.error, OverflowError, RecursionError) as error:
                raise BadPattern(f"it is not a regular expression: {error}") from None
        self._was_stopped = False
        self.groups = int(self._compiled.groups)
        self.groupindex = dict(self._compiled.groupindex)

    def first(self, text: str) -> _Match | None:
        return next(self.all(text), None)

    def all(self, text: str) -> Iterator[_Match]:
        if self._was_stopped:
            raise BadPattern("the pattern took too long for an earlier row, so it is refused")
        assert self._compiled is not None
        try:
            last = None
            for match in self._compiled.finditer(text, **self._limits):
                # RE2 finds nothing at the end of the text twice.
                if match.span() != last:
                    yield match
                last = match.span()
        except TimeoutError:
            self._was_stopped = True
            raise BadPattern(f"the pattern takes more than {_TIMEOUT_S} s") from None


def _re2(text: str) -> Any:
    """Returns the pattern compiled by RE2, or None if RE2 does not support it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


pattern = lru_cache(maxsize=_MAX_CACHED)(Pattern)


@scalar("REGEXP_EXTRACT", "STRING, STRING -> STRING", "STRING, STRING, INTEGER -> STRING")
def regexp_extract(expression: str, value: str, group: int = 0) -> str | None:
    """Returns the first match of a regular expression in a string, or a group of this match."""
    compiled = pattern(expression)
    if not 0 <= group <= compiled.groups:
        return None
    match = compiled.first(value)
    return None if match is None else match[group]


@scalar("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>",
        "STRING, STRING, INTEGER -> ARRAY<STRING>")  # fmt: skip
def regexp_extract_all(expression: str, value: str, group: int = 0) -> list[str | None] | None:
    """Returns all matches of a regular expression in a string, or a group of each match."""
    compiled = pattern(expression)
    if not 0 <= group <= compiled.groups:
        return None
    return [match[group] for match in compiled.all(value)]


@scalar("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def regexp_replace(value: str, expression: str, new: str) -> str:
    """Replaces all matches of a regular expression in a string; $1 in the new text is a group."""
    compiled = pattern(expression)
    pieces, end = [], 0
    for match in compiled.all(value):
        # As in Java, the new text is looked at only when there is something to replace.
        pieces += [value[end : match.start()], java_replacement(new, compiled)(match)]
        end = match.end()
    return "".join([*pieces, value[end:]])


@scalar("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def regexp_split_to_array(value: str, expression: str) -> list[str]:
    """Splits a string at the matches of a regular expression. If the expression also matches the
    empty string, it splits between characters, and removes empty strings at the end."""
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
