"""Times as text, by the patterns of Java's DateTimeFormatter: yyyy-MM-dd'T'HH:mm:ss.SSSX.

Letters name parts of a time; text between single quotes stands for itself. A pattern with a letter
that is not known raises `ValueError`, which names it.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache, partial
from typing import Any, Final
from zoneinfo import ZoneInfo

from odradek.sql.functions.time_letters import (
    DAYS,
    MONTHS,
    OFFSET,
    check_letters,
    expression,
    first_day_of_week_year,
    write,
    zone_of_name,
)
from odradek.streams.plan.types import SqlType

DAY_MS: Final = 86_400_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'\[\]]+)|([\[\]])")
_SHORT_ZONES: Final = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver",
    "CST": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York",
    "CDT": "America/Chicago", "MDT": "America/Denver", "CEST": "Europe/Paris",
    "EEST": "Europe/Helsinki", "WEST": "Europe/Lisbon", "JST": "Asia/Tokyo", "IST": "Asia/Kolkata",
}  # fmt: skip


def zone(name: str) -> tzinfo:
    """Returns a time zone by its name or offset."""
    if name in ("Z", "z"):
        return UTC
    if re.fullmatch(OFFSET, name):
        return _offset_zone(name)
    if re.fullmatch(rf"(?:GMT|UTC){OFFSET}", name):
        return _offset_zone(name[3:])
    try:
        return ZoneInfo(_SHORT_ZONES.get(name, name))
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}") from None


def _offset_zone(text: str) -> tzinfo:
    digits = text[1:].replace(":", "").ljust(6, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
    return timezone(-offset if text[0] == "-" else offset)


def moment_of(timestamp_ms: int, where: tzinfo = UTC) -> datetime:
    return (EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(where)


def timestamp_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


_PARTS: Final = {
    "a date": frozenset("GuyMLdDQqYwWEecF"),
    "a time of day": frozenset("ahKkHmsSAnN"),
}


class JavaTimeFormat:
    """Formats and parses by one pattern. A lenient one reads as java.text's formats do: numbers
    have any number of digits, and what is behind the time is not read."""

    def __init__(self, pattern: str, *, is_lenient: bool = False) -> None:
        self.pattern = pattern
        self._is_lenient = is_lenient
        self._writers: list[str | Callable[[datetime], str]] = []
        self._fields: list[tuple[str, int]] = []
        whole, position, width = "", 0, 0
        for match in _PIECE.finditer(pattern):
            if match.start() != position:
                break
            position = match.end()
            quoted, letters, letter, plain, bracket = match.groups()
            if bracket is not None:
                whole += "(?:" if bracket == "[" else ")?"
                continue
            if letter is None:
                text = plain if plain is not None else quoted.replace("''", "'") or "'"
                if plain is not None and (reserved := re.search("[{}#]", plain)) is not None:
                    raise ValueError(f"{reserved[0]!r} in {pattern!r} is not a part of a time")
                self._writers.append(text)
                whole += re.escape(text)
                continue
            if letter == "p":
                width = len(letters)
                continue
            check_letters(letters, pattern, is_any_number=is_lenient)
            self._writers.append(partial(_padded, letter, len(letters), width))
            following = pattern[position : position + 1]
            is_joined = following.isalpha() and following not in "zZXxaE"
            part = expression(letter, len(letters), is_joined=is_joined)
            if is_lenient and not is_joined and part.startswith(r"\d"):
                part = r"\s*\d+"
            whole += rf" {{,{width - 1}}}({part})" if width else f"({part})"
            width = 0
            self._fields.append((letter, len(letters)))
        if width:
            raise ValueError(f"'p' in {pattern!r} is not followed by a part of a time")
        if position != len(pattern):
            raise ValueError(f"a single quote (') is not closed in {pattern!r}")
        self._expression = re.compile(whole, re.IGNORECASE)

    def text(self, moment: datetime) -> str:
        return "".join(
            writer if isinstance(writer, str) else writer(moment) for writer in self._writers
        )

    def parse(self, text: str, where: tzinfo = UTC) -> datetime:
        """Returns the time of a text; what the pattern does not say is that of 1970-01-01."""
        matching = self._expression.match if self._is_lenient else self._expression.fullmatch
        match = matching(text)
        if match is None:
            raise ValueError(f"{text!r} is not a time by the pattern {self.pattern!r}")
        parts: dict[str, Any] = {}
        for (letter, count), found in zip(self._fields, match.groups(), strict=True):
            if found is not None:
                _read(letter, count, found, parts)
        return _assembled(parts, where, is_lenient=self._is_lenient)

    def require_parts_of(self, what: str) -> None:
        """Raises `ValueError` if the pattern names what a date, or a time of day, does not have."""
        foreign = [letter for letter, _ in self._fields if letter not in _PARTS[what]]
        if foreign:
            raise ValueError(f"{foreign[0]!r} in {self.pattern!r} is not a part of {what}")

    @property
    def has_date(self) -> bool:
        """Whether the pattern says a whole date."""
        letters = {letter for letter, _ in self._fields}
        has_day = "D" in letters or ("d" in letters and not letters.isdisjoint("ML"))
        is_by_week = {"Y", "w"} <= letters and not letters.isdisjoint("Eec")
        return is_by_week or (has_day and not letters.isdisjoint("yu"))


@lru_cache(maxsize=500)
def lenient_time_format(pattern: str) -> JavaTimeFormat:
    return JavaTimeFormat(pattern, is_lenient=True)


@lru_cache(maxsize=500)
def java_time_format(pattern: str) -> JavaTimeFormat:
    return JavaTimeFormat(pattern)


def _padded(letter: str, count: int, width: int, moment: datetime) -> str:
    return write(letter, count, moment).rjust(width)


def _read(letter: str, count: int, found: str, parts: dict[str, Any]) -> None:
    if letter in ("M", "L") and count >= 3:
        parts["M"] = _index(MONTHS, found) + 1
    elif letter == "E" or (letter in ("e", "c") and count >= 3):
        if count != 5:
            parts["E"] = _index(DAYS, found)
    elif letter in ("e", "c"):
        parts["E"] = _within(letter, int(found)) - 1
    elif letter in ("X", "x", "Z", "z", "V", "O"):
        parts["zone"] = _read_zone(found)
    elif letter == "a":
        parts["a"] = found.upper()
    elif letter == "S":
        parts["S"] = int(found[:6].ljust(6, "0"))
    elif letter in ("y", "u", "Y"):
        year = 2000 + int(found) if count == 2 else int(found)
        parts["y"] = year
        if letter == "Y":
            parts["Y"] = year
    elif letter not in ("G", "Q", "q", "F", "W"):
        parts["M" if letter == "L" else letter] = _within(letter, int(found))


_RANGES: Final = {
    "h": (0, 12), "K": (0, 11), "k": (1, 24), "H": (0, 24), "e": (1, 7), "c": (1, 7), "w": (1, 53),
    "A": (0, DAY_MS - 1), "N": (0, DAY_MS * 1_000_000 - 1), "D": (1, 366),
}  # fmt: skip


def _within(letter: str, value: int) -> int:
    least, most = _RANGES.get(letter, (0, value))
    if not least <= value <= most:
        raise ValueError(f"{value} for {letter!r} is not between {least} and {most}")
    return value


def _index(names: tuple[str, ...], found: str) -> int:
    return [name[: len(found)].lower() for name in names].index(found.lower())


def _read_zone(found: str) -> tzinfo:
    if found in ("Z", "z", "GMT"):
        return UTC
    short = re.fullmatch(r"(?:GMT)?([+-])(\d)(:.*)?", found)
    return zone(f"{short[1]}0{short[2]}{short[3] or ''}" if short else zone_of_name(found))


def _assembled(parts: dict[str, Any], where: tzinfo, *, is_lenient: bool) -> datetime:
    year, month, day = parts.get("y", 1970), parts.get("M", 1), parts.get("d", 1)
    rest = timedelta()
    if is_lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        rest, day = timedelta(days=day - 1), 1
    elif 28 < day <= 31:
        # A day that the month does not have is its last one.
        day = min(day, monthrange(year, month)[1])
    has_date = "y" in parts and ("D" in parts or {"M", "d"} <= parts.keys())
    hour, minute, second, microsecond = _time_of_day(parts)
    if hour == 24 and not (minute or second or microsecond):
        hour, rest = 0, rest + timedelta(days=1 if has_date else 0)
    zone_of_text = parts.get("zone", where)
    moment = datetime(year, month, day, hour, minute, second, microsecond, zone_of_text)
    if "D" in parts:
        moment = moment.replace(month=1, day=1) + timedelta(days=parts["D"] - 1)
        if moment.year != year and not is_lenient:
            raise ValueError(f"{year} has no day {parts['D']}")
    weekday = parts.get("E", moment.isoweekday() % 7)
    if {"Y", "w", "E"} <= parts.keys():
        start, end = first_day_of_week_year(year), first_day_of_week_year(year + 1)
        week = min(parts["w"], (end - start).days // 7)
        found = start + timedelta(days=(week - 1) * 7 + weekday)
        moment = moment.replace(year=found.year, month=found.month, day=found.day)
    elif has_date and not is_lenient and weekday != moment.isoweekday() % 7:
        raise ValueError(f"{moment:%Y-%m-%d} is no {DAYS[weekday]}")
    return moment + rest


def _time_of_day(parts: dict[str, Any]) -> tuple[int, int, int, int]:
    """Returns the hour, the minute, the second and the microsecond of the parts of a time."""
    micros = parts["N"] // 1000 if "N" in parts else parts.get("A", 0) * 1000
    if micros:
        seconds, micros = divmod(micros, 1_000_000)
        return seconds // 3600, seconds // 60 % 60, seconds % 60, micros
    hour = parts.get("H", parts.get("k", 0) % 24)
    if "h" in parts or "K" in parts:
        hour = parts.get("h", parts.get("K", 0)) % 12 + (12 if parts.get("a") == "PM" else 0)
    micros = parts.get("S", parts.get("n", 0) // 1000)
    return hour, parts.get("m", 0), parts.get("s", 0), micros


# Times without a pattern: ISO-8601, as CAST and JSON write them


def iso_text(value: int, kind: SqlType) -> str:
    """Returns a DATE, TIME or TIMESTAMP as text."""
    if kind.name == "DATE":
        return moment_of(value * DAY_MS).strftime("%Y-%m-%d").rjust(10, "0")
    moment = moment_of(value)
    if kind.name == "TIMESTAMP":
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}"
    # As ksqlDB: no seconds where there are none, and never parts of a second.
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


_ISO: Final = re.compile(
    r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?(?:T(?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})"
    rf"(?:\.(\d{{1,9}}))?)?)?)?)?\s*(Z|{OFFSET})?|(\d{{4}})"
)


def read_timestamp(text: str) -> int:
    """Returns the TIMESTAMP of a text by ISO-8601, parts of which may be missing at the end."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a TIMESTAMP: write 2024-01-31T23:59:59.999")
    if match[9] is not None:
        return timestamp_of(datetime(int(match[9]), 1, 1, tzinfo=UTC))
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "0")[:6].ljust(6, "0"))
    where = zone(match[8]) if match[8] not in (None, "Z") else UTC
    moment = datetime(year, month, day or 1, hour, minute, second, micros, where)
    return timestamp_of(moment)


def read_date(text: str) -> int:
    if not re.fullmatch(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", text.strip()):
        raise ValueError(f"{text!r} is not a DATE: write 2024-01-31")
    return read_timestamp(text) // DAY_MS


def read_time(text: str) -> int:
    match = re.fullmatch(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a TIME: write 23:59:59")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not a TIME: write 23:59:59")
    return ((hour * 60 + minute) * 60 + second) * 1000 + int((match[4] or "0")[:3].ljust(3, "0"))
