"""Regular expressions of SQL: what Java's engine finds by the same patterns."""

import pytest

from odradek.javatext.patterns import BadPattern
from odradek.sql.functions.patterns import regexp_extract_all, regexp_replace


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\p{L}+", "été 12 Ω", ["été", "Ω"]),
        (r"\P{L}+", "a-1b", ["-1"]),
        (r"\pL\PL", "a1", ["a1"]),
        (r"[\p{L}\p{N}]+", "é1-2", ["é1", "2"]),
        (r"\p{IsAlphabetic}+", "é1", ["é"]),
        (r"\p{IsGreek}+", "aΩ", ["Ω"]),
        (r"\p{script=Latin}\p{gc=Lu}", "aΩaBcé", ["aΩ", "aB"]),
        (r"\p{javaLowerCase}+", "aéB", ["aé"]),
        (r"[\p{Alpha}_]+", "a_1[]", ["a_"]),
        (r"[\P{Alpha}x]+", "abx1", ["x1"]),
        (r"[^\d_]+", "a1_b", ["a", "b"]),
        (r"[\W_]+", "a_-b", ["_-"]),
        (r"\d+(?=b)", "1b٢b", ["1"]),
        ("[a-c[x-z]]+", "ax[]", ["ax"]),
        ("[a-z&&[^aeiou]]+", "abcde", ["bcd"]),
        ("[[:alpha:]]", "bp:", ["p", ":"]),
        ("[]a]", "a]", ["a", "]"]),
        ("[a||b~~]+", "a|b~c", ["a|b~"]),
        (".", "a\r\nb\u2028", ["a", "b"]),
        ("(?s).", "a\n", ["a", "\n"]),
        (r"\h+\H", "a \xa0b", [" \xa0b"]),
        (r"\v", "a\r\x0b", ["\r", "\x0b"]),
        (r"\e\0101\x41\u0041\cI\x{42}", "\x1bAAA\tB", ["\x1bAAA\tB"]),
        (r"\Q[.]\E+", "[.]]", ["[.]]"]),
        (r"(?<l>o)\k<l>", "foo", ["oo"]),
        (r"(\w)\1", "foo", ["oo"]),
        (r"\N{LATIN SMALL LETTER A}", "ab", ["a"]),
        ("$", "ab", [""]),
        (r"\z", "ab", [""]),
        (r"\b", "ab", ["", ""]),
    ],
)
def test_java_patterns(pattern: str, text: str, found: list[str]) -> None:
    assert regexp_extract_all(pattern, text) == found


def test_the_end_of_a_text_is_replaced_once() -> None:
    assert regexp_replace("ab", "$", "x") == "abx"


def test_new_text_is_looked_at_only_for_a_match() -> None:
    assert regexp_replace("ab", "c", "$9") == "ab"
    with pytest.raises(BadPattern, match="no group 9"):
        regexp_replace("ab", "b", "$9")


@pytest.mark.parametrize(
    "pattern", ["{", "a{", "a{,2}", "[a", "(a", "a\\", r"\p{Foo}", r"\N{FOO}", "*a"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        regexp_extract_all(pattern, "a")
