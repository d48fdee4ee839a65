"""Figures and report lines of the measuring tools."""

import re

import pytest

from odradek.perf.throughput import (
    ConsumerStatistics,
    ProducerStatistics,
    Production,
    Throttle,
    java_date,
    percentile,
)


class StillClock:
    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0


def test_the_summary_has_kafkas_form() -> None:
    statistics = ProducerStatistics(1000, 0.0)
    for latency_ms in range(1000):
        statistics.record(latency_ms * 1000, 1024)
    assert statistics.summary(2.0).line() == (
        "1000 records sent, 500.000000 records/sec (0.49 MB/sec), 499.50 ms avg latency,"
        " 999.00 ms max latency, 500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th."
    )


def test_a_window_reports_and_begins_anew() -> None:
    statistics = ProducerStatistics(10, 0.0)
    statistics.record(3000, 1024 * 1024)
    assert statistics.window_line(1.0) == (
        "1 records sent, 1.0 records/sec (1.00 MB/sec), 3.0 ms avg latency, 3.0 ms max latency."
    )
    assert statistics.window_line(2.0).startswith("0 records sent")
    assert statistics.summary(2.0).records == 1


def test_many_records_are_sampled_not_all_kept() -> None:
    statistics = ProducerStatistics(1_500_000, 0.0)
    for _ in range(30):
        statistics.record(1, 1)
    assert len(statistics._latencies_us) == 10
    assert statistics.count == 30


def test_warm_up_stays_out_of_the_steady_figures() -> None:
    load = Production(10, 4, StillClock())
    for number in range(10):
        load.acknowledged(number * 1000, 1)
    assert load.all.count == 10
    assert load.steady is not None
    assert load.steady.count == 6
    assert load.steady.summary(1.0).max_ms == 9


def test_refusals_are_counted() -> None:
    load = Production(10, 0, StillClock())
    load.refused("no")
    assert (load.failed, load.last_error, load.steady) == (1, "no", None)


@pytest.mark.parametrize(
    ("limit", "sent", "now_s", "wait_s"),
    [(100, 100, 10.5, 0.5), (100, 100, 12.0, 0.0), (-1, 10**9, 10.0, 0.0)],
)
def test_throttle(limit: int, sent: int, now_s: float, wait_s: float) -> None:
    assert Throttle(limit, 10.0).wait_s(sent, now_s) == pytest.approx(wait_s)


def test_percentile_of_few_values() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([7], 0.999) == 7


def test_consumer_lines_match_their_header() -> None:
    statistics = ConsumerStatistics(1000)
    statistics.count, statistics.bytes = 2000, 1024 * 1024
    line = statistics.final_line(3000, "S", "E", 500)
    assert line == "S, E, 1.0000, 0.5000, 2000, 1000.0000, 500, 1500, 0.6667, 1333.3333"
    assert len(line.split(", ")) == len(ConsumerStatistics.HEADER.split(", "))
    detailed = statistics.detailed_line(2000, "T")
    assert detailed == "T, 0, 1.0000, 1.0000, 2000, 2000.0000, 0, 1000, 1.0000, 2000.0000"


def test_dates_by_javas_patterns() -> None:
    shown = java_date(1_700_000_000_123, "yyyy-MM-dd HH:mm:ss:SSS")
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d:20:123", shown)
