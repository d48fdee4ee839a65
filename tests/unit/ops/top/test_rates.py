"""Figures from two samples, with and without management ports."""

from odradek.ops.top import management
from odradek.ops.top.management import BrokerReading, Readings, growth
from odradek.ops.top.rates import Moment, broker_figures, partition_figures, topic_figures
from tests.unit.ops.top.samples import sample

BEFORE = sample(
    10,
    ends={("orders", 0): 100, ("orders", 1): 50},
    sizes={("orders", 0): 1000, ("orders", 1): 900},
)
NOW = sample(
    12,
    ends={("orders", 0): 140, ("orders", 1): 50},
    sizes={("orders", 0): 5000, ("orders", 1): 400},
)


def reading(at_s: float, in_bytes: float, *, ready: bool = True) -> BrokerReading:
    text = f"""\
{management.BYTES_IN} {in_bytes}
{management.BYTES_IN}{{topic="orders"}} {in_bytes}
{management.BYTES_OUT} 0
{management.REQUESTS}{{request="Produce",version="9"}} {10 * at_s}
{management.REQUESTS}{{request="Fetch",version="9"}} {5 * at_s}
{management.CPU} {at_s / 2}
{management.MEMORY} 40000000
"""
    parser = management.SeriesParser()
    parser.feed(text.encode())
    return BrokerReading(at_s, "running", ready, parser.end())


def test_offsets_and_sizes_that_grow_are_rates() -> None:
    hot, idle = partition_figures(Moment(BEFORE), Moment(NOW))
    assert (hot.messages_in, hot.bytes_in) == (20, 2000)
    # Its log was made smaller by retention, so nothing can be said of its bytes.
    assert (idle.messages_in, idle.bytes_in) == (0, None)


def test_nothing_is_known_of_rates_before_the_second_sample() -> None:
    now = Moment(NOW)
    partitions = partition_figures(None, now)
    assert {one.messages_in for one in partitions} == {None}
    (topic,) = topic_figures(now, partitions)
    assert (topic.messages_in, topic.bytes_in, topic.records) == (None, None, 190)
    assert [one.bytes_in for one in broker_figures({}, now, partitions)] == [None, None]


def test_brokers_by_the_protocol_alone() -> None:
    before, now = Moment(BEFORE), Moment(NOW)
    first, second = broker_figures(before.sample.brokers, now, partition_figures(before, now))
    assert (first.state, first.leaders, first.replicas, first.is_controller) == (
        "running", 1, 2, True,
    )  # fmt: skip
    assert (first.bytes_in, first.messages_in, first.bytes_out, first.cpu) == (2000, 20, None, None)
    assert (second.disk_free_bytes, second.disk_total_bytes, second.log_bytes) == (250, 1000, 5400)
    assert first.figures_from == "protocol"


def test_brokers_by_their_management_ports() -> None:
    before = Moment(BEFORE)
    now = Moment(NOW, {1: Readings(reading(10, 0), reading(12, 8000, ready=False))})
    partitions = partition_figures(before, now)
    first, second = broker_figures(before.sample.brokers, now, partitions)
    assert (first.bytes_in, first.bytes_out, first.requests) == (4000, 0, 15)
    assert (first.cpu, first.memory_bytes, first.state) == (0.5, 40e6, "not ready")
    assert (first.figures_from, second.figures_from) == ("management", "protocol")
    # The topic is led by broker 2 too, which was not read: the sum of the ports is too small.
    assert topic_figures(now, partitions)[0].bytes_in == 2000
    both = {number: Readings(reading(10, 0), reading(12, 8000)) for number in (1, 2)}
    assert topic_figures(Moment(NOW, both), partitions)[0].bytes_in == 8000


def test_a_broker_that_is_gone_is_shown_as_such() -> None:
    layout = {"orders": [(-1, (1, 2), (1,)), (2, (2, 1), (2,))]}
    now = Moment(sample(12, brokers=[2], controller=2, layout=layout))
    first, second = broker_figures(BEFORE.brokers, now, partition_figures(None, now))
    assert (first.id, first.state, first.leaders, first.replicas) == (1, "gone", 0, 2)
    assert (second.state, second.under_replicated) == ("running", 1)
    # Also one that was gone before the first sample: partitions name it.
    assert broker_figures({}, now, partition_figures(None, now))[0].state == "gone"
    (topic,) = topic_figures(now, partition_figures(None, now))
    assert (topic.offline, topic.under_replicated, topic.replication_factor) == (1, 2, 2)


def test_a_counter_that_went_back_gives_no_rate() -> None:
    assert growth(5, 9, 2) == 2
    assert growth(9, 5, 2) is None
    assert growth(5, 9, 0) is None
