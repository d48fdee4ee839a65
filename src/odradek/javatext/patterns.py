"""Regular expressions and replacements in the syntax of Java, with the engine of Python.

What is written differently is translated: named groups and possessive quantifiers have the same
form from Python 3.11 on, `\\p{Alpha}` and its kin become classes of characters, and `$1` in a
replacement is a group.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
}
_CLASS: Final = re.compile(r"\\(p|P)\{(\w+)\}")
_NAMED: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_NAMED_REFERENCE: Final = re.compile(r"\\k<(\w+)>")
_PIECE: Final = re.compile(r"\\(.)|\$\{(\w+)\}|\$(\d)(\d*)|([^\\$]+)|(.)", re.DOTALL)


class BadPattern(ValueError):
    """It is not a pattern, or one with syntax that Python cannot match."""


def translated(text: str) -> str:
    """Returns a pattern with Java's named groups and classes as others write them. Raises
    `BadPattern` for a class that is not known."""

    def character_class(match: "re.Match[str]") -> str:
        inside = _CLASSES.get(match[2])
        if inside is None:
            raise BadPattern(f"\\{match[1]}{{{match[2]}}} is not supported in patterns")
        return f"[{'^' if match[1] == 'P' else ''}{inside}]"

    named = _NAMED_REFERENCE.sub(r"(?P=\1)", _NAMED.sub("(?P<", text))
    return _CLASS.sub(character_class, named)


def java_pattern(text: str) -> "re.Pattern[str]":
    """Compiles a pattern. Raises `BadPattern`."""
    try:
        return re.compile(translated(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"it is not a regular expression: {error}") from None


class _Groups(Protocol):
    """A compiled pattern of any engine."""

    @property
    def groups(self) -> int: ...
    @property
    def groupindex(self) -> Mapping[str, int]: ...


def java_replacement(text: str, pattern: _Groups) -> Callable[[Any], str]:
    """Returns what makes the new text of a match. Raises `BadPattern` for a group that the
    pattern does not have."""
    pieces: list[str | int] = []
    for escaped, name, digit, digits, plain, lone in _PIECE.findall(text):
        if plain or escaped:
            pieces.append(plain or escaped)
        elif name:
            if name not in pattern.groupindex:
                raise BadPattern(f"the pattern has no group named {name}")
            pieces.append(pattern.groupindex[name])
        elif digit:
            group, rest = int(digit), digits
            # Java takes as many digits as there are groups for.
            while rest and int(f"{group}{rest[0]}") <= pattern.groups:
                group, rest = int(f"{group}{rest[0]}"), rest[1:]
            if group > pattern.groups:
                raise BadPattern(f"the pattern has no group {group}")
            pieces += [group, rest]
        else:
            raise BadPattern(f"{lone} at the end of a replacement stands for nothing")

    def replaced(match: Any) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)

    return replaced
