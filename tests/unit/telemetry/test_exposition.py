import pytest

from odradek.telemetry.catalogue import ALL
from odradek.telemetry.declarations import (
    Collected,
    Distribution,
    Kind,
    by_name,
    counter,
    gauge,
    histogram,
    summary,
)
from odradek.telemetry.exposition import OPENMETRICS, PROMETHEUS, content_type, render

BYTES = counter("bytes_total", 'Bytes: "all".', "kafka.server:type=T,name=B", ("topic",))
TIME = summary("time_ms", "Time.", labels=("request",))
LATE = histogram("late_seconds", "Late.")
OPEN = gauge("open", "Open\nfiles.")


def text(collected: Collected, format_: str = PROMETHEUS) -> str:
    steps = render(collected.samples, format_)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            content: bytes = end.value
            return content.decode()


def test_labels_and_help_are_escaped_and_empty_labels_left_out() -> None:
    collected = Collected()
    collected.add(BYTES, 3, "")
    collected.add(BYTES, 2, 'a"b\\c\nd')
    collected.add(OPEN, 1.5)
    assert text(collected) == (
        '# HELP bytes_total Bytes: "all".\n'
        "# TYPE bytes_total counter\n"
        "bytes_total 3\n"
        'bytes_total{topic="a\\"b\\\\c\\nd"} 2\n'
        "# HELP open Open\\nfiles.\n"
        "# TYPE open gauge\n"
        "open 1.5\n"
    )


def test_openmetrics_names_families_of_counters_without_total() -> None:
    collected = Collected()
    collected.add(BYTES, 3, "x")
    assert text(collected, OPENMETRICS) == (
        '# HELP bytes Bytes: \\"all\\".\n# TYPE bytes counter\nbytes_total{topic="x"} 3\n# EOF\n'
    )
    assert content_type("application/openmetrics-text;version=1.0.0,*/*;q=0.1") == OPENMETRICS
    assert content_type("*/*") == PROMETHEUS


def test_distributions() -> None:
    collected = Collected()
    collected.add(TIME, Distribution(2, 5.0, (1, 1, 4, 4, 4, 4), max=4, min=1), "Fetch")
    collected.add(LATE, Distribution(3, 0.5, buckets=((0.1, 1), (0.2, 3))))
    lines = text(collected).splitlines()
    assert 'late_seconds_bucket{le="0.1"} 1' in lines
    assert 'late_seconds_bucket{le="+Inf"} 3' in lines
    assert "late_seconds_sum 0.5" in lines
    assert 'time_ms{request="Fetch",quantile="0.50"} 1' in lines
    assert 'time_ms{request="Fetch",quantile="0.999"} 4' in lines
    assert 'time_ms_count{request="Fetch"} 2' in lines


def test_a_long_text_is_rendered_in_steps() -> None:
    collected = Collected()
    for number in range(1000):
        collected.add(BYTES, number, str(number))
    assert len(list(render(collected.samples, PROMETHEUS))) == 5


def test_an_mbean_has_the_labels_that_have_values() -> None:
    assert BYTES.object_name(("",)) == "kafka.server:type=T,name=B"
    assert BYTES.object_name(("x",)) == "kafka.server:type=T,name=B,topic=x"
    attributes = Distribution(2, 5.0, (1, 1, 4, 4, 4, 9), max=9).attributes()
    assert attributes["Mean"] == 2.5
    assert attributes["999thPercentile"] == 9


def test_declarations_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="ends with _total"):
        counter("bytes", "Bytes.")
    with pytest.raises(ValueError, match="open is declared twice"):
        by_name([OPEN, gauge("open", "Again.")])


def test_every_declared_metric_has_a_legal_name_and_says_what_it_is() -> None:
    for metric in ALL.values():
        assert metric.name.replace("_", "").isalnum()
        assert metric.name.islower()
        assert metric.help.endswith(".")
        assert bool(metric.attribute) >= bool(metric.mbean)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
