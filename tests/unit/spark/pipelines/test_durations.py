"""Durations of triggers and watermarks, as Spark reads them (tests/spark compares with Spark)."""

import pytest

from odradek.spark.pipelines.durations import BadDuration, check_duration

GOOD = (
    "5 seconds",
    "1 second",
    "10 Seconds ",
    "1.5 seconds",
    ".5 seconds",
    "+ 3 seconds",
    "0 seconds",
    "1 hour 30 minutes",
    "interval 3 days",
    "10 microsecond",
    "1 week",
)
BAD = (
    ("5 secs ago", 'write "5 seconds"'),
    ("10s", 'write "10 seconds"'),
    ("1h30m", 'write "1 hour 30 minutes"'),
    ("10 min", 'write "10 minutes"'),
    ("1 mins", 'write "1 minute"'),
    ("250ms", 'write "250 milliseconds"'),
    ("5 secnds", 'write "5 seconds"'),
    ("1_000 seconds", 'write "1000 seconds"'),
    ("3", 'write "3 seconds"'),
    ("-3 seconds", 'write "3 seconds"'),
    ("five seconds", 'write "5 seconds"'),
    ("1 fortnight", "there is no unit fortnight; there are microseconds, milliseconds, seconds,"),
    ("1.5 minutes", "only seconds can have a fraction"),
)


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("is_trigger", [True, False])
def test_what_spark_takes_is_taken(text: str, is_trigger: bool) -> None:
    check_duration(text, is_trigger=is_trigger)


@pytest.mark.parametrize(("text", "said"), BAD)
@pytest.mark.parametrize("is_trigger", [True, False])
def test_what_spark_refuses_comes_with_what_to_write(
    text: str, said: str, is_trigger: bool
) -> None:
    with pytest.raises(BadDuration) as refused:
        check_duration(text, is_trigger=is_trigger)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["2 months", "1 year", "interval '1 day'"])
def test_a_trigger_is_stricter_than_a_watermark(text: str) -> None:
    check_duration(text)
    with pytest.raises(BadDuration):
        check_duration(text, is_trigger=True)
