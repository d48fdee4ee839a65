"""What is told of two samples that differ."""

from odradek.ops.top.events import between, status_changes
from odradek.ops.top.figures import Event
from tests.unit.ops.top.samples import sample


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.severity, event.text) for event in events]


def test_nothing_has_changed() -> None:
    assert between(sample(0), sample(1)) == []


def test_a_broker_that_dies_and_comes_back() -> None:
    before = sample(0)
    dead = {"orders": [(2, (1, 2), (2,)), (2, (2, 1), (2,))]}
    without = sample(1, brokers=[2], controller=2, layout=dead)
    assert told(between(before, without)) == [
        ("bad", "broker 1 is gone"),
        ("plain", "broker 2 is controller now"),
        ("plain", "broker 2 leads 1 partition in place of 1: orders-0"),
        ("bad", "broker 1 left the ISR of 2 partitions: orders-0, orders-1"),
    ]
    assert told(between(without, sample(2, controller=2))) == [
        ("good", "broker 1 is there"),
        ("plain", "broker 1 leads 1 partition in place of 2: orders-0"),
        ("good", "broker 1 is in the ISR of 2 partitions again: orders-0, orders-1"),
    ]


def test_partitions_without_a_leader() -> None:
    offline = sample(1, layout={"orders": [(-1, (1, 2), (1,)), (2, (2, 1), (2, 1))]})
    lost = ("bad", "1 partition of broker 1 without a leader: orders-0")
    assert lost in told(between(sample(0), offline))
    found = ("good", "broker 1 leads 1 partition that had no leader: orders-0")
    assert found in told(between(offline, sample(2)))


def test_topics_come_and_go() -> None:
    more = {f"t{number}": [(1, (1,), (1,))] for number in range(5)}
    events = between(sample(0), sample(1, layout=more))
    assert told(events) == [
        ("plain", "5 new topics: t0, t1, t2, ..."),
        ("plain", "1 topic is gone: orders"),
    ]


def test_statuses_of_groups() -> None:
    events = list(status_changes({"a": "OK", "b": "ERR"}, {"a": "ERR", "b": "OK", "c": "ERR"}, 5))
    assert told(events) == [("bad", "group a was OK, is ERR"), ("good", "group b was ERR, is OK")]
