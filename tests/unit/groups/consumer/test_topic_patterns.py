"""Regular expressions over topic names: as Python's where both agree, and never slow."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.groups.consumer.topic_patterns import InvalidPattern, TopicPattern

NAMES = st.text("ab.-_0A", min_size=1, max_size=8)

ATOMS = st.sampled_from(
    ["a", "b", "A", "0", ".", "\\.", "-", "_", "[ab]", "[^a]", "[a-z0]", "\\d", "\\w", "^", "$"]
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"({one})+?"),
        inner.map(lambda one: f"({one})?"),
        inner.map(lambda one: f"(?:{one}){{1,3}}"),
    )


PATTERNS = st.recursive(ATOMS, _combined, max_leaves=8)


@given(PATTERNS, NAMES)
def test_it_agrees_with_python(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern, name, re.ASCII) is not None
    assert TopicPattern(pattern).matches(name) is expected


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^orders-.*", "orders-eu", "my-orders-eu"),
        ("^a.*|^b.*", "bc", "cb"),
        ("(?i)Orders", "oRDERS", "order"),
        ("a(?i:b)c", "aBc", "aBC"),
        ("(?i)[x-z]+", "XyZ", "w"),
        (r"\Qa.b\E", "a.b", "axb"),
        (r"\Qa.b", "a.b", "axb"),
        ("[[:alpha:]]+", "abC", "ab1"),
        ("[^[:digit:]]+", "ab-", "a1"),
        ("[[:^upper:]]", "a", "A"),
        (r"[\d_]+", "1_2", "1a"),
        (r"\pL+", "ab", "a1"),
        (r"\p{Lu}\P{L}", "A1", "AA"),
        (r"\p{^Lu}", "a", "A"),
        (r"\p{Latin}", "a", "1"),
        (r"\x61\x{62}c", "abc", "abe"),
        (r"\A[a-c]\z", "b", "d"),
        (r"[\x61-\x63]+", "abc", "abd"),
        (r"[^\x00-a]+", "bz", "ab"),
        (r"[\.-9]+", "1.9", "1-9"),
        (r"\141[\142-\144]", "ac", "ae"),
        ("(?P<name>a)(?<other>b)", "ab", "ba"),
        ("a{2}", "aa", "aaa"),
        ("a{2,}", "aaa", "a"),
        ("[]a]", "a", "b"),
        ("[a-]", "-", "b"),
        ("(?s-m).", "a", "aa"),
        ("a|", "a", "b"),
        ("é|a", "a", "e"),
    ],
)
def test_what_re2_knows(pattern: str, yes: str, no: str) -> None:
    made = TopicPattern(pattern)
    assert made.matching([yes, no]) == {yes}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"),
        ("a)", "unexpected )"),
        ("[a", "ends too early"),
        ("*a", "nothing before * to repeat"),
        ("a**", "one repetition after another"),
        (r"\bword", r"\b is not supported"),
        (r"(a)\1", r"\1 is not supported"),
        ("(?=a)", "(?= is not supported"),
        ("(?P<1>a)", "group's name"),
        ("a{3,2}", "bad number"),
        ("a{1001}", "bad number"),
        ("[z-a]", "z-a is no range"),
        (r"[a-\d]", "a- is no range"),
        ("[[:nothing:]]", "not supported"),
        (r"\p{Greek}", "not supported"),
        (r"\x{110000}", "no character"),
        ("\\", "ends too early"),
        ("(a{1000}){1000}", "too large"),
        ("a" * 3000, "longer than"),
        ("(" * 200 + ")" * 200, "within each other"),
    ],
)
def test_what_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(InvalidPattern, match=re.escape(why)):
        TopicPattern(pattern)


def test_what_ruins_others_costs_nothing_here() -> None:
    """With backtracking this would not end."""
    name = "a" * 249
    assert not TopicPattern("(a+)+b").matches(name)
    assert TopicPattern("(a|aa)+").matches(name)
    assert TopicPattern("(a?){200}a{49}").matches(name)


def test_too_much_work_is_refused() -> None:
    letters = string.ascii_letters
    names = [f"{a}{b}{c}" * 80 for a in letters for b in letters for c in letters[:4]]
    with pytest.raises(InvalidPattern, match="too long to match"):
        TopicPattern("((.?){30}[abc]){30}").matching(names)


@given(st.text(max_size=20), NAMES)
def test_any_text_is_taken_or_refused(pattern: str, name: str) -> None:
    try:
        made = TopicPattern(pattern)
    except InvalidPattern:
        return
    assert made.matches(name) in (True, False)
