"""One parser per kind of value, for brokers, clients, the command line and Spark's options."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import odradek
from odradek.config.values import (
    InvalidValue,
    in_a_line,
    parse_boolean,
    parse_duration_ms,
    parse_integer,
    parse_iso_duration_ms,
    parse_list,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_boolean, "TRUE", True),
        (parse_boolean, "false", False),
        (parse_integer, "-17", -17),
        (parse_list, "a, b,c", ("a", "b", "c")),
        (parse_list, "", ()),
        (parse_duration_ms, "500ms", 500),
        (parse_duration_ms, "1.5 h", 5_400_000),
        (parse_duration_ms, "15min", 900_000),
        (parse_duration_ms, "2w", 1_209_600_000),
        (parse_iso_duration_ms, "PT1H30M", 5_400_000),
        (parse_iso_duration_ms, "P1DT0.5S", 86_400_500),
        (parse_iso_duration_ms, "-PT1.5S", -1_500),
        (parse_size_bytes, "10MB", 10_000_000),
        (parse_size_bytes, "512KiB/s", 524_288),
        (parse_size_bytes, "17", 17),
    ],
)
def test_values(parse: Callable[[str], object], text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_boolean, "yes", "must be true or false"),
        (parse_integer, "1_000", "must be a whole number"),
        (parse_integer, "٣", "must be a whole number"),
        (parse_duration_ms, "30", "write it as in 7d, 12h or 30s"),
        (parse_duration_ms, "soon", "write it as in 7d, 12h or 30s"),
        (parse_iso_duration_ms, "PT", "is not like P1D"),
        (parse_iso_duration_ms, "1h", "is not like P1D"),
        (parse_size_bytes, "10 bananas", "write it as in 10MB or 512KiB"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(
    parse: Callable[[str], object], text: str, said: str
) -> None:
    with pytest.raises(InvalidValue, match=re.escape(said)):
        parse(text)


def test_a_unit_may_be_given_for_numbers_without_one() -> None:
    assert parse_duration_ms("250", default_unit="ms") == 250
    assert parse_duration_ms("2s", default_unit="ms") == 2_000


def test_what_is_shown_fits_a_line() -> None:
    assert in_a_line("a\nb") == "a\\nb"
    assert len(in_a_line("x" * 1000)) == 101


def test_no_other_module_parses_durations_or_sizes() -> None:
    """A table of units is the mark of such a parser."""
    source = Path(odradek.__file__).parent
    found = [
        str(path.relative_to(source))
        for path in sorted(source.rglob("*.py"))
        if re.search(r'"(ms|kb|kib)": \d', path.read_text(), re.IGNORECASE)
    ]
    assert found == ["config/values.py"]
