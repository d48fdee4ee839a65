"""Durations as Spark writes them, `5 seconds` or `1 hour 30 minutes`, checked without Spark.

Used for a pipeline's trigger and watermark. Whatever Spark accepts is accepted here; a test with
Spark compares both. What is refused comes with what to write instead.
"""

import re
from collections.abc import Iterator
from typing import Final

from odradek.config.spelling import Speller

_UNITS: Final = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "year",
)
_KNOWN: Final = frozenset(_UNITS) | {f"{unit}s" for unit in _UNITS}
# How others shorten them; Spark does not.
_SHORT: Final = {
    "us": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "milli": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_EXAMPLE: Final = "5 seconds"
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")
_WORD: Final = re.compile(rf"{_NUMBER.pattern}|[a-z]+")
_SIGN: Final = re.compile(r"([+-])\s+")
_THOUSANDS: Final = re.compile(r"(?<=\d)[_,](?=\d)")


class BadDuration(ValueError):
    """The text is not a duration; the message says what to write instead."""


def check_duration(text: str, *, is_trigger: bool = False) -> None:
    """Raises `BadDuration` for what Spark would refuse. A trigger is stricter than a watermark: it
    can have neither months and years nor SQL's quotes."""
    if "'" in text and not is_trigger:
        return
    given = _SIGN.sub(r"\1", text.lower()).split()
    if given[:1] == ["interval"]:
        del given[0]
    parts = list(_parts(_WORD.findall(_THOUSANDS.sub("", " ".join(given)))))
    mended = " ".join(f"{number} {unit}" for number, unit in parts)
    if not parts or mended != " ".join(given):
        raise BadDuration(f'write "{mended or _EXAMPLE}"')
    for number, unit in parts:
        if number.startswith("-"):
            raise BadDuration(f'write "{mended.replace("-", "")}"')
        if "." in number and not unit.startswith("second"):
            raise BadDuration("only seconds can have a fraction; use a smaller unit")
        if is_trigger and unit.startswith(("month", "year")):
            raise BadDuration("a trigger cannot have months or years; write days")


def _parts(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each number with its unit, corrected. Words without a number are left out."""
    number: str | None = None
    for word in words:
        if _NUMBER.fullmatch(word):
            number = word
        elif number is not None:
            yield number, _unit(word, number)
            number = None
    if number is not None:
        yield number, "seconds"


def _unit(word: str, number: str) -> str:
    """Returns the unit that a word is, or was meant to be."""
    if word in _KNOWN:
        return word
    meant = _SHORT.get(word) or _SHORT.get(word.removesuffix("s")) or Speller(_KNOWN).nearest(word)
    if meant is None:
        plurals = ", ".join(f"{unit}s" for unit in _UNITS)
        raise BadDuration(f"there is no unit {word}; there are {plurals}")
    singular = meant.removesuffix("s")
    return singular if number.lstrip("+-") == "1" else f"{singular}s"
