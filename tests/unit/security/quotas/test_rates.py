"""How use is measured: Kafka's sampled rate, and use that is spread over time."""

import pytest

from odradek.security.quotas.rates import Allowance, SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1.0)
LIMIT = 1000.0


def test_a_rate_is_what_the_samples_hold_by_the_time_they_span() -> None:
    rate = SampledRate()
    rate.add(500, WINDOWS, 100.0)
    # A client that has just begun is judged as if ten windows had passed.
    assert rate.per_second(WINDOWS, 100.0) == pytest.approx(50)
    rate.add(500, WINDOWS, 105.5)
    # Five windows are over, five more are assumed.
    assert rate.per_second(WINDOWS, 105.5) == pytest.approx(1000 / 10.5)
    # From the eleventh second on the first sample is too old.
    assert rate.per_second(WINDOWS, 110.9) == pytest.approx(1000 / 10.9)
    assert rate.per_second(WINDOWS, 111.0) == pytest.approx(500 / 10.5)
    assert rate.per_second(WINDOWS, 200.0) == 0


def test_a_window_of_one_sample_never_divides_by_nothing() -> None:
    rate = SampledRate()
    only = Windows(1, 2.0)
    rate.add(10, only, 5.0)
    assert rate.per_second(only, 5.0) == pytest.approx(5)


def test_samples_are_bounded() -> None:
    rate = SampledRate()
    for step in range(10_000):
        rate.add(1, WINDOWS, step * 0.01)
    assert len(rate._amounts) <= WINDOWS.number


@pytest.mark.parametrize("size", [16.0, 100.0, 500.0, 1000.0])
@pytest.mark.parametrize("duration_s", [20, 25, 60])
def test_a_client_that_waits_as_told_keeps_to_its_limit(size: float, duration_s: int) -> None:
    allowance = Allowance()
    now_s, used = 50.0, 0.0
    while now_s < 50 + duration_s:
        used += size
        now_s += 0.002 + allowance.use(size, LIMIT, WINDOWS, now_s)
    assert used / duration_s == pytest.approx(LIMIT, rel=0.1)


def test_a_windows_worth_may_be_used_at_once_and_no_more() -> None:
    allowance = Allowance()
    assert allowance.use(1000, LIMIT, WINDOWS, 50.0) == 0
    assert allowance.use(500, LIMIT, WINDOWS, 50.0) == pytest.approx(0.5)
    # The wait runs down by itself.
    assert allowance.owed_s(LIMIT, WINDOWS, 50.2) == pytest.approx(0.3)
    assert allowance.owed_s(LIMIT, WINDOWS, 50.6) == 0


def test_an_allowance_is_forgotten_only_when_a_new_one_would_be_the_same() -> None:
    allowance = Allowance()
    allowance.use(100, LIMIT, WINDOWS, 50.0)
    assert not allowance.is_forgotten(WINDOWS, 60.9)
    assert allowance.is_forgotten(WINDOWS, 61.1)
    allowance.use(100_000, LIMIT, WINDOWS, 70.0)  # a hundred seconds' worth
    assert not allowance.is_forgotten(WINDOWS, 168.0)
    assert allowance.is_forgotten(WINDOWS, 171.0)


def test_tokens_may_run_below_none_and_come_back() -> None:
    bucket, windows = TokenBucket(), Windows(10, 1.0)
    assert bucket.tokens(2, windows, 0.0) == 20
    assert bucket.use(20, 2, windows, 0.0) == 0
    assert bucket.use(10, 2, windows, 0.0) == pytest.approx(5)
    assert bucket.owed_s(2, windows, 3.0) == pytest.approx(2)
    assert bucket.tokens(2, windows, 1000.0) == 20
    assert not bucket.is_forgotten(windows, 14.9)
    assert bucket.is_forgotten(windows, 15.1)
