"""The texts of PostgreSQL's types that hold other values: arrays and hstore."""

import re
from typing import Any, Final

from odradek.connect.errors import DataError

_BOUNDS: Final = re.compile(r"(\[-?\d+:-?\d+\])+=")
_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def elements(text: str, delimiter: str = ",") -> list[Any]:
    """Returns the elements of an array: texts, None, and lists for the dimensions inside."""
    match = _BOUNDS.match(text)
    at = match.end() if match else 0
    if text[at : at + 1] != "{" or not text.endswith("}"):
        raise DataError(f"{text[:50]!r} is not an array")
    if '"' not in text and "{" not in text[at + 1 :]:
        # Most arrays: numbers and plain words.
        inner = text[at + 1 : -1]
        return (
            [None if part == "NULL" else part for part in inner.split(delimiter)] if inner else []
        )
    found, end = _array(text, at, delimiter)
    if end != len(text):
        raise DataError(f"{text[:50]!r} is not an array")
    return found


def _array(text: str, at: int, delimiter: str) -> tuple[list[Any], int]:
    """Reads the array that begins here, and returns where it ends."""
    found: list[Any] = []
    at += 1
    while True:
        letter = text[at : at + 1]
        if letter == "}":
            return found, at + 1
        if letter == delimiter:
            at += 1
        elif letter == "{":
            inner, at = _array(text, at, delimiter)
            found.append(inner)
        elif letter == '"':
            end = _end_of_quoted(text, at + 1)
            found.append(_ESCAPED.sub(r"\1", text[at + 1 : end]))
            at = end + 1
        elif letter:
            end = at
            while text[end : end + 1] not in (delimiter, "}", ""):
                end += 1
            plain = text[at:end]
            found.append(None if plain == "NULL" else plain)
            at = end
        else:
            raise DataError(f"{text[:50]!r} is not an array")


def _end_of_quoted(text: str, at: int) -> int:
    while text[at : at + 1] != '"':
        at += 2 if text[at : at + 1] == "\\" else 1
        if at >= len(text):
            raise DataError(f"{text[:50]!r} is not an array")
    return at


def pairs(text: str) -> dict[str, str | None]:
    """Returns the keys and values of an hstore."""
    return {
        _ESCAPED.sub(r"\1", match[1]): None if match[2] is None else _ESCAPED.sub(r"\1", match[2])
        for match in _PAIR.finditer(text)
    }
