"""Formats and parses times by the patterns of Java's SimpleDateFormat, in UTC.

    yyyy-MM-dd'T'HH:mm:ss.SSSX

`_WRITERS` has the pattern letters that are supported; other letters are refused. Text between
single quotes stands for itself.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from odradek.connect.data.values import ms_to_timestamp
from odradek.connect.errors import DataError, InvalidConfig
from odradek.world.clock import SystemClock

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)")

Writer = Callable[[datetime], str]


class JavaDateFormat:
    def __init__(self, pattern: str, *, this_year: int | None = None) -> None:
        """Raises `InvalidConfig` if the pattern is not supported. A year with two digits is the one
        within the hundred years that begin 80 years before `this_year`. Without `this_year`, it is
        the current year."""
        self.pattern = pattern
        now_ms = SystemClock().now_ms()
        self._first_year = (this_year or ms_to_timestamp(now_ms).year) - 80
        self._writers: list[str | Writer] = []
        expression, self._parts = "", list[tuple[str, int]]()
        position = 0
        for match in _PIECE.finditer(pattern):
            if match.start() != position:
                break
            position = match.end()
            quoted, letters, letter, plain = match.groups()
            if letter is None:
                text = plain if plain is not None else quoted.replace("''", "'") or "'"
                self._writers.append(text)
                expression += re.escape(text)
                continue
            if letter not in _WRITERS:
                raise InvalidConfig(f"{letters!r} in {pattern!r} is not a part of a time")
            length = len(letters)
            self._writers.append(_writer(letter, length))
            follows = pattern[position : position + 1]
            expression += f"({_reader(letter, length, is_joined=follows.isalpha())})"
            self._parts.append((letter, length))
        if position != len(pattern):
            raise InvalidConfig(f"a single quote (') is not closed in {pattern!r}")
        self._expression = re.compile(expression)

    def text(self, moment: datetime) -> str:
        moment = moment.astimezone(UTC)
        return "".join(
            writer if isinstance(writer, str) else writer(moment) for writer in self._writers
        )

    def parse(self, text: str) -> datetime:
        """Parses the time at the beginning of a text. As in Java, the rest is ignored."""
        match = self._expression.match(text)
        if match is None:
            raise DataError(f'Unparseable date: "{text}" ({self.pattern} is expected)')
        found: dict[str, str] = {}
        for (letter, _), part in zip(self._parts, match.groups(), strict=True):
            found[letter] = part
        try:
            return _moment(found, self._year(found))
        except (ValueError, OverflowError) as error:
            raise DataError(f'Unparseable date: "{text}": {error}') from None

    def _year(self, found: dict[str, str]) -> int:
        text = found.get("y", "1970")
        if len(text) == 2 and dict(self._parts)["y"] == 2:
            return self._first_year + (int(text) - self._first_year) % 100
        return int(text)


def _writer(letter: str, length: int) -> Writer:
    write = _WRITERS[letter]
    return lambda moment: write(moment, length)


def _padded(number: int, length: int) -> str:
    return f"{number:0{length}d}"


def _year(moment: datetime, length: int) -> str:
    return _padded(moment.year % 100, 2) if length == 2 else _padded(moment.year, length)


def _month(moment: datetime, length: int) -> str:
    if length < 3:
        return _padded(moment.month, length)
    name = _MONTHS[moment.month - 1]
    return name if length > 3 else name[:3]


def _weekday(moment: datetime, length: int) -> str:
    name = _DAYS[moment.weekday()]
    return name if length > 3 else name[:3]


def _iso_zone(moment: datetime, length: int) -> str:
    return "Z"


_WRITERS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "y": _year,
    "M": _month,
    "L": _month,
    "d": lambda moment, length: _padded(moment.day, length),
    "D": lambda moment, length: _padded(moment.timetuple().tm_yday, length),
    "E": _weekday,
    "u": lambda moment, length: _padded(moment.isoweekday(), length),
    "a": lambda moment, _: "AM" if moment.hour < 12 else "PM",
    "H": lambda moment, length: _padded(moment.hour, length),
    "k": lambda moment, length: _padded(moment.hour or 24, length),
    "K": lambda moment, length: _padded(moment.hour % 12, length),
    "h": lambda moment, length: _padded(moment.hour % 12 or 12, length),
    "m": lambda moment, length: _padded(moment.minute, length),
    "s": lambda moment, length: _padded(moment.second, length),
    "S": lambda moment, length: _padded(moment.microsecond // 1000, length),
    "z": lambda moment, length: "Coordinated Universal Time" if length > 3 else "UTC",
    "Z": lambda moment, _: "+0000",
    "X": _iso_zone,
    "G": lambda moment, _: "AD",
}
_ZONE: Final = r"Z|UTC|GMT|Coordinated Universal Time|(?:GMT|UTC)?[+-]\d\d:?(?:\d\d)?"


def _reader(letter: str, length: int, *, is_joined: bool) -> str:
    """Returns the regular expression for a part. If digits are directly followed by another part,
    there are as many as letters in the pattern."""
    if letter in {"M", "L"} and length > 2:
        return "|".join([*_MONTHS, *(name[:3] for name in _MONTHS)])
    if letter == "E":
        return "|".join([*_DAYS, *(name[:3] for name in _DAYS)])
    if letter == "a":
        return "(?i:[ap]m)"
    if letter == "G":
        return "AD"
    if letter in {"z", "Z", "X"}:
        return _ZONE
    return rf"\d{{{length}}}" if is_joined else r"\d+"


def _moment(found: dict[str, str], year: int) -> datetime:
    def number(letter: str, default: int) -> int:
        return int(found[letter]) if letter in found else default

    name = found.get("M") or found.get("L")
    month = 1
    if name is not None:
        month = int(name) if name.isdigit() else _month_number(name)
    hour = number("H", number("k", 0) % 24)
    if "h" in found or "K" in found:
        hour = number("h", number("K", 0)) % 12 + (12 if found.get("a", "").lower() == "pm" else 0)
    begin = datetime(year, 1, 1, tzinfo=_zone(found))
    moment = begin.replace(month=month, day=1)
    days = number("d", 1) - 1
    if "D" in found and "d" not in found:
        moment, days = begin, number("D", 1) - 1
    return moment + timedelta(
        days=days,
        hours=hour,
        minutes=number("m", 0),
        seconds=number("s", 0),
        milliseconds=number("S", 0),
    )


def _month_number(name: str) -> int:
    for index, month in enumerate(_MONTHS, 1):
        if name in {month, month[:3]}:
            return index
    raise ValueError(f"{name} is not a month")


def _zone(found: dict[str, str]) -> timezone:
    text = found.get("X") or found.get("Z") or found.get("z") or "Z"
    digits = re.sub(r"\D", "", text)
    if not digits:
        return UTC
    shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-shift if "-" in text else shift)
