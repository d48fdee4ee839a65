"""How samples fill the windows of groups."""

from odradek.ops.lag.evaluation import Rules, Status
from odradek.ops.lag.history import LagHistory, Position, Sample
from odradek.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


def sample(at_s: float, offset: int, end: int, *, owner: str = "host") -> Sample:
    return Sample(round(at_s * 1000), {"g": {ORDERS: Position(offset, owner, "c")}}, {ORDERS: end})


def status(history: LagHistory, at_s: float) -> Status:
    (partition,) = history.evaluate("g", round(at_s * 1000)).partitions
    return partition.status


def test_a_live_group_that_does_not_move_is_stalled() -> None:
    history = LagHistory()
    for at_s in range(0, 40, 10):
        history.add(sample(at_s, 5, 100 + at_s))
    assert status(history, 35) is Status.STALL
    assert history.evaluate("g", 35_000).status is Status.ERR


def test_a_group_without_an_owner_has_stopped() -> None:
    history = LagHistory()
    for at_s in range(0, 40, 10):
        history.add(sample(at_s, 5, 100 + at_s, owner=""))
    assert len(history.windows("g")[ORDERS].commits) == 1
    assert status(history, 35) is Status.STOP


def test_a_group_that_falls_behind_is_warned_of_and_one_that_catches_up_is_not() -> None:
    slow, fast = LagHistory(), LagHistory()
    for step in range(5):
        slow.add(sample(step * 10, step * 10, 50 + step * 20))
        fast.add(sample(step * 10, step * 100, 5000))
    assert status(slow, 41) is Status.WARN
    assert status(fast, 41) is Status.OK


def test_samples_between_two_commits_hide_no_growing_lag() -> None:
    """Between commits the lag only grows, and each commit lowers it: only lags at commits count."""
    history = LagHistory()
    for second in range(30):
        history.add(sample(second, second // 5 * 10, 50 + second * 4))
    assert [commit.lag for commit in history.windows("g")[ORDERS].commits] == [
        50, 60, 70, 80, 90, 100,
    ]  # fmt: skip
    assert status(history, 30) is Status.WARN


def test_an_unchanged_offset_counts_again_after_a_while() -> None:
    history = LagHistory(repeat_ms=6000)
    for second in range(13):
        history.add(sample(second, 5, 50))
    assert [one.timestamp_ms for one in history.windows("g")[ORDERS].commits] == [0, 6000, 12_000]


def test_a_group_is_not_judged_by_its_first_commit_alone() -> None:
    alive, gone = LagHistory(), LagHistory()
    alive.add(sample(0, 5, 50))
    gone.add(sample(0, 5, 50, owner=""))
    assert [status(alive, 4), status(gone, 0)] == [Status.OK, Status.OK]
    assert status(gone, 4) is Status.STOP


def test_a_member_that_commits_seldom_has_not_stopped() -> None:
    history = LagHistory()
    history.add(sample(0, 5, 50))
    history.add(sample(1, 20, 50))
    history.add(sample(5, 20, 50))
    assert status(history, 5) is Status.OK


def test_windows_are_bounded() -> None:
    history = LagHistory(Rules(intervals=3))
    for step in range(9):
        history.add(sample(step, step, 100))
    window = history.windows("g")[ORDERS]
    assert [commit.offset for commit in window.commits] == [6, 7, 8]
    assert len(window.ends) == 3


def test_what_the_brokers_do_not_know_any_more_is_dropped() -> None:
    history = LagHistory()
    history.add(sample(0, 5, 10))
    history.add(Sample(1000, {}, {}, {"g": "the coordinator is loading"}))
    assert history.groups == ["g"]
    assert history.topics == ["orders"]
    history.add(Sample(2000, {}, {}))
    assert (history.groups, history.topics) == ([], [])
    assert history.evaluate("g", 2000).status is Status.NOTFOUND


def test_a_commit_ahead_of_a_truncated_log_is_no_lag() -> None:
    history = LagHistory()
    history.add(sample(0, 50, 40))
    assert history.evaluate("g", 0).total_lag == 0


def test_topics_and_their_consumers() -> None:
    history = LagHistory()
    history.add(sample(0, 5, 10))
    assert history.ends("orders") == [10]
    assert history.ends("nothing") is None
    assert history.consumers_of("orders") == ["g"]
    assert history.forget("g")
    assert not history.forget("g")


def test_the_worst_group_comes_first() -> None:
    history = LagHistory()
    for at_ms in (0, 10_000, 20_000):
        history.add(
            Sample(
                at_ms,
                {
                    "fine": {ORDERS: Position(100, "h")},
                    "far": {ORDERS: Position(at_ms // 1000, "h")},
                    "stuck": {ORDERS: Position(90, "h")},
                },
                {ORDERS: 100},
            )
        )
    found = [(one.group, one.status.name) for one in history.evaluate_all(20_000)]
    assert found == [("stuck", "ERR"), ("far", "OK"), ("fine", "OK")]
