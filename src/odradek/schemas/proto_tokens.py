"""The words of a `.proto` text."""

import re
from typing import Final, NamedTuple, NoReturn

from odradek.schemas.errors import InvalidSchema

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* | /\*(?s:.*?)\*/ )
  | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<number> (?: 0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? ) [fF]? (?![\w.]) )
  | (?P<word> \.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)* )
  | (?P<symbol> [{}()\[\]<>=;,:+/-] )
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL
)
_LETTERS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_MAX_CODE: Final = 0x10FFFF


class Token(NamedTuple):
    kind: str
    text: str
    position: int


class Tokens:
    """Reads tokens one after another. Errors say the line and the column."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0

    def _split(self, text: str) -> list[Token]:
        tokens = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self.fail_at(position, f"{text[position : position + 20]!r} is not understood")
            if found.lastgroup != "space":
                tokens.append(Token(str(found.lastgroup), found.group(), position))
            position = found.end()
        tokens.append(Token("end", "the end", len(text)))
        return tokens

    def peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.peek()
        self._next += 1
        return token

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this one."""
        token = self.peek()
        if token.text != text or token.kind not in {"word", "symbol"}:
            return False
        self._next += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"{text!r} is expected before {self.peek().text[:40]!r}")

    def word(self, what: str) -> str:
        token = self.take()
        if token.kind != "word":
            self.fail_at(token.position, f"{what} is expected instead of {token.text[:40]!r}")
        return token.text

    def name(self, what: str) -> str:
        """Takes a word without dots."""
        position = self.peek().position
        name = self.word(what)
        if "." in name:
            self.fail_at(position, f"{name!r} cannot be {what}: it has dots")
        return name

    def string(self) -> str:
        """Takes a string, which may be written in several parts."""
        if self.peek().kind != "string":
            self.fail(f"a string is expected before {self.peek().text[:40]!r}")
        parts = []
        while self.peek().kind == "string":
            parts.append(_ESCAPE.sub(_unescaped, self.take().text[1:-1]))
        return "".join(parts)

    def integer(self, what: str) -> int:
        is_negative = self.accept("-")
        token = self.take()
        try:
            if token.kind != "number" or len(token.text) > 20:
                raise ValueError
            if token.text[:1] == "0" and token.text[1:].isdigit():
                number = int(token.text, 8)
            else:
                number = int(token.text, 0)
        except ValueError:
            self.fail_at(token.position, f"{what} must be a whole number, not {token.text[:40]!r}")
        return -number if is_negative else number

    def fail(self, message: str) -> NoReturn:
        self.fail_at(self.peek().position, message)

    def fail_at(self, position: int, message: str) -> NoReturn:
        line = self._text.count("\n", 0, position) + 1
        column = position - (self._text.rfind("\n", 0, position) + 1) + 1
        raise InvalidSchema(f"line {line}, column {column}: {message}")


def _unescaped(found: re.Match[str]) -> str:
    byte, short, long, octal, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    return chr(code) if code <= _MAX_CODE else "\ufffd"
