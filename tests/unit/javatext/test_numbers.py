"""Numbers as Java writes them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.javatext.numbers import double_text, float_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e10, "1.25E10"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.5e-7, "-1.5E-7"),
        (float("-inf"), "-Infinity"),
        # The nearest text of two digits
        (5e-324, "4.9E-324"),
        (-1e-323, "-9.9E-324"),
        (2e23, "2.0E23"),
    ],
)
def test_doubles(number: float, text: str) -> None:
    assert double_text(number) == text


def test_the_least_float() -> None:
    assert float_text(1.401298464324817e-45) == "1.4E-45"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_are_the_shortest_text_of_their_32_bits(number: float) -> None:
    text = float_text(number)
    assert struct.pack(">f", float(text)) == struct.pack(">f", number)
    assert len(text) <= len(double_text(number))
