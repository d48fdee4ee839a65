"""Every rule of transactions catches what it is for, and a good history breaks none."""

from collections.abc import Callable

import pytest

from simulation.transaction_checkers import (
    Attempt,
    ShutOut,
    TransactionHistory,
    commits_of,
    exactly_once,
    fencing_times,
    transaction_violations,
)

IN, OUT, OTHER = ("in", 0), ("out", 0), ("out", 1)


def write(history: TransactionHistory, attempt: Attempt, values: dict[object, bytes]) -> None:
    for partition, value in values.items():
        attempt.sends.append(history.log.sending(attempt.producer, partition, value))
        attempt.sources.append((IN, len(attempt.sources)))


def good() -> TransactionHistory:
    """One committed transaction, one aborted, one that nobody knows of; `in` is fed without."""
    history = TransactionHistory()
    for offset, value in enumerate((b"x", b"y")):
        history.log.acknowledged(history.log.sending("feeder", IN, value), offset)
    history.is_ready("id", "first", 0.0, 1.0)
    done = history.began("id", "first", 2.0)
    write(history, done, {OUT: b"a", OTHER: b"b"})
    done.positions[IN] = 2
    done.commit_asked_s, done.committed_s, done.is_committed = 3.0, 4.0, True
    dropped = history.began("id", "first", 5.0)
    write(history, dropped, {OUT: b"c"})
    dropped.is_aborted = True
    unknown = history.began("id", "first", 6.0)
    write(history, unknown, {OUT: b"d"})
    unknown.commit_asked_s = 7.0
    history.is_ready("id", "second", 8.0, 9.0)
    history.read("reader", OUT, 0, b"a", 3.5)
    everything = {IN: [(0, b"x"), (1, b"y")], OTHER: [(0, b"b")]}
    for partition, records in everything.items():
        history.log.read_at_the_end(partition, records)
        history.committed.read_at_the_end(partition, records)
    history.log.read_at_the_end(OUT, [(0, b"a"), (2, b"c"), (4, b"d")])
    history.committed.read_at_the_end(OUT, [(0, b"a")])
    return history


def found(history: TransactionHistory) -> list[str]:
    once = exactly_once(history, [IN], [OUT, OTHER])
    return [violation.rule for violation in (*transaction_violations(history), *once)]


def test_a_good_history_breaks_no_rule() -> None:
    assert found(good()) == []


def aborted_is_seen(history: TransactionHistory) -> None:
    history.read("other", OUT, 2, b"c", 9.0)


def never_asked_is_seen(history: TransactionHistory) -> None:
    history.attempts[2].commit_asked_s = None
    history.read("other", OUT, 4, b"d", 9.0)


def seen_too_early(history: TransactionHistory) -> None:
    history.read("other", OUT, 0, b"a", 2.5)


def half_is_seen(history: TransactionHistory) -> None:
    history.attempts[0].is_committed = False
    history.committed.final[OTHER] = []


def acknowledged_is_gone(history: TransactionHistory) -> None:
    history.committed.final[OTHER] = []


def stands_elsewhere(history: TransactionHistory) -> None:
    history.committed.final[OTHER] = [(7, b"b")]


def committed_by_a_zombie(history: TransactionHistory) -> None:
    history.attempts[0].commit_asked_s = 9.5
    history.reads.clear()


def goes_back(history: TransactionHistory) -> None:
    history.read("reader", OUT, 0, b"a", 9.0)


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("aborted read", aborted_is_seen),
        ("aborted read", never_asked_is_seen),
        ("early read", seen_too_early),
        ("torn", half_is_seen),
        ("lost", acknowledged_is_gone),
        ("not once", acknowledged_is_gone),
        ("hidden", stands_elsewhere),
        ("zombie", committed_by_a_zombie),
        ("backwards", goes_back),
    ],
)
def test_a_broken_rule_is_named(rule: str, spoil: Callable[[TransactionHistory], None]) -> None:
    history = good()
    spoil(history)
    assert rule in found(history)


def test_an_input_that_was_used_twice_is_found() -> None:
    history = good()
    history.attempts[2].sources = [(IN, 0)]
    history.committed.final[OUT].append((4, b"d"))
    assert found(history) == ["not once"]


def test_of_two_that_asked_at_once_nobody_is_surely_fenced() -> None:
    history = TransactionHistory()
    history.is_ready("id", "one", 0.0, 3.0)
    history.is_ready("id", "two", 1.0, 2.0)
    history.is_ready("id", "three", 4.0, 5.0)
    assert fencing_times(history.ready) == {"one": 5.0, "two": 5.0}


def shut_out(
    others: dict[str, tuple[float, float | None]], began_s: float = 20.0, ready_s: float = 11.0
) -> list[str]:
    """The rules broken by a producer that asked at 10, was ready at `ready_s`, and is told at 21
    that its id is unknown. Others asked for the id and were answered (None: never) as given."""
    history = TransactionHistory()
    for producer, (asked_s, answered_s) in {"own": (10.0, ready_s), **others}.items():
        history.is_asking("id", producer, asked_s)
        if answered_s is not None:
            history.is_ready("id", producer, asked_s, answered_s)
    history.is_asking("another id", "stranger", 12.0)
    history.shut_out.append(ShutOut("id", "own", began_s, 21.0))
    return found(history)


def test_a_producer_whose_place_nobody_took_is_not_shut_out() -> None:
    assert shut_out({}) == ["shut out"]
    assert shut_out({"before": (2.0, 9.0)}) == ["shut out"], "it was fenced by `own`"
    assert shut_out({"later": (22.0, 23.0)}) == ["shut out"], "it asked when that was told"


def test_a_successor_shuts_out() -> None:
    assert shut_out({"later": (12.0, 13.0)}) == []
    assert shut_out({"not answered yet": (12.0, 23.0)}) == []


def test_who_asked_before_and_was_answered_after_may_have_come_later() -> None:
    assert shut_out({"paused while it asked": (9.0, 15.0)}) == []
    assert shut_out({"killed while it asked": (9.0, None)}) == []


def test_who_was_paused_before_it_read_its_answer_may_be_fenced_by_then() -> None:
    assert shut_out({"meanwhile": (12.0, 13.0)}, ready_s=19.0) == []


def test_a_transaction_that_may_have_timed_out_may_be_shut_out() -> None:
    assert shut_out({}, began_s=18.0) == []


def test_positions_of_aborted_transactions_were_never_committed() -> None:
    history = good()
    history.attempts[1].positions[IN] = 5
    history.attempts[2].positions[IN] = 6
    done, dropped, unknown = commits_of(history)
    assert (done.is_acknowledged, done.ended_s) == (True, 4.0)
    assert dropped.is_refused
    # Its successor was ready then, so it was decided.
    assert (unknown.is_refused, unknown.is_acknowledged, unknown.ended_s) == (False, False, 9.0)
