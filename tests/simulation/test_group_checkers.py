"""Every rule of groups catches what it is for, and allows what Kafka's model allows."""

from collections.abc import Callable

import pytest

from simulation.group_checkers import (
    Commit,
    GroupHistory,
    Observation,
    Span,
    Start,
    group_violations,
    possible_offsets,
    two_owners,
)

P = ("topic", 0)
LOG = {P: [0, 1, 2, 3]}


def acknowledged(offset: int, asked_s: float, ended_s: float) -> Commit:
    return Commit("member", P, offset, asked_s, ended_s, is_acknowledged=True)


def good() -> GroupHistory:
    history = GroupHistory()
    history.owned("one", 1, [P])
    history.owned("two", 2, [P])
    history.commits = [acknowledged(2, 1.0, 2.0), acknowledged(4, 5.0, 6.0)]
    for offset in range(4):
        history.was_given(P, offset)
    history.starts = [Start("one", P, 0, 0.0, 0.5), Start("two", P, 2, 3.0, 4.0)]
    history.observations = [
        Observation("observer", P, None, 0.5, 0.6),
        Observation("observer", P, 2, 3.0, 3.1),
        Observation("observer", P, 4, 7.0, 7.1),
    ]
    return history


def test_a_good_history_breaks_no_rule() -> None:
    assert group_violations(good(), LOG) == []


def shared(history: GroupHistory) -> None:
    history.owned("two", 1, [P])


def from_nowhere(history: GroupHistory) -> None:
    history.observations.insert(1, Observation("observer", P, 3, 3.0, 3.1))


def refused(history: GroupHistory) -> None:
    history.commits.append(Commit("zombie", P, 3, 2.5, is_refused=True))
    from_nowhere(history)


def old(history: GroupHistory) -> None:
    history.observations.insert(0, Observation("observer", P, 2, 7.0, 7.1))


def nothing(history: GroupHistory) -> None:
    history.observations.insert(0, Observation("observer", P, None, 7.0, 7.1))


def back(history: GroupHistory) -> None:
    history.commits.append(acknowledged(3, 8.0, 9.0))


def from_the_beginning(history: GroupHistory) -> None:
    history.starts.append(Start("three", P, 0, 7.0, 8.0))


def too_far(history: GroupHistory) -> None:
    history.starts.append(Start("three", P, 3, 3.0, 4.0))


def given_to_nobody(history: GroupHistory) -> None:
    history.delivered[P].remove(1)


def short_of_the_end(history: GroupHistory) -> None:
    del history.observations[-1]


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("two owners", shared),
        ("phantom offset", from_nowhere),
        ("phantom offset", refused),
        ("stale offset", old),
        ("stale offset", nothing),
        ("went back", back),
        ("wrong start", from_the_beginning),
        ("wrong start", too_far),
        ("passed over", given_to_nobody),
        ("unfinished", short_of_the_end),
    ],
)
def test_a_broken_rule_is_named(rule: str, spoil: Callable[[GroupHistory], None]) -> None:
    history = good()
    spoil(history)
    assert [violation.rule for violation in group_violations(history, LOG)] == [rule]


def test_a_commit_without_an_answer_may_happen_at_any_later_time() -> None:
    history = good()
    history.commits.append(Commit("member", P, 1, 0.5))
    history.observations.insert(2, Observation("observer", P, 1, 6.5, 6.6))
    history.commits.append(acknowledged(3, 8.0, 9.0))
    assert group_violations(history, LOG) == []


def test_what_is_committed_while_somebody_asks_may_be_told_or_not() -> None:
    commits = [acknowledged(2, 1.0, 2.0), acknowledged(4, 3.0, 4.0)]
    assert set(possible_offsets(commits, 3.5, 3.6)) == {2, 4}
    assert set(possible_offsets(commits, 4.5, 4.6)) == {4}
    assert set(possible_offsets(commits, 0.0, 0.5)) == {None}


@pytest.mark.parametrize(
    ("resets", "count"),
    [
        ([], 1),
        # In between the generations began anew, so generation 1 is another one.
        ([Span(4.0, 4.2)], 0),
        # It says nothing of these two: both came before it, or both after it.
        ([Span(9.0, 9.2)], 1),
        ([Span(0.1, 0.3)], 1),
        # Nobody knows whether the second one came before it.
        ([Span(5.5, 6.5)], 0),
    ],
)
def test_a_generation_has_one_owner_until_generations_begin_anew(
    resets: list[Span], count: int
) -> None:
    history = GroupHistory(resets=resets)
    history.owned("one", 1, [P], Span(1.0, 2.0))
    history.owned("two", 1, [P], Span(5.0, 6.0))
    assert len(list(two_owners(history))) == count
