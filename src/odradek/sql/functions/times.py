"""Functions of dates and times."""

from datetime import UTC, timedelta
from typing import Final

from odradek.sql.functions.declaring import Subject
from odradek.sql.functions.java_times import (
    DAY_MS,
    java_time_format,
    lenient_time_format,
    moment_of,
    timestamp_of,
    zone,
)
from odradek.world.clock import SystemClock

SUBJECT: Final = Subject("Dates and times")
scalar = SUBJECT.scalar

_MS: Final = {
    "MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": DAY_MS,
    "WEEK": 7 * DAY_MS,
}  # fmt: skip


def _shifted(timestamp_ms: int, unit: str, count: int) -> int:
    """Adds an interval to a time. Months are as long as they are."""
    unit = unit.upper().removesuffix("S")
    if unit in _MS:
        return timestamp_ms + count * _MS[unit]
    if unit not in ("MONTH", "YEAR"):
        raise ValueError(f"the unit is one of {', '.join(_MS)}, MONTH, YEAR, not {unit}")
    moment = moment_of(timestamp_ms)
    months = moment.year * 12 + moment.month - 1 + count * (12 if unit == "YEAR" else 1)
    year, month = divmod(months, 12)
    for day in range(moment.day, 27, -1):
        try:
            return timestamp_of(moment.replace(year=year, month=month + 1, day=day))
        except ValueError:
            continue
    return timestamp_of(moment.replace(year=year, month=month + 1))


def _shift(name: str, kind: str, unit: int, sign: int, verb: str) -> None:
    def shift(given: str, count: int, value: int) -> int:
        # Parts of a day are cut off towards 1970, as Java does.
        result = _shifted(value * unit, given, sign * count)
        result = result // unit if result >= 0 else -(-result // unit)
        return result % DAY_MS if kind == "TIME" else result

    SUBJECT.add(
        name, shift, f"UNIT, INTEGER, {kind} -> {kind}",
        doc=f"{verb} a {kind}: {name}(DAYS, 2, value).",
    )  # fmt: skip


for _kind, _prefix, _unit in (("DATE", "DATE", DAY_MS), ("TIME", "TIME", 1),
                              ("TIMESTAMP", "TIMESTAMP", 1)):  # fmt: skip
    _shift(f"{_prefix}ADD", _kind, _unit, 1, "Adds an interval to")
    _shift(f"{_prefix}SUB", _kind, _unit, -1, "Takes an interval from")


@scalar("CONVERT_TZ", "TIMESTAMP, STRING, STRING -> TIMESTAMP")
def convert_tz(value: int, source: str, target: str) -> int:
    """Converts a time from one time zone to another."""
    offsets = [moment_of(value, zone(name)).utcoffset() or timedelta() for name in (source, target)]
    return value + (offsets[1] - offsets[0]) // timedelta(milliseconds=1)


@scalar("DATETOSTRING", "INTEGER, STRING -> STRING")
def datetostring(days: int, pattern: str) -> str:
    """Writes days since 1970-01-01 as text. FORMAT_DATE is its successor."""
    return _date_text(days, pattern)


def _date_text(days: int, pattern: str) -> str:
    form = java_time_format(pattern)
    form.require_parts_of("a date")
    return form.text(moment_of(days * DAY_MS))


@scalar("STRINGTODATE", "STRING, STRING -> INTEGER")
def stringtodate(text: str, pattern: str) -> int:
    """Reads a date as days since 1970-01-01. PARSE_DATE is its successor."""
    form = java_time_format(pattern)
    if not form.has_date:
        raise ValueError(f"{pattern!r} says no whole date: year, month and day")
    return timestamp_of(form.parse(text).replace(tzinfo=UTC)) // DAY_MS


@scalar("TIMESTAMPTOSTRING", "BIGINT, STRING -> STRING", "BIGINT, STRING, STRING -> STRING")
def timestamptostring(value: int, pattern: str, where: str = "UTC") -> str:
    """Writes milliseconds since 1970 as text. FORMAT_TIMESTAMP is its successor."""
    return java_time_format(pattern).text(moment_of(value, zone(where)))


@scalar("STRINGTOTIMESTAMP", "STRING, STRING -> BIGINT", "STRING, STRING, STRING -> BIGINT")
def stringtotimestamp(text: str, pattern: str, where: str = "UTC") -> int:
    """Reads a time as milliseconds since 1970. PARSE_TIMESTAMP is its successor."""
    return timestamp_of(java_time_format(pattern).parse(text, zone(where)))


@scalar("FORMAT_DATE", "DATE, STRING -> STRING")
def format_date(days: int, pattern: str) -> str:
    """Writes a date by a pattern such as yyyy-MM-dd."""
    return _date_text(days, pattern)


@scalar("FORMAT_TIME", "TIME, STRING -> STRING")
def format_time(value: int, pattern: str) -> str:
    """Writes a time of day by a pattern such as HH:mm:ss."""
    form = java_time_format(pattern)
    form.require_parts_of("a time of day")
    return form.text(moment_of(value))


@scalar("FORMAT_TIMESTAMP", "TIMESTAMP, STRING -> STRING", "TIMESTAMP, STRING, STRING -> STRING")
def format_timestamp(value: int, pattern: str, where: str = "UTC") -> str:
    """Writes a time by a pattern such as yyyy-MM-dd HH:mm:ss.SSS, in a time zone."""
    return java_time_format(pattern).text(moment_of(value, zone(where)))


@scalar("PARSE_DATE", "STRING, STRING -> DATE")
def parse_date(text: str, pattern: str) -> int:
    """Reads a date by a pattern such as yyyy-MM-dd. Digits may be missing, days beyond the end of a
    month go on in the next one, and what follows the date is not read."""
    found = timestamp_of(lenient_time_format(pattern).parse(text))
    if found % DAY_MS:
        raise ValueError(f"{text!r} has a time of day, and a date has none")
    return found // DAY_MS


@scalar("PARSE_TIME", "STRING, STRING -> TIME")
def parse_time(text: str, pattern: str) -> int:
    """Reads a time of day by a pattern such as HH:mm:ss."""
    form = java_time_format(pattern)
    form.require_parts_of("a time of day")
    return timestamp_of(form.parse(text)) % DAY_MS


@scalar("PARSE_TIMESTAMP", "STRING, STRING -> TIMESTAMP", "STRING, STRING, STRING -> TIMESTAMP")
def parse_timestamp(text: str, pattern: str, where: str = "UTC") -> int:
    """Reads a time by a pattern such as yyyy-MM-dd HH:mm:ss.SSS, in a time zone."""
    return timestamp_of(java_time_format(pattern).parse(text, zone(where)))


@scalar("FROM_DAYS", "INTEGER -> DATE")
def from_days(days: int) -> int:
    """Returns the date of days since 1970-01-01."""
    return days


@scalar("FROM_UNIXTIME", "BIGINT -> TIMESTAMP")
def from_unixtime(value: int) -> int:
    """Returns the time of milliseconds since 1970."""
    return value


def _now() -> int:
    return SystemClock().now_ms()


@scalar("UNIX_DATE", "-> INTEGER", is_deterministic=False)
def unix_date() -> int:
    """Returns the days from 1970-01-01 to a date, or to today."""
    return _now() // DAY_MS


@scalar("UNIX_DATE", "DATE -> INTEGER")
def unix_date_of(days: int) -> int:
    return days


@scalar("UNIX_TIMESTAMP", "-> BIGINT", is_deterministic=False)
def unix_timestamp() -> int:
    """Returns the milliseconds from 1970 to a time, or to now."""
    return _now()


@scalar("UNIX_TIMESTAMP", "TIMESTAMP -> BIGINT")
def unix_timestamp_of(value: int) -> int:
    return value
