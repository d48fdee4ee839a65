"""Regular expressions over topic names: as Python's where both agree, and never slow."""

import re
import string
import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odradek.groups.consumer import topic_pattern_syntax, topic_patterns
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


def _matches(pattern: str, name: str) -> bool:
    return TopicPattern(pattern).matching([name]) == {name}


@given(PATTERNS, NAMES)
def test_it_agrees_with_python(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern, name, re.ASCII) is not None
    assert _matches(pattern, name) is expected


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
        ("[z-a]", "z-a is not a valid range"),
        (r"[a-\d]", "a- is not a valid range"),
        ("[[:nothing:]]", "not supported"),
        (r"\p{Greek}", "not supported"),
        (r"\x{110000}", "not a character"),
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
    assert not _matches("(a+)+b", name)
    assert _matches("(a|aa)+", name)
    assert _matches("(a?){200}a{49}", name)


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
    assert made.matching([name]) in ({name}, set())


# The bounds on work are checked by the lines of the two modules that Python runs, which do not
# depend on how busy the machine is. A line takes some tenths of a microsecond.
_MODULES = (topic_patterns.__file__, topic_pattern_syntax.__file__)
_MAX_LINES_TO_COMPILE = 300_000
_MAX_LINES_TO_MATCH = 4_000_000


def _lines_run(action: Callable[[], object]) -> int:
    lines = 0

    def on_line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, argument: object) -> Any:
        return on_line if frame.f_code.co_filename in _MODULES else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        action()
    except InvalidPattern:
        pass
    finally:
        sys.settrace(before)
    return lines


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["{200}", "{1000}", "{0,1000}", "{1000,}", "*", "+", "?", "{0}"])
    return st.one_of(
        st.tuples(inner, counts).map(lambda two: f"({two[0]}){two[1]}"),
        st.tuples(inner, st.integers(1, 300)).map(lambda two: f"({'|'.join([two[0]] * two[1])})"),
        st.tuples(inner, st.integers(1, 300)).map(lambda two: two[0] * two[1]),
        st.tuples(inner, st.integers(1, 50)).map(
            lambda two: "(?:" * two[1] + f"{two[0]}|" + "b)+" * two[1]
        ),
    )


HARD_PATTERNS = st.recursive(
    st.sampled_from(["", "()", "a", "^", "$", ".", "[a-z]", "(?i)", "(?i:a)", "\\pL", "{", "|"]),
    _repeated,
    max_leaves=6,
)


@given(HARD_PATTERNS)
@example("(((){200}){200}){200}")
@example("((){1000}){1000}")
@example("(" + "|" * 1990 + "){1000}")
@example("((((a{0}){1000}){1000}){1000}){1000}")
@example("(((){0,1000}){0,1000}){0,1000}")
@example("(?i)" + "a" * 1990)
@example(r"\pL" * 660)
@example("[" + "a-z" * 600 + "]")
@example("{" * 1000 + "}" * 1000)
@example("(?:" * 100 + "a|b" + "c|d)+" * 100)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.large_base_example])
def test_compiling_any_expression_takes_bounded_work(pattern: str) -> None:
    assert _lines_run(lambda: TopicPattern(pattern)) < _MAX_LINES_TO_COMPILE


@pytest.mark.parametrize(
    "pattern",
    [
        "((" + "|" * 300 + ")a*){30}",  # Each step leads to hundreds of others.
        "(a?){900}",  # The states are large, and most characters lead nowhere.
        "((.?){30}[abc]){30}",
    ],
    ids=["many options", "large states", "many states"],
)
def test_matching_many_names_takes_bounded_work(pattern: str) -> None:
    characters = string.ascii_letters + string.digits + "-_"
    names = ["a" * length + character for length in range(50) for character in characters]
    compiled = TopicPattern(pattern)
    assert _lines_run(lambda: compiled.matching(names)) < _MAX_LINES_TO_MATCH


def test_characters_that_no_topic_name_has_are_not_remembered() -> None:
    """Transactional ids may have any characters."""
    compiled = TopicPattern(".*")
    assert compiled.matching(chr(number) for number in range(0x4E00, 0x5E00)) == set()
    assert compiled._start.moves == {}


def test_states_are_kept_within_a_bound_of_memory() -> None:
    random = Random(1)
    compiled = TopicPattern("(.?){200}[ab](.?){200}")
    for _ in range(40):
        compiled.matching(["".join(random.choices("abc", k=60))])
        kept = sum(len(state.nfa_states) for state in compiled._states.values())
        assert kept <= topic_patterns._MAX_STATES_COST
