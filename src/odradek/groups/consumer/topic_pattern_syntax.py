"""Parses regular expressions over topic names, in RE2's syntax (https://github.com/google/re2).

A topic name consists of 65 different characters. So a set of characters is an integer with a bit
for each of them, and an expression for any other character matches nothing. `topic_patterns`
compiles and matches the parsed expression.

Not supported, and refused: word boundaries (`\\b`, `\\B`) and Unicode scripts other than Latin.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from odradek.wording import counted

_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
BIT_OF: Final = {character: 1 << at for at, character in enumerate(_NAME_CHARACTERS)}
_ANY: Final = (1 << len(_NAME_CHARACTERS)) - 1

_MAX_REPETITIONS: Final = 1_000
_MAX_NESTING: Final = 100


class InvalidPattern(ValueError):
    """The message says what is wrong with the expression."""


def _set_of(characters: Iterable[str]) -> int:
    bits = 0
    for character in characters:
        bits |= BIT_OF.get(character, 0)
    return bits


@lru_cache(maxsize=64)
def _category(prefix: str) -> int:
    return _set_of(
        character
        for character in _NAME_CHARACTERS
        if unicodedata.category(character).startswith(prefix)
    )


_DIGITS: Final = _set_of("0123456789")
_LOWER: Final = _category("Ll")
_UPPER: Final = _category("Lu")
_LETTERS: Final = _LOWER | _UPPER
# The upper-case letters come in the same order this many bits above the lower-case ones.
_CASE_SHIFT: Final = _NAME_CHARACTERS.index("A") - _NAME_CHARACTERS.index("a")
_WORD: Final = _LETTERS | _DIGITS | BIT_OF["_"]
_HEXADECIMAL: Final = _set_of("0123456789abcdefABCDEF")
_PUNCTUATION: Final = _set_of("._-")

_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": 0, "D": _ANY ^ _DIGITS, "W": _ANY ^ _WORD, "S": _ANY}
_POSIX: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": _ANY,
    "blank": 0,
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": _ANY,
    "lower": _LOWER,
    "print": _ANY,
    "punct": _PUNCTUATION,
    "space": 0,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _HEXADECIMAL,
}
_OCTAL: Final = "01234567"
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


# The parsed expression


class Characters(NamedTuple):
    bits: int


class Begin(NamedTuple):
    pass


class End(NamedTuple):
    pass


class SequenceOf(NamedTuple):
    parts: "tuple[Node, ...]"


class Either(NamedTuple):
    options: "tuple[Node, ...]"


class Repeat(NamedTuple):
    part: "Node"
    min_count: int
    max_count: int | None


Node = Characters | Begin | End | SequenceOf | Either | Repeat


class Parser:
    """Parses one expression: `Parser(pattern).parse()`. Raises `InvalidPattern`."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._ignore_case = False

    def parse(self) -> Node:
        node = self._either()
        if self._at < len(self._text):
            raise InvalidPattern("unexpected )")
        return node

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str) -> str:
        position = self._text.find(end, self._at)
        if position < 0:
            raise InvalidPattern(f"missing {end}")
        found, self._at = self._text[self._at : position], position + len(end)
        return found

    def _either(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at : end if end >= 0 else None]
                self._at = len(self._text) if end < 0 else end + 2
                parts += [self._characters(_set_of(character)) for character in quoted]
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else SequenceOf(tuple(parts))

    def _characters(self, bits: int) -> Characters:
        if self._ignore_case:
            bits = _both_cases(bits)
        return Characters(bits)

    def _atom(self) -> Node | None:
        """Returns None for a group that only sets flags."""
        character = self._next()
        if character in "*+?":
            raise InvalidPattern(f"nothing before {character} to repeat")
        if character == "(":
            return self._group()
        if character == "\\":
            return self._escape()
        if character in "^$":
            return Begin() if character == "^" else End()
        if character == "[":
            return self._characters(self._class())
        return self._characters(_ANY if character == "." else BIT_OF.get(character, 0))

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise InvalidPattern(f"more than {counted(_MAX_NESTING, 'group')} within each other")
        ignores_case = self._ignore_case
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name = self._until(">")
                if not name.isidentifier():
                    raise InvalidPattern("a group's name is letters, digits and _")
            elif not self._flags():
                self._depth -= 1
                return None
        node = self._either()
        if not self._take(")"):
            raise InvalidPattern("missing )")
        self._depth -= 1
        self._ignore_case = ignores_case
        return node

    def _flags(self) -> bool:
        """Reads flags. Returns whether a group follows them; if not, they hold to the end of the
        group that they are in."""
        value = True
        while True:
            flag = self._next()
            if flag == "-" and value:
                value = False
            elif flag == "i":
                self._ignore_case = value
            elif flag in "msU":
                continue  # Names have no lines, and it does not matter which match is found.
            elif flag in ":)":
                return flag == ":"
            else:
                raise InvalidPattern(f"(?{flag} is not supported")

    def _repeated(self, atom: Node) -> Node:
        count = 0
        while self._at < len(self._text):
            if self._take("*"):
                min_count, max_count = 0, None
            elif self._take("+"):
                min_count, max_count = 1, None
            elif self._take("?"):
                min_count, max_count = 0, 1
            else:
                counted = self._counted()
                if counted is None:
                    return atom
                min_count, max_count = counted
            self._take("?")  # Lazy repetition: it does not change whether a name matches.
            count += 1
            if count > 1:
                raise InvalidPattern("one repetition after another")
            atom = Repeat(atom, min_count, max_count)
        return atom

    def _counted(self) -> tuple[int, int | None] | None:
        """Reads `{2}`, `{2,}` or `{2,5}`. Any other brace is an ordinary character."""
        end = self._text.find("}", self._at)
        if end < 0 or self._text[self._at] != "{":
            return None
        first, comma, second = self._text[self._at + 1 : end].partition(",")
        if not _is_number(first) or not (second == "" or _is_number(second)):
            return None
        self._at = end + 1
        min_count = int(first)
        max_count = min_count if not comma else int(second) if second else None
        if max(min_count, max_count or 0) > _MAX_REPETITIONS or (
            max_count is not None and max_count < min_count
        ):
            raise InvalidPattern("a bad number of repetitions")
        return min_count, max_count

    def _escape(self) -> Node:
        if self._at < len(self._text) and self._text[self._at] in "Az":
            return Begin() if self._next() == "A" else End()
        return self._characters(self._escaped_set())

    def _escaped_set(self) -> int:
        escaped = self._escaped()
        return BIT_OF.get(escaped, 0) if isinstance(escaped, str) else escaped

    def _escaped(self) -> str | int:
        """Reads what follows a backslash: a character, or a set of characters."""
        character = self._next()
        if character in _PERL:
            return _PERL[character]
        if character in "pP":
            return self._category(negated=character == "P")
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            digits = self._until("}") if self._take("{") else self._next() + self._next()
            return _character(digits, 16)
        if character in _OCTAL:
            return self._octal(character)
        if character.isalnum():
            raise InvalidPattern(f"\\{character} is not supported")
        return character

    def _octal(self, first: str) -> str:
        """Reads `\\0`, `\\012` or `\\123`; `\\1` alone would be a back-reference."""
        digits = first
        while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple(_OCTAL):
            digits += self._next()
        if first != "0" and len(digits) < 3:
            raise InvalidPattern(f"\\{first} is not supported")
        return _character(digits, 8)

    def _category(self, *, negated: bool) -> int:
        name = self._until("}") if self._take("{") else self._next()
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name == "Any":
            bits = _ANY
        elif name == "Latin":
            bits = _LETTERS
        elif name[:1] in ("L", "M", "N", "P", "S", "Z", "C") and len(name) <= 2:
            bits = _category(name)
        else:
            raise InvalidPattern(f"\\p{{{name}}} is not supported")
        return _ANY ^ bits if negated else bits

    def _class(self) -> int:
        negated = self._take("^")
        bits = 0
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            if self._take("[:"):
                bits |= _posix(self._until(":]"))
                continue
            bits |= self._class_range()
        if self._ignore_case:
            bits = _both_cases(bits)
        return _ANY ^ bits if negated else bits

    def _class_range(self) -> int:
        """Reads a range such as `a-z`, or a single character or set."""
        first = self._class_item()
        follows = self._text[self._at : self._at + 2]
        if isinstance(first, int):
            return first
        if follows[:1] != "-" or follows[1:] in ("]", ""):
            return BIT_OF.get(first, 0)
        self._at += 1
        last = self._class_item()
        if isinstance(last, int) or last < first:
            raise InvalidPattern(
                f"{first}-{'' if isinstance(last, int) else last} is not a valid range"
            )
        return _set_of(character for character in _NAME_CHARACTERS if first <= character <= last)

    def _class_item(self) -> str | int:
        character = self._next()
        return self._escaped() if character == "\\" else character


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5


def _character(digits: str, radix: int) -> str:
    try:
        return chr(int(digits, radix))
    except (ValueError, OverflowError):
        raise InvalidPattern(f"{digits} is not a character") from None


def _posix(name: str) -> int:
    negated = name.startswith("^")
    bits = _POSIX.get(name[negated:])
    if bits is None:
        raise InvalidPattern(f"[:{name}:] is not supported")
    return _ANY ^ bits if negated else bits


def _both_cases(bits: int) -> int:
    """Adds the other case of each letter of a set. It is called for each character of an expression
    that ignores case."""
    return bits | (bits & _LOWER) << _CASE_SHIFT | (bits & _UPPER) >> _CASE_SHIFT
