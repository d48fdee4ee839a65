"""Reads the events and the expected rows of Nexmark as RisingWave publishes them, from a directory
that has its folder `e2e_test`. Nothing of it is in this repository."""

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

TOPICS: Final = ("person", "auction", "bid")
_ROW: Final = re.compile(r"\((.*)\)[,;]?$")
_VALUE: Final = re.compile(r"'((?:[^']|'')*)'|(-?\d+)")
_DAY_MS: Final = range(1_436_918_400_000, 1_437_004_800_000)
"""The day of all events: a number in it is a time, because no price is as large."""
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+")
"""How the server writes a time."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$")


def events(directory: Path, topic: str) -> list[dict[str, Any]]:
    """Returns the rows that are inserted, with texts as our JSON has them."""
    text = (directory / "nexmark" / f"insert_{topic}.slt.part").read_text()
    head, _, tail = text.partition("VALUES")
    names = re.findall(r"\w+", head.partition("(")[2])
    found = []
    for line in tail.splitlines():
        row = _ROW.match(line.strip())
        if row is not None:
            values = [_value(*one) for one in _VALUE.findall(row.group(1))]
            found.append(dict(zip(names, values, strict=True)))
    return found


def _value(text: str, number: str) -> Any:
    if number:
        return int(number)
    if _TIME.match(text):
        return milliseconds(text)
    return text.replace("''", "'")


def milliseconds(text: str) -> int:
    """Returns a time as our JSON has it."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def expected(directory: Path, query: str) -> list[tuple[str, ...]]:
    """Returns the expected rows of a query, as words."""
    text = (directory / "streaming" / "nexmark" / f"{query}.slt.part").read_text()
    _, _, tail = text.partition("----\n")
    lines = tail.partition("\n\n")[0].splitlines()
    return sorted(words(line) for line in lines if line.strip())


def words(line: str) -> tuple[str, ...]:
    """Returns a row as words that are equal if the values are: without spaces, and with numbers to
    six digits after the point."""
    return tuple(_plain(word) for word in line.split())


def _plain(word: str) -> str:
    if re.fullmatch(r"-?\d+\.\d+", word):
        return format(Decimal(word).quantize(Decimal("0.000001")).normalize(), "f")
    return re.sub(r"(:\d\d)\.(\d*?)0+$", r"\1.\2", word).removesuffix(".")


def as_text(value: Any) -> str:
    """Returns a value of ours as it stands in the published rows."""
    if isinstance(value, int) and value in _DAY_MS:
        moment = datetime.datetime.fromtimestamp(value // 1000, datetime.UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{value % 1000:03}"
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    text = "" if value is None else str(value)
    return text.replace("T", " ") if _ISO.fullmatch(text) else text
