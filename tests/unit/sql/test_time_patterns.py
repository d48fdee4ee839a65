"""Times by patterns, as Java's DateTimeFormatter writes and reads them in the United States."""

import pytest

from odradek.sql.functions.java_times import (
    JavaTimeFormat,
    java_time_format,
    moment_of,
    timestamp_of,
    zone,
)

_NEW_YEARS_EVE = 1_735_603_200_000  # Tuesday, 2024-12-31 00:00 UTC


@pytest.mark.parametrize(
    ("pattern", "where", "text"),
    [
        ("QQQ QQQQ QQQQQ qq", "UTC", "Q4 4th quarter 4 04"),
        ("MMMMM LLL MMMM", "UTC", "D Dec December"),
        ("E EEEE EEEEE e ee eee eeee c cccc", "UTC", "Tue Tuesday T 3 03 Tue Tuesday 3 Tuesday"),
        # The first of January is on Wednesday, and so is this week the first one of 2025.
        ("YYYY-'W'ww-e YY Y", "UTC", "2025-W01-3 25 2025"),
        ("W F D DDD", "UTC", "5 3 366 366"),
        ("G GGGG GGGGG", "UTC", "AD Anno Domini A"),
        ("z zzzz VV", "America/New_York", "EST Eastern Standard Time America/New_York"),
        ("z zzzz VV", "UTC", "UTC Coordinated Universal Time UTC"),
        ("z zzzz VV", "GMT", "GMT Greenwich Mean Time GMT"),
        ("z zzzz VV", "+05:45", "+05:45 +05:45 +05:45"),
        ("X XX XXX XXXX XXXXX", "+05:45", "+0545 +0545 +05:45 +0545 +05:45"),
        ("X x Z ZZZZ ZZZZZ", "UTC", "Z +00 +0000 GMT Z"),
        ("X x Z ZZZZ ZZZZZ", "-03:00", "-03 -03 -0300 GMT-03:00 -03:00"),
        ("O OOOO", "-03:30", "GMT-3:30 GMT-03:30"),
        ("O OOOO", "Europe/Paris", "GMT+1 GMT+01:00"),
        ("pppppM|ppd", "UTC", "   12|31"),
    ],
)
def test_times_are_written_as_java_does(pattern: str, where: str, text: str) -> None:
    assert java_time_format(pattern).text(moment_of(_NEW_YEARS_EVE, zone(where))) == text


@pytest.mark.parametrize(
    ("pattern", "text", "timestamp"),
    [
        ("YYYY-'W'ww-e", "2025-W01-3", _NEW_YEARS_EVE),
        ("YYYY-ww-EEE", "2025-01-Tue", _NEW_YEARS_EVE),
        # A year has no week 53 that starts the next one: its last one is meant.
        ("YYYY-'W'ww-e", "2024-W53-7", 1_735_344_000_000),
        ("EEE, dd MMM yyyy HH:mm:ss Z", "tue, 31 DEC 2024 05:45:00 +0545", _NEW_YEARS_EVE),
        ("QQQ yyyy-MM-dd", "Q4 2024-12-31", _NEW_YEARS_EVE),
        ("ppd/ppM/yyyy", "31/12/2024", _NEW_YEARS_EVE),
        ("ppd/ppM/yyyy", " 1/ 2/2024", 1_706_745_600_000),
        ("yyyy-MM-dd HH:mm:ss", "2024-12-30 24:00:00", _NEW_YEARS_EVE),
        ("HH:mm", "24:00", 0),
        ("yyyy-MM-dd A", "2024-12-31 1001", _NEW_YEARS_EVE + 1001),
        ("N", "86399999000000", 86_399_999),
        ("yyyy-MM-dd HH:mm O", "2024-12-30 21:00 GMT-3", _NEW_YEARS_EVE),
        ("yyyy-MM-dd HH:mm z", "2024-12-30 19:00 EST", _NEW_YEARS_EVE),
        ("yyyy-MM-dd HH:mm zzzz", "2024-12-30 19:00 Eastern Standard Time", _NEW_YEARS_EVE),
        ("yyyy-MM-dd HH:mm VV", "2024-12-31 01:00 Europe/Paris", _NEW_YEARS_EVE),
    ],
)
def test_times_are_read_as_java_does(pattern: str, text: str, timestamp: int) -> None:
    assert timestamp_of(java_time_format(pattern).parse(text, zone("UTC"))) == timestamp


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("EEE, dd MMM yyyy", "Mon, 31 Dec 2024"),
        ("yyyyDDD", "2023366"),
        ("yyyyDDD", "20240101101112123"),
        ("h:mm a", "13:30 AM"),
        ("K:mm a", "12:30 AM"),
        ("A", "86400000"),
        ("yyyy-MM-dd HH:mm", "2024-12-31 24:01"),
    ],
)
def test_what_is_no_time_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=" "):
        java_time_format(pattern).parse(text)


@pytest.mark.parametrize(
    "pattern",
    ["ddd", "MMMMMM", "HHH", "aa", "V", "VVV", "OO", "cc", "zzzzz", "XXXXXX", "b", "{", "y#", "p"],
)
def test_patterns_that_java_does_not_know_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="of a time"):
        JavaTimeFormat(pattern)


def test_full_name_of_a_zone_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Asia/Dubai"):
        java_time_format("zzzz").text(moment_of(0, zone("Asia/Dubai")))
