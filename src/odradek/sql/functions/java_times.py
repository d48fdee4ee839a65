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

from odradek.streams.plan.types import SqlType

DAY_MS: Final = 86_400_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'\[\]]+)|([\[\]])")
_OFFSET: Final = r"[+-]\d\d(?::?\d\d)?(?::?\d\d)?"
_SHORT_ZONES: Final = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver",
    "CST": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York",
    "CET": "Europe/Paris", "GMT": "UTC", "Z": "UTC",
}  # fmt: skip


def zone(name: str) -> tzinfo:
    """Returns a time zone by its name or offset."""
    if re.fullmatch(_OFFSET, name):
        return _offset_zone(name)
    if re.fullmatch(rf"(?:GMT|UTC){_OFFSET}", name):
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
        expression, position = "", 0
        for match in _PIECE.finditer(pattern):
            if match.start() != position:
                break
            position = match.end()
            quoted, letters, letter, plain, bracket = match.groups()
            if bracket is not None:
                expression += "(?:" if bracket == "[" else ")?"
                continue
            if letter is None:
                text = plain if plain is not None else quoted.replace("''", "'") or "'"
                self._writers.append(text)
                expression += re.escape(text)
                continue
            if letter not in _WRITERS:
                raise ValueError(f"{letters!r} in {pattern!r} is not a part of a time")
            self._writers.append(partial(_write, letter, len(letters)))
            following = pattern[position : position + 1]
            is_joined = following.isalpha() and following not in "zZXxaE"
            part = _reader(letter, len(letters), is_joined=is_joined)
            if is_lenient and not is_joined and part.startswith(r"\d"):
                part = r"\s*\d+"
            expression += f"({part})"
            self._fields.append((letter, len(letters)))
        if position != len(pattern):
            raise ValueError(f"a single quote (') is not closed in {pattern!r}")
        self._expression = re.compile(expression, re.IGNORECASE)

    def text(self, moment: datetime) -> str:
        return "".join(
            writer if isinstance(writer, str) else writer(moment) for writer in self._writers
        )

    def parse(self, text: str, where: tzinfo = UTC) -> datetime:
        """Returns the time of a text; what the pattern does not say is that of 1970-01-01."""
        matching = self._expression.match if self._is_lenient else self._expression.fullmatch
        match = matching(text)
        if match is None:
            raise ValueError(f"{text!r} is no time by the pattern {self.pattern!r}")
        parts: dict[str, Any] = {}
        for (letter, count), found in zip(self._fields, match.groups(), strict=True):
            if found is not None:
                _read(letter, count, found, parts)
        return _assembled(parts, where, is_lenient=self._is_lenient)

    def require_parts_of(self, what: str) -> None:
        """Raises `ValueError` if the pattern names what a date, or a time of day, does not have."""
        foreign = [letter for letter, _ in self._fields if letter not in _PARTS[what]]
        if foreign:
            raise ValueError(f"{foreign[0]!r} in {self.pattern!r} is no part of {what}")

    @property
    def has_date(self) -> bool:
        """Whether the pattern says a whole date."""
        letters = {letter for letter, _ in self._fields}
        has_day = "D" in letters or ("d" in letters and not letters.isdisjoint("ML"))
        return has_day and not letters.isdisjoint("yu")


@lru_cache(maxsize=500)
def lenient_time_format(pattern: str) -> JavaTimeFormat:
    return JavaTimeFormat(pattern, is_lenient=True)


@lru_cache(maxsize=500)
def java_time_format(pattern: str) -> JavaTimeFormat:
    return JavaTimeFormat(pattern)


def _write(letter: str, count: int, moment: datetime) -> str:
    return _WRITERS[letter](moment, count)


def _number(value: int, count: int) -> str:
    return str(value).zfill(count)


def _offset_text(moment: datetime, *, has_colon: bool, zero: str | None, count: int) -> str:
    offset = moment.utcoffset() or timedelta()
    if zero is not None and not offset:
        return zero
    sign, minutes = ("-", -offset) if offset < timedelta() else ("+", offset)
    total = int(minutes.total_seconds()) // 60
    hours, rest = divmod(total, 60)
    if count == 1 and rest == 0:
        return f"{sign}{hours:02}"
    return f"{sign}{hours:02}{':' if has_colon else ''}{rest:02}"


def _month(when: datetime, count: int) -> str:
    if count >= 3:
        return _MONTHS[when.month - 1][: 3 if count == 3 else None]
    return _number(when.month, count)


def _year(when: datetime, count: int) -> str:
    return f"{when.year % 100:02}" if count == 2 else _number(when.year, count)


def _day_name(when: datetime, count: int) -> str:
    return _DAYS[when.weekday()][: None if count == 4 else 3]


_WRITERS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "y": _year,
    "u": _year,
    "Y": lambda when, count: _number(when.isocalendar().year, count),
    "M": _month,
    "L": _month,
    "d": lambda when, count: _number(when.day, count),
    "D": lambda when, count: _number(when.timetuple().tm_yday, count),
    "E": _day_name,
    "e": lambda when, count: _number(when.isoweekday() % 7 + 1, count),
    "w": lambda when, count: _number(when.isocalendar().week, count),
    "Q": lambda when, count: _number((when.month - 1) // 3 + 1, count),
    "q": lambda when, count: _number((when.month - 1) // 3 + 1, count),
    "a": lambda when, count: "AM" if when.hour < 12 else "PM",
    "G": lambda when, count: "AD",
    "H": lambda when, count: _number(when.hour, count),
    "k": lambda when, count: _number(when.hour or 24, count),
    "h": lambda when, count: _number(when.hour % 12 or 12, count),
    "K": lambda when, count: _number(when.hour % 12, count),
    "m": lambda when, count: _number(when.minute, count),
    "s": lambda when, count: _number(when.second, count),
    "S": lambda when, count: f"{when.microsecond:06}000"[:count].ljust(count, "0"),
    "n": lambda when, count: _number(when.microsecond * 1000, count),
    "A": lambda when, count: _number(
        ((when.hour * 60 + when.minute) * 60 + when.second) * 1000 + when.microsecond // 1000, count
    ),
    "N": lambda when, count: _number(
        (((when.hour * 60 + when.minute) * 60 + when.second) * 1_000_000 + when.microsecond) * 1000,
        count,
    ),
    "X": lambda when, count: _offset_text(when, has_colon=count in (3, 5), zero="Z", count=count),
    "x": lambda when, count: _offset_text(when, has_colon=count in (3, 5), zero=None, count=count),
    "Z": lambda when, count: _offset_text(when, has_colon=count == 5, zero=None, count=4),
    "z": lambda when, count: when.tzname() or "UTC",
    "V": lambda when, count: getattr(when.tzinfo, "key", None) or when.tzname() or "UTC",
    "O": lambda when, count: "GMT" + _offset_text(when, has_colon=True, zero="", count=1),
}


def _reader(letter: str, count: int, *, is_joined: bool) -> str:
    """Returns the expression that a part matches."""
    fixed = {
        "X": rf"Z|{_OFFSET}", "Z": rf"Z|{_OFFSET}", "x": rf"Z|{_OFFSET}",
        "z": rf"[A-Za-z][A-Za-z0-9_+\-/]*|{_OFFSET}", "V": rf"[A-Za-z][A-Za-z0-9_+\-/]*|{_OFFSET}",
        "O": rf"GMT(?:{_OFFSET})?", "a": "AM|PM", "G": "AD|BC",
    }  # fmt: skip
    if letter in fixed:
        return fixed[letter]
    if letter == "E" or (letter in ("M", "L") and count >= 3):
        names = _DAYS if letter == "E" else _MONTHS
        return "|".join(name if count == 4 else name[:3] for name in names)
    if letter == "S" or is_joined:
        return rf"\d{{{count}}}"
    if letter in ("y", "u", "Y"):
        years = {1: r"-?\d{1,9}", 2: r"\d{2}"}
        return years.get(count, rf"-?\d{{{count},9}}")
    if letter in ("D", "A", "N", "n"):
        return rf"\d{{{count},}}"
    return r"\d{1,2}" if count == 1 else rf"\d{{{count}}}"


def _read(letter: str, count: int, found: str, parts: dict[str, Any]) -> None:
    if letter in ("M", "L") and count >= 3:
        parts["M"] = [name[:3].lower() for name in _MONTHS].index(found[:3].lower()) + 1
    elif letter in ("X", "x", "Z", "z", "V", "O"):
        parts["zone"] = UTC if found in ("Z", "z", "GMT") else zone(found.removeprefix("GMT"))
    elif letter == "a":
        parts["a"] = found.upper()
    elif letter == "S":
        parts["S"] = int(found[:6].ljust(6, "0"))
    elif letter in ("y", "u", "Y"):
        parts["y"] = 2000 + int(found) if count == 2 else int(found)
    elif letter not in ("E", "G"):
        parts["M" if letter == "L" else letter] = int(found)


def _assembled(parts: dict[str, Any], where: tzinfo, *, is_lenient: bool) -> datetime:
    hour = parts.get("H", parts.get("k", 0) % 24)
    if "h" in parts or "K" in parts:
        hour = parts.get("h", parts.get("K", 0)) % 12 + (12 if parts.get("a") == "PM" else 0)
    microsecond = parts.get("S", parts.get("n", 0) // 1000)
    year, month, day = parts.get("y", 1970), parts.get("M", 1), parts.get("d", 1)
    rest = timedelta()
    if is_lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        rest, day = timedelta(days=day - 1), 1
    elif 28 < day <= 31:
        # A day that the month does not have is its last one.
        day = min(day, monthrange(year, month)[1])
    moment = rest + datetime(
        year, month, day, hour, parts.get("m", 0), parts.get("s", 0), microsecond,
        parts.get("zone", where),
    )  # fmt: skip
    if "D" in parts:
        moment = moment.replace(month=1, day=1) + timedelta(days=parts["D"] - 1)
    return moment


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
    rf"(?:\.(\d{{1,9}}))?)?)?)?)?\s*(Z|{_OFFSET})?|(\d{{4}})"
)


def read_timestamp(text: str) -> int:
    """Returns the TIMESTAMP of a text by ISO-8601, parts of which may be missing at the end."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no TIMESTAMP: write 2024-01-31T23:59:59.999")
    if match[9] is not None:
        return timestamp_of(datetime(int(match[9]), 1, 1, tzinfo=UTC))
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "0")[:6].ljust(6, "0"))
    where = zone(match[8]) if match[8] not in (None, "Z") else UTC
    moment = datetime(year, month, day or 1, hour, minute, second, micros, where)
    return timestamp_of(moment)


def read_date(text: str) -> int:
    if not re.fullmatch(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", text.strip()):
        raise ValueError(f"{text!r} is no DATE: write 2024-01-31")
    return read_timestamp(text) // DAY_MS


def read_time(text: str) -> int:
    match = re.fullmatch(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no TIME: write 23:59:59")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is no TIME: write 23:59:59")
    return ((hour * 60 + minute) * 60 + second) * 1000 + int((match[4] or "0")[:3].ljust(3, "0"))
