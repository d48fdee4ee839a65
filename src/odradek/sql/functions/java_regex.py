"""Regular expressions of Java, rewritten for the two engines that match them: RE2 and `regex`.

A class of characters within another one, an intersection of classes and a few properties are known
to `regex` alone.
"""

import re
import unicodedata
from typing import Final

from odradek.javatext.patterns import BadPattern

_ASCII: Final = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0b\f\r", "Blank": r" \t",
    "Graph": "!-~", "Print": " -~", "Cntrl": r"\x00-\x1f\x7f", "ASCII": r"\x00-\x7f",
}  # fmt: skip
_SHORT: Final = {
    "d": _ASCII["Digit"], "w": "a-zA-Z0-9_", "s": _ASCII["Space"],
    "h": " \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": "\n\x0b\f\r\x85\u2028\u2029",
}  # fmt: skip
_ALIASES: Final = {
    "javaLowerCase": "Ll", "javaUpperCase": "Lu", "javaLetter": "L", "javaDigit": "Nd",
    "IsLetter": "L", "IsDigit": "Nd", "IsPunctuation": "P", "IsControl": "Cc", "IsTitlecase": "Lt",
}  # fmt: skip
_OF_REGEX: Final = frozenset(
    ("Alphabetic", "Ideographic", "Lowercase", "Uppercase", "White_Space", "Hex_Digit", "Emoji")
)
_ESCAPE: Final = re.compile(
    r"\\(?:Q(?P<quoted>.*?)(?:\\E|\Z)|(?P<sign>[pP])(?:\{(?P<name>[\w=]+)\}|(?P<letter>[A-Z]))"
    r"|0(?P<octal>[0-3]?[0-7]{1,2})|[xu](?P<hex>(?<=x)[0-9a-fA-F]{2}|(?<=u)[0-9a-fA-F]{4})"
    r"|x\{(?P<long>[0-9a-fA-F]{1,6})\}|N\{(?P<unicode>[^}]*)\}|c(?P<control>[@-_])|k<(?P<group>\w+)>"
    r"|(?P<other>.))",
    re.DOTALL,
)
_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_DOT_MATCHES_ALL: Final = re.compile(r"\(\?[a-zA-Z]*s")
_NO_LINE_BREAK: Final = "[^\n\r\x85\u2028\u2029]"


class JavaRegex:
    """A pattern of Java, as RE2 (`for_re2`, None if it cannot match it) and `regex` write it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._is_known_to_re2 = True
        self._is_dot_all = _DOT_MATCHES_ALL.search(text) is not None
        re2 = self._rewritten(is_nesting=False)
        self.for_re2 = re2 if self._is_known_to_re2 else None
        self.for_regex = self._rewritten(is_nesting=True)

    def _rewritten(self, *, is_nesting: bool) -> str:
        text, position = self._text, 0
        pieces: list[str] = []
        self._depth = 0
        while position < len(text):
            if text[position] == "\\":
                match = _ESCAPE.match(text, position)
                if match is None:
                    raise BadPattern("a backslash at the end of a pattern stands for nothing")
                pieces.append(self._escape(match, is_nesting=is_nesting))
                position = match.end()
            elif self._depth:
                piece, length = self._in_class(position)
                pieces.append(piece)
                position += length
            else:
                piece, length = self._outside(position)
                pieces.append(piece)
                position += length
        return "".join(pieces)

    def _outside(self, position: int) -> tuple[str, int]:
        text = self._text
        if text[position] == "[":
            return self._opening(position)
        if text[position] == "." and not self._is_dot_all:
            return _NO_LINE_BREAK, 1
        if text[position] == "{" and _REPETITION.match(text, position) is None:
            raise BadPattern(f"{{ at {position + 1} of a pattern is no repetition: write \\\\{{")
        if text.startswith("(?<", position) and text[position + 3 : position + 4].isalpha():
            return "(?P<", 3
        return text[position], 1

    def _opening(self, position: int) -> tuple[str, int]:
        """Returns the beginning of a class, with a bracket that is its first character."""
        self._depth += 1
        opening = "[^" if self._text.startswith("[^", position) else "["
        first = self._text[position + len(opening) : position + len(opening) + 1]
        if first in ("]", ":"):
            return f"{opening}\\{first}", len(opening) + 1
        return opening, len(opening)

    def _in_class(self, position: int) -> tuple[str, int]:
        character = self._text[position]
        if character == "[":
            self._is_known_to_re2 = False
            return self._opening(position)
        if character == "]":
            self._depth -= 1
        elif self._text.startswith("&&", position):
            self._is_known_to_re2 = False
            return "&&", 2
        return (f"\\{character}" if character in "&|~" else character), 1

    def _escape(self, match: "re.Match[str]", *, is_nesting: bool) -> str:
        if match["sign"] is not None:
            return self._property(match["sign"], match["name"] or match["letter"], is_nesting)
        if match["group"] is not None:
            return f"(?P={match['group']})"
        letter = match["other"]
        if letter is None:
            return "".join(map(_literal, _meant(match)))
        if letter.lower() in _SHORT:
            return self._class(_SHORT[letter.lower()], letter.isupper(), is_nesting, rf"\{letter}")
        return "\x1b" if letter == "e" else match[0]

    def _class(self, inside: str, is_negated: bool, is_nesting: bool, named: str) -> str:
        """Returns a class of these characters, or of all others, outside of a class or in one."""
        if not self._depth or (is_negated and is_nesting):
            return f"[{'^' if is_negated else ''}{inside}]"
        return named if is_negated else inside

    def _property(self, sign: str, name: str, is_nesting: bool) -> str:
        if name in _ASCII:
            is_negated = sign == "P"
            if self._depth and is_negated:
                self._is_known_to_re2 = False
            return self._class(_ASCII[name], is_negated, is_nesting, "")
        kind, _, value = name.rpartition("=")
        if kind in ("block", "blk"):
            value = f"In{value}"
        short = _ALIASES.get(value, value.removeprefix("Is"))
        if short in _OF_REGEX or short.startswith("In"):
            self._is_known_to_re2 = False
        return rf"\{sign}{{{short}}}"


def _meant(match: "re.Match[str]") -> str:
    """Returns the characters that an escape stands for."""
    if match["quoted"] is not None:
        return match["quoted"]
    if match["control"] is not None:
        return chr(ord(match["control"]) ^ 64)
    if match["unicode"] is not None:
        try:
            return unicodedata.lookup(match["unicode"])
        except KeyError:
            raise BadPattern(f"no character has the name {match['unicode']}") from None
    code = match["octal"] or match["hex"] or match["long"]
    return chr(int(code, 8 if match["octal"] else 16))


def _literal(character: str) -> str:
    is_special = character.isascii() and not character.isalnum() and character.isprintable()
    return f"\\{character}" if is_special else character
