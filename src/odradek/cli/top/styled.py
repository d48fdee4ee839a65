"""Lines of text with styles, before they are written to a terminal.

Names of groups and clients come from outside and may have any characters. So text that is shown
passes through `clean`: a name must not be able to send control sequences to the terminal.
"""

from typing import Final, NamedTuple
from unicodedata import combining, east_asian_width

PLAIN: Final = ""
_RESET: Final = "\x1b[0m"
_COLOURED: Final = {
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "chosen": "\x1b[7m",
    "good": "\x1b[32m",
    "warn": "\x1b[33m",
    "bad": "\x1b[1;31m",
}
# Weight and reversal are not colours.
_COLOURLESS: Final = {"bold": "\x1b[1m", "chosen": "\x1b[7m", "bad": "\x1b[1m", "warn": "\x1b[1m"}


class Span(NamedTuple):
    """A piece of a line. It has only printable characters."""

    text: str
    style: str = PLAIN


Line = list[Span]


def clean(text: str) -> str:
    """Returns text without what is not printable."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def width_of(text: str) -> int:
    """Returns how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(letter) for letter in text)


def _width(letter: str) -> int:
    if combining(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def fitted(text: str, width: int, *, is_left: bool = True) -> str:
    """Returns the text in exactly this width: filled with spaces, or cut, with a dot at its end."""
    missing = width - width_of(text)
    if missing >= 0:
        return text + " " * missing if is_left else " " * missing + text
    if width <= 0:
        return ""
    kept = _beginning(text, width - 1)
    return f"{kept}.{' ' * (width - 1 - width_of(kept))}"


def _beginning(text: str, width: int) -> str:
    """Returns as many letters as fit."""
    for number, letter in enumerate(text):
        width -= _width(letter)
        if width < 0:
            return text[:number]
    return text


def cut(line: Line, width: int) -> Line:
    """Returns the line without what is beyond the width."""
    result: Line = []
    for span in line:
        result.append(Span(_beginning(span.text, width), span.style))
        width -= width_of(span.text)
        if width <= 0:
            break
    return result


def plain_text(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


def written(line: Line, *, colours: bool) -> str:
    """Returns the line as it is written to a terminal."""
    codes = _COLOURED if colours else _COLOURLESS
    return "".join(
        f"{codes[span.style]}{span.text}{_RESET}" if span.style in codes else span.text
        for span in line
    )
