from hypothesis import given
from hypothesis import strategies as st

from odradek.telemetry.metrics import Histogram


def test_a_histogram_counts_cumulatively() -> None:
    histogram = Histogram()
    for value in (1, 4, 5, 8, 9, 1000):
        histogram.observe(value)
    assert list(histogram.cumulative(2048)) == [
        (4, 2),
        (8, 4),
        (16, 5),
        (32, 5),
        (64, 5),
        (128, 5),
        (256, 5),
        (512, 5),
        (1024, 6),
        (2048, 6),
    ]


def test_a_value_above_the_highest_bound_is_in_no_bucket() -> None:
    histogram = Histogram()
    histogram.observe(3)
    histogram.observe(1000)
    assert list(histogram.cumulative(8)) == [(4, 1), (8, 1)]
    assert histogram.count == 2


def test_quantiles_of_two_histograms() -> None:
    first, second = Histogram(), Histogram()
    for _ in range(9):
        first.observe(1)
    second.observe(1000)
    assert first.quantiles((0.5, 1.0)) == (1, 1)
    assert first.quantiles((0.5, 1.0), second) == (1, 1024)


def test_an_empty_histogram() -> None:
    assert Histogram().quantile(0.99) == 0
    assert list(Histogram().cumulative(8)) == [(4, 0), (8, 0)]


@given(st.integers(-5, 2**64))
def test_a_value_lies_within_a_quarter_of_its_bucket(value: int) -> None:
    histogram = Histogram()
    histogram.observe(value)
    bound = histogram.quantile(0.5)
    if value <= 0:
        assert bound == 0
    elif value <= 2**63:
        assert 4 * value <= 4 * bound <= 5 * value + 4
    assert histogram.count == 1


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_a_quantile_is_near_the_true_one(values: list[int], fraction: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    values.sort()
    rank = max(0, -int(-fraction * len(values) // 1) - 1)
    assert values[rank] <= histogram.quantile(fraction) <= values[rank] * 1.25 + 1
    *_, (bound, seen) = histogram.cumulative(10**9)
    assert seen == len(values)
    assert bound >= values[-1]
