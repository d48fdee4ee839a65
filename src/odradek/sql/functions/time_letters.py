"""The letters of the patterns of Java's DateTimeFormatter: how each is written and matched.

Names and weeks are those of the United States, the default of Java in most images: a week starts on
Sunday, and the first week of a year is the one that has the first of January.
"""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Final

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
QUARTERS: Final = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
OFFSET: Final = r"[+-]\d\d(?::?\d\d)?(?::?\d\d)?"
_ZONE_NAMES: Final = {
    "UTC": "Coordinated Universal Time", "GMT": "Greenwich Mean Time",
    "EST": "Eastern Standard Time", "EDT": "Eastern Daylight Time",
    "CST": "Central Standard Time", "CDT": "Central Daylight Time",
    "MST": "Mountain Standard Time", "MDT": "Mountain Daylight Time",
    "PST": "Pacific Standard Time", "PDT": "Pacific Daylight Time",
    "CET": "Central European Standard Time", "CEST": "Central European Summer Time",
    "EET": "Eastern European Standard Time", "EEST": "Eastern European Summer Time",
    "WET": "Western European Standard Time", "WEST": "Western European Summer Time",
    "JST": "Japan Standard Time", "IST": "India Standard Time",
}  # fmt: skip
# Names that mean another zone elsewhere: only of zones whose names start so.
_ZONES_OF_NAMES: Final = {
    "CST": "America/", "CDT": "America/", "EST": "America/", "EDT": "America/",
    "MST": "America/", "IST": "Asia/",
}  # fmt: skip
# How often each letter may stand in a row; one that is not here may stand 19 times.
_MOST: Final = {
    "W": 1, "F": 1, "a": 1, "V": 2, "D": 3, "z": 4, "O": 4,
    **dict.fromkeys("dwhHkKms", 2), **dict.fromkeys("GMLQqEecZXx", 5), "S": 9,
}  # fmt: skip
_ONLY: Final = {"V": (2,), "O": (1, 4), "c": (1, 3, 4, 5)}


def check_letters(letters: str, pattern: str, *, is_any_number: bool = False) -> None:
    """Raises `ValueError` if these letters, all the same, are no part of a time."""
    letter, count = letters[0], len(letters)
    if letter not in _WRITERS:
        raise ValueError(f"{letters!r} in {pattern!r} is not a part of a time")
    if not is_any_number and count not in _ONLY.get(letter, range(1, _MOST.get(letter, 19) + 1)):
        raise ValueError(f"{letters!r} in {pattern!r} is not a part of a time: {count} letters")


def first_day_of_week_year(year: int) -> date:
    """Returns the Sunday on which the first week of a year starts."""
    first = date(year, 1, 1)
    return first - timedelta(days=first.isoweekday() % 7)


def _saturday(when: datetime) -> date:
    return when.date() + timedelta(days=6 - when.isoweekday() % 7)


def write(letter: str, count: int, moment: datetime) -> str:
    return _WRITERS[letter](moment, count)


def _number(value: int, count: int) -> str:
    return str(value).zfill(count)


def _name(names: tuple[str, ...], index: int, count: int) -> str:
    return names[index][: {3: 3, 5: 1}.get(count)]


def _month(when: datetime, count: int) -> str:
    return _name(MONTHS, when.month - 1, count) if count >= 3 else _number(when.month, count)


def _quarter(when: datetime, count: int) -> str:
    index = (when.month - 1) // 3
    if count in (3, 5):
        return f"{'Q' if count == 3 else ''}{index + 1}"
    return QUARTERS[index] if count == 4 else _number(index + 1, count)


def _year(year: int, count: int) -> str:
    return f"{year % 100:02}" if count == 2 else _number(year, count)


def _day_name(when: datetime, count: int) -> str:
    return _name(DAYS, when.isoweekday() % 7, max(count, 3))


def _day_of_week(when: datetime, count: int) -> str:
    return _day_name(when, count) if count >= 3 else _number(when.isoweekday() % 7 + 1, count)


def _week_of_month(when: datetime, count: int) -> str:
    before = when.replace(day=1).isoweekday() % 7
    return _number((when.day - 1 + before) // 7 + 1, count)


def _offset(
    when: datetime, *, colon: str = ":", zero: str | None = None, has_minutes: bool = True,
    has_seconds: bool = True,
) -> str:  # fmt: skip
    offset = when.utcoffset() or timedelta()
    if zero is not None and not offset:
        return zero
    sign, size = ("-", -offset) if offset < timedelta() else ("+", offset)
    hours, rest = divmod(int(size.total_seconds()), 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{sign}{hours:02}"
    if has_minutes or minutes:
        text += f"{colon}{minutes:02}"
    return f"{text}{colon}{seconds:02}" if has_seconds and seconds else text


def _x_offset(when: datetime, count: int, *, zero: str | None) -> str:
    colon = ":" if count in (3, 5) else ""
    return _offset(when, colon=colon, zero=zero, has_minutes=count > 1, has_seconds=count > 3)


def _gmt_offset(when: datetime, count: int) -> str:
    text = _offset(when, zero="", has_minutes=count == 4)
    return "GMT" + (text if count == 4 else re.sub("^([+-])0", r"\1", text))


def _z_offset(when: datetime, count: int) -> str:
    if count == 4:
        return _gmt_offset(when, count)
    return (
        _x_offset(when, count, zero="Z")
        if count == 5
        else _offset(when, colon="", has_seconds=False)
    )


def _zone_id(when: datetime, count: int) -> str:
    return getattr(when.tzinfo, "key", None) or _offset(when, zero="Z")


def _zone_name(when: datetime, count: int) -> str:
    key = getattr(when.tzinfo, "key", None)
    if key is None:
        return _zone_id(when, count)
    name = when.tzname() or "UTC"
    if count < 4:
        return name
    if name not in _ZONE_NAMES or not key.startswith(_ZONES_OF_NAMES.get(name, "")):
        raise ValueError(f"the full name of the time zone {key!r} is not known: write 'z' or 'VV'")
    return _ZONE_NAMES[name]


def _second_of_day(when: datetime) -> int:
    return (when.hour * 60 + when.minute) * 60 + when.second


_WRITERS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "y": lambda when, count: _year(when.year, count),
    "u": lambda when, count: _year(when.year, count),
    "Y": lambda when, count: _year(_saturday(when).year, count),
    "M": _month,
    "L": _month,
    "d": lambda when, count: _number(when.day, count),
    "D": lambda when, count: _number(when.timetuple().tm_yday, count),
    "E": _day_name,
    "e": _day_of_week,
    "c": _day_of_week,
    "F": lambda when, count: _number((when.day - 1) % 7 + 1, count),
    "W": _week_of_month,
    "w": lambda when, count: _number((_saturday(when).timetuple().tm_yday - 1) // 7 + 1, count),
    "Q": _quarter,
    "q": _quarter,
    "a": lambda when, count: "AM" if when.hour < 12 else "PM",
    "G": lambda when, count: {4: "Anno Domini", 5: "A"}.get(count, "AD"),
    "H": lambda when, count: _number(when.hour, count),
    "k": lambda when, count: _number(when.hour or 24, count),
    "h": lambda when, count: _number(when.hour % 12 or 12, count),
    "K": lambda when, count: _number(when.hour % 12, count),
    "m": lambda when, count: _number(when.minute, count),
    "s": lambda when, count: _number(when.second, count),
    "S": lambda when, count: f"{when.microsecond:06}000"[:count].ljust(count, "0"),
    "n": lambda when, count: _number(when.microsecond * 1000, count),
    "A": lambda when, count: _number(_second_of_day(when) * 1000 + when.microsecond // 1000, count),
    "N": lambda when, count: _number(
        (_second_of_day(when) * 1_000_000 + when.microsecond) * 1000, count
    ),
    "X": lambda when, count: _x_offset(when, count, zero="Z"),
    "x": lambda when, count: _x_offset(when, count, zero=None),
    "Z": _z_offset,
    "z": _zone_name,
    "V": _zone_id,
    "O": _gmt_offset,
}


def expression(letter: str, count: int, *, is_joined: bool) -> str:
    """Returns the regular expression that a part matches."""
    zones = rf"[A-Za-z][A-Za-z0-9_+\-/]*(?::\d\d)*|{OFFSET}"
    fixed = {
        "X": rf"Z|{OFFSET}", "Z": rf"Z|(?:GMT)?{OFFSET}|GMT", "x": rf"Z|{OFFSET}",
        "z": zones if count < 4 else "|".join((*_ZONE_NAMES.values(), zones)), "V": zones,
        "O": r"GMT(?:[+-]\d{1,2}(?::\d\d)?(?::\d\d)?)?", "a": "AM|PM",
        "G": {4: "Anno Domini|Before Christ", 5: "A|B"}.get(count, "AD|BC"),
    }  # fmt: skip
    if letter in fixed:
        return fixed[letter]
    if letter in ("Q", "q") and count in (3, 4):
        return "Q[1-4]" if count == 3 else "|".join(QUARTERS)
    if letter == "E" or (letter in ("M", "L", "e", "c") and count >= 3):
        names = MONTHS if letter in ("M", "L") else DAYS
        return "|".join(_name(names, index, max(count, 3)) for index in range(len(names)))
    return _digits(letter, count, is_joined=is_joined)


def _digits(letter: str, count: int, *, is_joined: bool) -> str:
    if letter == "S" or is_joined:
        return rf"\d{{{count}}}"
    if letter in ("y", "u", "Y"):
        years = {1: r"-?\d{1,9}", 2: r"\d{2}"}
        return years.get(count, rf"-?\d{{{count},9}}")
    if letter == "D":
        return rf"\d{{{count},3}}"
    if letter in ("A", "N", "n"):
        return rf"\d{{{count},}}"
    return r"\d{1,2}" if count == 1 else rf"\d{{{count}}}"


def zone_of_name(found: str) -> str:
    """Returns the short name of a time zone, by which its rules are found."""
    short = {long.lower(): name for name, long in _ZONE_NAMES.items()}
    return short.get(found.lower(), found)
