"""What clients pushed, as series: names, limits, and how long they are kept."""

from odradek.broker.client_telemetry.series import PushedSeries, family_name
from odradek.protocol.types import TopicId
from odradek.telemetry.declarations import Collected, Kind
from odradek.telemetry.otlp.decoding import Point, Unsupported

ONE = TopicId(b"1" * 16)
TWO = TopicId(b"2" * 16)


class Stepped:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def take(series: PushedSeries, client: TopicId, *points: Point | Unsupported) -> None:
    for _ in series.take(client, {"client_id": "c"}, 10.0, points):
        pass


def collected(series: PushedSeries) -> dict[str, list[float]]:
    into = Collected()
    for _ in series.collect(into):
        pass
    return {
        metric.name: [value for _, value in rows if isinstance(value, float)]
        for metric, rows in into.samples.items()
    }


def test_names_are_kafkas_or_have_a_prefix() -> None:
    assert family_name("org.apache.kafka.a-b", Kind.GAUGE) == "org_apache_kafka_a_b"
    assert family_name("org.apache.kafka.a.total", Kind.COUNTER) == "org_apache_kafka_a_total"
    # No client can push a series that looks like the broker's.
    assert family_name("process_open_fds", Kind.GAUGE) == "client_process_open_fds"


def test_deltas_are_added_and_other_values_replaced() -> None:
    series = PushedSeries(100, Stepped())
    for value in (1.0, 2.0):
        take(
            series,
            ONE,
            Point("delta", "", (), value, True, True, True),
            Point("sum", "", (), value, True, False, True),
            Point("gauge", "", (), value),
        )
    assert collected(series) == {
        "client_delta_total": [3.0],
        "client_sum_total": [2.0],
        "client_gauge": [2.0],
    }


def test_one_client_may_have_a_tenth_of_all_series() -> None:
    series = PushedSeries(20, Stepped())
    take(series, ONE, *(Point(f"m{number}", "", (), 1.0) for number in range(5)))
    assert (series.count, series.dropped["limit"]) == (2, 3)
    for number in range(20):
        take(
            series, TopicId(bytes([number]) * 16), *(Point(f"m{n}", "", (), 1.0) for n in range(2))
        )
    assert series.count == 20


def test_long_names_and_distributions_are_dropped_and_counted() -> None:
    series = PushedSeries(100, Stepped())
    many = tuple((f"a{number}", "") for number in range(30))
    take(series, ONE, Point("x" * 300, "", (), 1.0), Point("y", "", many, 1.0), Unsupported("h"))
    assert series.count == 0
    assert series.dropped == {"limit": 0, "name": 2, "distribution": 1}


def test_a_client_that_is_silent_for_three_intervals_is_forgotten() -> None:
    clock = Stepped()
    series = PushedSeries(100, clock)
    take(series, ONE, Point("m", "", (), 1.0))
    clock.now_s = 29.0
    take(series, TWO, Point("m", "", (), 2.0))
    assert collected(series) == {"client_m": [1.0, 2.0]}
    clock.now_s = 31.0
    assert collected(series) == {"client_m": [2.0]}
    assert series.count == 1


def test_clients_that_disagree_about_a_metric_break_nothing() -> None:
    series = PushedSeries(100, Stepped())
    take(series, ONE, Point("m.total", "", (), 1.0, True, True, True))
    take(series, TWO, Point("m_total", "", (), 2.0))
    assert collected(series) == {"client_m_total": [1.0]}
