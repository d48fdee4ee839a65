"""Dates, times and intervals of PostgreSQL as text, and what they become.

The texts are those of the settings `datestyle=ISO`, `intervalstyle=postgres`, `timezone=UTC`.
PostgreSQL's years go from 4713 before our era to 294276, further than those of Python, and it has
an infinite past and future. Those become the numbers that Debezium has for them.
"""

import re
from functools import lru_cache
from typing import Final

from odradek.connect.errors import DataError

DAY_US: Final = 86_400_000_000
INFINITY: Final = "infinity"
MINUS_INFINITY: Final = "-infinity"

# What PostgreSQL's driver for Java, and so Debezium, takes for the infinite future and past.
_INFINITE_DAYS: Final = {INFINITY: -2_147_472_692, MINUS_INFINITY: -2_147_472_691}
_INFINITE_MS: Final = {INFINITY: 9_223_372_036_825_200, MINUS_INFINITY: -9_223_372_036_832_400}
_INFINITE_TEXTS: Final = {
    INFINITY: "+294247-01-10T04:00:25.2Z",
    MINUS_INFINITY: "-290308-12-21T19:59:27.6Z",
}

_DATE: Final = re.compile(r"(\d+)-(\d\d)-(\d\d)( BC)?")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$")
_INTERVAL_PART: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_INTERVAL_TIME: Final = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?$")
_LARGEST: Final = (1 << 63) - 1
_MONTH_US: Final = 30.4375 * DAY_US
"""A month is a twelfth of 365.25 days."""


@lru_cache(10_000)
def days(text: str) -> int:
    """Returns the days from 1970 to a date."""
    if text in _INFINITE_DAYS:
        return _INFINITE_DAYS[text]
    match = _DATE.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a date")
    year = int(match[1])
    return _days(1 - year if match[4] else year, int(match[2]), int(match[3]))


def _days(year: int, month: int, day: int) -> int:
    """Counts in the Gregorian calendar, also before it was in use. A year begins in March here, so
    that the 29th of February is its last day."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def micros_of_day(text: str) -> int:
    """Returns the microseconds from midnight to a time."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a time")
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3])
    fraction = match[4]
    return seconds * 1_000_000 + (int(fraction.ljust(6, "0")) if fraction else 0)


def micros(text: str) -> int:
    """Returns the microseconds from 1970 to a time without a zone. Those of PostgreSQL's years
    after 294246 do not fit into 64 bits: they are the largest number, as with Debezium."""
    if text in _INFINITE_MS:
        return _INFINITE_MS[text] * 1000
    return min(_micros(text), _LARGEST)


def _micros(text: str) -> int:
    date, time = _parts(text)
    return days(date) * DAY_US + micros_of_day(time)


def millis(text: str) -> int:
    if text in _INFINITE_MS:
        return _INFINITE_MS[text]
    return _micros(text) // 1000


def nanos(text: str) -> int | None:
    """Returns None for a time before 1677 or after 2262, whose nanoseconds do not fit into 64
    bits; the infinite times are the largest and the smallest number. So it is with Debezium."""
    if text in _INFINITE_MS:
        return _LARGEST if text == INFINITY else -_LARGEST - 1
    found = _micros(text) * 1000
    return found if -_LARGEST <= found <= _LARGEST else None


def iso_date(text: str) -> str:
    if text in _INFINITE_MS:
        return text
    match = _DATE.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a date")
    year = 1 - int(match[1]) if match[4] else int(match[1])
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{match[2]}-{match[3]}"


def iso_timestamp(text: str) -> str:
    """Returns a time without a zone, with the digits of a second that it has."""
    if text in _INFINITE_TEXTS:
        return _INFINITE_TEXTS[text]
    date, time = _parts(text)
    whole, _, fraction = time.partition(".")
    digits = fraction.rstrip("0")
    return f"{iso_date(date)}T{whole}{'.' + digits if digits else ''}Z"


def zoned_timestamp(text: str, precision: int) -> str:
    """Returns a time with a zone in UTC, with so many digits of a second."""
    if text in _INFINITE_MS:
        return text
    # The zone of the session is UTC, so the offset is always +00.
    date, time = _parts(text.replace("+00", "", 1))
    return f"{iso_date(date)}T{_with_digits(time, precision)}Z"


def _parts(text: str) -> tuple[str, str]:
    """Returns date and time; the era stands after the time, and belongs to the date."""
    date, _, time = text.partition(" ")
    if time.endswith(" BC"):
        return f"{date} BC", time[:-3]
    return date, time


def _with_digits(time: str, precision: int) -> str:
    whole, _, fraction = time.partition(".")
    return f"{whole}.{fraction.ljust(precision, '0')[:precision]}" if precision else whole


def zoned_time(text: str) -> str:
    """Returns a time of day in UTC, with the digits of a second that it has."""
    match = _OFFSET.search(text)
    if match is None:
        raise DataError(f"{text!r} is not a time with a zone")
    offset = (int(match[2]) * 60 + int(match[3] or 0)) * 60 + int(match[4] or 0)
    offset = -offset if match[1] == "-" else offset
    return f"{_time_text((micros_of_day(text[: match.start()]) - offset * 1_000_000) % DAY_US)}Z"


def iso_time(text: str) -> str:
    return f"{_time_text(micros_of_day(text) % DAY_US)}Z"


def _time_text(micros_: int) -> str:
    seconds, fraction = divmod(micros_, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{hour:02}:{minute:02}:{second:02}{digits}"


def _interval(text: str) -> tuple[int, int, int, int]:
    """Returns years, months, days and microseconds."""
    parts = {unit: int(number) for number, unit in _INTERVAL_PART.findall(text)}
    match = _INTERVAL_TIME.search(text)
    micros_ = 0
    if match is not None:
        seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
        micros_ = seconds * 1_000_000 + int((match[5] or "").ljust(6, "0"))
        micros_ = -micros_ if match[1] == "-" else micros_
    return parts.get("year", 0), parts.get("mon", 0), parts.get("day", 0), micros_


def interval_micros(text: str) -> int:
    """An interval of more than 292,000 years is the largest number of 64 bits, as in Java."""
    years, months, days_, micros_ = _interval(text)
    found = int((years * 12 + months) * _MONTH_US) + days_ * DAY_US + micros_
    return max(-_LARGEST - 1, min(found, _LARGEST))


def iso_interval(text: str) -> str:
    years, months, days_, micros_ = _interval(text)
    sign = "-" if micros_ < 0 else ""
    seconds, fraction = divmod(abs(micros_), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    digits = f".{fraction:06}".rstrip("0") if fraction else ""

    def signed(number: int, digits: str = "") -> str:
        return f"{sign if number or digits else ''}{number}{digits}"

    return f"P{years}Y{months}M{days_}DT{signed(hours)}H{signed(minute)}M{signed(second, digits)}S"
