"""The tokens of an expression: names, numbers, texts and operators."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.connect.errors import InvalidConfig

MAX_CHARACTERS: Final = 10_000
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<text>'(?:[^'\\]|''|\\.)*')
    | (?P<quoted>"(?:[^"\\]|""|\\.)*"|`[^`]*`)
    | (?P<operator>\|\||&&|==|!=|<>|<=|>=|\?:|\?\.|[-+*/%<>=!?:.,()\[\]])
    )""",
    re.VERBOSE,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class Token(NamedTuple):
    """`kind` is number, name, quoted, text, operator or end."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token in capitals if it may be a keyword; empty for other tokens."""
        return self.text.upper() if self.kind == "name" else ""


def tokens(expression: str) -> list[Token]:
    """Returns the tokens of an expression. Raises `InvalidConfig` with the position of an error."""
    if len(expression) > MAX_CHARACTERS:
        raise InvalidConfig(f"an expression may have at most {MAX_CHARACTERS} characters")
    return [*_read(expression), Token("end", "the end", len(expression) + 1)]


def _read(expression: str) -> Iterator[Token]:
    position = 0
    while expression[position:].strip():
        found = _TOKEN.match(expression, position)
        if found is None:
            rest = expression[position:].strip()
            raise InvalidConfig(f"{rest[:20]!r} at character {position + 1} is not expected")
        kind = str(found.lastgroup)
        text = found[kind]
        if kind in {"text", "quoted"}:
            text = _unquoted(text)
        yield Token(kind, text, found.start(kind) + 1)
        position = found.end()


def _unquoted(text: str) -> str:
    quote = text[0]
    inside = text[1:-1].replace(quote * 2, quote)
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), inside, flags=re.DOTALL)
