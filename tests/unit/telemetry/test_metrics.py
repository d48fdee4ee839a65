import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.telemetry.metrics import Histogram, Registry


def test_a_counter_is_an_attribute() -> None:
    registry = Registry()
    counter = registry.counter("odradek_requests_total", "Requests.", api="Fetch")
    counter.value += 1
    counter.value += 2
    assert registry.counter("odradek_requests_total", "Requests.", api="Fetch") is counter
    assert registry.counter("odradek_requests_total", "Requests.", api="Produce") is not counter
    assert registry.exposition() == (
        "# HELP odradek_requests_total Requests.\n"
        "# TYPE odradek_requests_total counter\n"
        'odradek_requests_total{api="Fetch"} 3\n'
        'odradek_requests_total{api="Produce"} 0\n'
    )


def test_a_gauge_is_set_or_read() -> None:
    registry = Registry()
    gauge = registry.gauge("set", "Set.")
    gauge.value = 1.5
    open_files = [1, 2, 3]
    registry.gauge("read", "Read.", lambda: len(open_files))
    open_files.append(4)
    assert "read 4\n" in registry.exposition()
    assert "set 1.5\n" in registry.exposition()


def test_labels_and_help_are_escaped() -> None:
    registry = Registry()
    registry.counter("c", 'A "quote",\nand a \\.', topic='a"b\\c\nd')
    assert registry.exposition() == (
        '# HELP c A "quote",\\nand a \\\\.\n# TYPE c counter\nc{topic="a\\"b\\\\c\\nd"} 0\n'
    )


def test_a_name_has_one_kind_and_legal_letters() -> None:
    registry = Registry()
    registry.counter("a", "")
    with pytest.raises(ValueError, match="a is a counter already"):
        registry.gauge("a", "")
    with pytest.raises(ValueError, match="not a name"):
        registry.counter("a-b", "")


def test_a_removed_metric_is_gone() -> None:
    registry = Registry()
    registry.counter("a", "", topic="x")
    registry.counter("a", "", topic="y")
    registry.remove("a", topic="x")
    registry.remove("a", topic="never")
    registry.remove("never")
    assert 'topic="x"' not in registry.exposition()
    assert 'topic="y"' in registry.exposition()


def test_a_histogram_is_exposed_cumulatively() -> None:
    registry = Registry()
    histogram = registry.histogram("latency_seconds", "Latency.", 1e-6, api="Fetch")
    for value in (1, 4, 5, 8, 9, 1000):
        histogram.observe(value)
    assert registry.exposition().splitlines()[2:] == [
        'latency_seconds_bucket{api="Fetch",le="4e-06"} 2',
        'latency_seconds_bucket{api="Fetch",le="8e-06"} 4',
        'latency_seconds_bucket{api="Fetch",le="1.6e-05"} 5',
        'latency_seconds_bucket{api="Fetch",le="3.2e-05"} 5',
        'latency_seconds_bucket{api="Fetch",le="6.4e-05"} 5',
        'latency_seconds_bucket{api="Fetch",le="0.000128"} 5',
        'latency_seconds_bucket{api="Fetch",le="0.000256"} 5',
        'latency_seconds_bucket{api="Fetch",le="0.000512"} 5',
        'latency_seconds_bucket{api="Fetch",le="0.001024"} 6',
        'latency_seconds_bucket{api="Fetch",le="+Inf"} 6',
        'latency_seconds_sum{api="Fetch"} 0.001027',
        'latency_seconds_count{api="Fetch"} 6',
    ]


def test_an_empty_histogram() -> None:
    assert Histogram().quantile(0.99) == 0
    assert list(Histogram().cumulative()) == [(4, 0)]


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
    *_, (bound, seen) = histogram.cumulative()
    assert seen == len(values)
    assert bound >= values[-1]
