"""Every rule of the checker catches what it is for, and a good history breaks none."""

from collections.abc import Callable

import pytest

from simulation.checkers import History, violations

P = ("topic", 0)


def good() -> History:
    history = History()
    for offset, value in enumerate((b"a", b"b", b"c")):
        history.acknowledged(history.sending("producer", P, value), offset)
        history.polled("consumer", P, offset, value)
    history.sending("producer", P, b"unanswered")
    history.read_at_the_end(P, [(0, b"a"), (1, b"b"), (2, b"c")])
    return history


def test_a_good_history_breaks_no_rule() -> None:
    assert violations(good(), idempotent=True) == []


def test_an_unanswered_send_may_have_happened() -> None:
    history = good()
    history.final[P].append((3, b"unanswered"))
    assert violations(history, idempotent=True) == []


def two_values(history: History) -> None:
    history.sending("producer", P, b"z")
    history.polled("other", P, 1, b"z")


def never_sent(history: History) -> None:
    history.polled("other", P, 3, b"from nowhere")


def gone(history: History) -> None:
    del history.final[P][2]


def elsewhere(history: History) -> None:
    history.final[P][2] = (7, b"c")


def twice(history: History) -> None:
    history.final[P].append((3, b"c"))


def back(history: History) -> None:
    history.polled("consumer", P, 1, b"b")


def again_at_the_end(history: History) -> None:
    history.final[P].append((2, b"c"))


def left_out(history: History) -> None:
    history.polled("other", P, 0, b"a")
    history.polled("other", P, 2, b"c")


def overtaken(history: History) -> None:
    history.acknowledged(history.sending("one", P, b"x"), 5)
    history.acknowledged(history.sending("one", P, b"y"), 4)
    history.final[P] += [(4, b"y"), (5, b"x")]


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("inconsistent", two_values),
        ("phantom", never_sent),
        ("lost", gone),
        ("moved", elsewhere),
        ("duplicate", twice),
        ("backwards", back),
        ("backwards", again_at_the_end),
        ("skipped", left_out),
        ("unordered", overtaken),
    ],
)
def test_a_broken_rule_is_named(rule: str, spoil: Callable[[History], None]) -> None:
    history = good()
    spoil(history)
    found = violations(history, idempotent=True)
    assert rule in {violation.rule for violation in found}
    assert str(P) in str(found[0])


def test_a_consumer_that_moved_may_stand_anywhere() -> None:
    history = good()
    history.moved("consumer", P)
    history.polled("consumer", P, 0, b"a")
    assert violations(history) == []


def test_duplicates_are_allowed_without_idempotence() -> None:
    history = good()
    twice(history)
    assert violations(history, idempotent=False) == []


def test_what_was_not_flushed_may_be_lost_in_a_power_cut() -> None:
    history = good()
    gone(history)
    history.acknowledged(history.sending("producer", P, b"n"), 2)
    history.final[P].append((2, b"n"))
    assert violations(history, durable=False) == []
    assert violations(history, durable=True) != []
