"""The rules by which a window of commits gets a status, and groups theirs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.ops.lag.evaluation import (
    Commit,
    PartitionWindow,
    Rules,
    Status,
    evaluate_group,
    evaluate_partition,
    not_found,
    status_of,
)
from odradek.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
STEADY = [(1000, 100), (2000, 200), (3000, 300), (4000, 400), (5000, 500)]
SAME = [(1000, 100), (1000, 200), (1000, 300), (1000, 400), (1000, 500)]
BACK = [(1000, 100), (2000, 200), (3000, 300), (2000, 400), (4000, 500)]
LOST = [(1000, 100), (2000, 200), (3000, 300), (2000, 400), (2500, 500)]
IDLE = [(1000 + index, 100 + index) for index in range(15)]
WITH_UNKNOWN = [(1000 + 500 * index, 100 + 50 * index) for index in range(10)]


@pytest.mark.parametrize(
    ("offsets", "lags", "ends", "current", "now_s", "allowed", "expected"),
    [
        # Once it had read everything, so nothing is wrong.
        (STEADY, [0, 50, 100, 150, 200], [5200], 200, 600, 0, Status.OK),
        # As long ago as the window lasts is not yet longer than that.
        (STEADY, [0, 50, 100, 150, 200], [5200], 200, 900, 0, Status.OK),
        (STEADY, [0, 50, 100, 150, 200], [5200], 200, 1000, 0, Status.STOP),
        (STEADY, [50, 100, 150, 200, 250], [5250], 250, 1000, 0, Status.STOP),
        (SAME, [0, 50, 100, 150, 200], [1200], 200, 600, 0, Status.OK),
        (SAME, [100, 150, 200, 250, 300], [1300], 300, 600, 0, Status.STALL),
        (SAME, [100] * 5, [1100], 100, 600, 0, Status.STALL),
        # It went back, and is further than before.
        (BACK, [100, 150, 200, 1250, 300], [4300], 300, 600, 0, Status.OK),
        # Without lag nothing is wrong, however old the commits are.
        (STEADY, [50, 100, 150, 200, 250], [5250], 0, 1000, 0, Status.OK),
        # All was read at each commit, but it commits no more, and there are new records.
        (IDLE, [0] * 15, [1955, 1931, 1731, 1531, 1431], 931, 400, 0, Status.STOP),
        # The log ended where the group is a moment ago.
        (IDLE, [0] * 15, [1015, 1014, 1014, 1014], 1, 400, 0, Status.OK),
        (
            WITH_UNKNOWN, [0, None, 50, None, 100, None, 150, None, 200, None],
            [5700], 200, 600, 0, Status.OK,
        ),
        ([(1000, 100), (2000, 200), (2000, 300)], [2, 1, 1], [2001], 1, 550, 1, Status.OK),
        (SAME, [100, 150, 200, 250, 300], [1300], 300, 600, 99, Status.STALL),
        (BACK, [100, 150, 200, 1250, 300], [4300], 300, 600, 99, Status.OK),
        (LOST, [100, 150, 200, 1250, 300], [4300], 300, 600, 0, Status.REWIND),
        # It moves on, and falls behind all the same.
        (STEADY, [50, 100, 150, 200, 250], [5250], 250, 600, 0, Status.WARN),
        (STEADY, [50, 100, 90, 200, 250], [5250], 250, 600, 0, Status.OK),
        (STEADY, [50, 60, 60, 60, 60], [5060], 60, 600, 0, Status.WARN),
    ],
)  # fmt: skip
def test_each_rule(  # noqa: PLR0917 - the columns of the table
    offsets: list[tuple[int, int]],
    lags: list[int | None],
    ends: list[int],
    current: int,
    now_s: int,
    allowed: int,
    expected: Status,
) -> None:
    commits = [
        Commit(offset, at_s * 1000, lag) for (offset, at_s), lag in zip(offsets, lags, strict=True)
    ]
    assert status_of(commits, ends, current, now_s * 1000, allowed) == expected


_commits = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 30))),
    min_size=1,
    max_size=10,
).map(
    lambda rows: [
        Commit(offset, sum(row[1] for row in rows[: index + 1]), lag)
        for index, (offset, _, lag) in enumerate(rows)
    ]
)


@given(_commits, st.lists(st.integers(0, 80), max_size=10), st.integers(0, 30), st.integers(0, 99))
def test_statuses_keep_what_they_promise(
    commits: list[Commit], ends: list[int], lag: int, later_ms: int
) -> None:
    now_ms = commits[-1].timestamp_ms + later_ms
    status = status_of(commits, ends, lag, now_ms)
    offsets = [commit.offset for commit in commits]
    assert status not in (Status.NOTFOUND, Status.ERR)
    if lag == 0:
        assert status is Status.OK
    if status is Status.STALL:
        assert len(set(offsets)) == 1
    if status is Status.REWIND:
        assert offsets != sorted(offsets)
        assert offsets[-1] < max(offsets)
    if status is Status.WARN:
        known = [commit.lag for commit in commits if commit.lag is not None]
        assert known == sorted(known)
        assert 0 not in known
    if status is Status.STOP:
        # Time alone does not make it better.
        assert status_of(commits, ends, lag, now_ms + 1) is Status.STOP
    # A lag that is allowed is never reported.
    assert status_of(commits, ends, lag, now_ms, allowed_lag=lag) is Status.OK


@given(st.lists(st.tuples(_commits, st.lists(st.integers(0, 80), max_size=5)), max_size=6))
def test_a_group_is_as_its_worst_partition(
    windows: list[tuple[list[Commit], list[int]]],
) -> None:
    rules = Rules()
    given_windows = [
        (TopicPartition("t", index), PartitionWindow(tuple(commits), tuple(ends)))
        for index, (commits, ends) in enumerate(windows)
    ]
    group = evaluate_group("g", given_windows, 10_000, rules)
    single = [evaluate_partition(name, one, 10_000, rules) for name, one in given_windows]
    assert group.total_lag == sum(one.current_lag for one in single)
    if not single:
        assert (group.status, group.complete, group.max_lag) == (Status.OK, 0.0, None)
        return
    worst = max(one.status for one in single)
    assert group.status == (Status.ERR if worst > Status.ERR else worst)
    assert group.max_lag is not None
    assert group.max_lag.current_lag == max(one.current_lag for one in single)
    assert group.worst is not None
    assert group.worst.status == worst
    assert 0.0 <= group.complete <= 1.0


def test_a_window_counts_as_complete_when_it_is_full() -> None:
    commits = tuple(Commit(5, index * 1000, 10) for index in range(4))
    window = PartitionWindow(commits, (15,))
    half = evaluate_partition(ORDERS, window, 3000, Rules(intervals=8))
    assert (half.status, half.complete, half.current_lag) == (Status.STALL, 0.5, 10)
    strict = evaluate_partition(ORDERS, window, 3000, Rules(intervals=8, minimum_complete=0.6))
    assert strict.status is Status.OK
    full = evaluate_group("g", [(ORDERS, window)], 3000, Rules(intervals=4))
    assert (full.status, full.complete) == (Status.ERR, 1.0)


def test_a_group_that_is_not_known() -> None:
    missing = not_found("nobody")
    assert (missing.status.name, missing.complete, missing.total_lag) == ("NOTFOUND", 1.0, 0)
