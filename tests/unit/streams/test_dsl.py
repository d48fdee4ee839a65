"""Topologies in Python, in the test driver."""

from typing import Any

import pytest

from odradek.streams import (
    BYTES,
    JSON,
    LONG,
    STRING,
    JoinWindows,
    Processor,
    ProcessorContext,
    Punctuation,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
)
from odradek.streams.running.executor import CannotRun
from odradek.streams.running.stores import KeyValueStore
from odradek.streams.testing import TopologyTestDriver


def driven(builder: StreamsBuilder, **options: Any) -> TopologyTestDriver:
    return TopologyTestDriver(builder.build(), **options)


def test_stateless_operators() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", value=STRING).flat_map_values(str.split).map_values(str.upper)
    short, long, rest = words.branch(lambda _, word: len(word) < 3, lambda _, word: len(word) > 4)
    short.merge(long).filter_not(lambda _, word: word == "NO").to("some")
    seen: list[str] = []
    rest.peek(lambda _, word: seen.append(word)).select_key(lambda _, word: word[0]).to("rest")
    driver = driven(builder)
    driver.input_topic("in", value=STRING).send("k", "a no small thing", timestamp_ms=7)
    read = driver.output_topic("some", value=STRING).read()
    assert [(one.key, one.value, one.timestamp_ms) for one in read] == [
        ("k", "A", 7),
        ("k", "SMALL", 7),
        ("k", "THING", 7),
    ]
    assert seen == []
    assert driver.output_topic("rest", value=STRING).read() == []


def test_tumbling_windows_drop_what_is_late() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10, advance_ms=10, grace_ms=5)
    counts = builder.stream("in").group_by_key().windowed_by(windows).count(store="counts")
    counts.to_stream().map(
        lambda key, count: (key.key, [key.window.start_ms, count]), key=STRING, value=JSON
    ).to("out")
    driver = driven(builder)
    topic = driver.input_topic("in")
    for time_ms in (1, 12, 9, 15, 9, 3):
        topic.send("a", None if time_ms == 0 else 1, timestamp_ms=time_ms)
    values = [value for _, value in driver.output_topic("out").read_key_values()]
    assert values == [[0, 1], [10, 1], [0, 2], [10, 2]]
    assert driver.late_records == 2


def test_hopping_windows() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10, advance_ms=5, grace_ms=0)
    builder.stream("in").group_by_key().windowed_by(windows).reduce(
        lambda a, b: a + b
    ).to_stream().map(lambda key, value: (key.key, [*key.window, value]), key=STRING).to("out")
    driver = driven(builder)
    topic = driver.input_topic("in")
    topic.send("a", 1, timestamp_ms=7)
    topic.send("a", 2, timestamp_ms=12)
    values = [value for _, value in driver.output_topic("out").read_key_values()]
    assert values == [[0, 10, 1], [5, 15, 1], [5, 15, 3], [10, 20, 2]]


def test_sessions_are_merged() -> None:
    builder = StreamsBuilder()
    windows = SessionWindows(gap_ms=5, grace_ms=100)
    builder.stream("in").group_by_key().windowed_by(windows).count().to_stream().map(
        lambda key, count: (key.key, [*key.window, count]), key=STRING, value=JSON
    ).to("out")
    driver = driven(builder)
    topic = driver.input_topic("in")
    for time_ms in (0, 10, 5):
        topic.send("a", 1, timestamp_ms=time_ms)
    values = [value for _, value in driver.output_topic("out").read_key_values()]
    assert values == [[0, 0, 1], [10, 10, 1], [0, 0, None], [10, 10, None], [0, 10, 3]]


def test_final_results_come_when_windows_close() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10, advance_ms=10, grace_ms=0)
    counts = builder.stream("in").group_by_key().windowed_by(windows).count()
    counts.suppress(until_window_closes=True).to_stream().map(
        lambda key, count: (key.key, count), key=STRING, value=LONG
    ).to("out")
    driver = driven(builder)
    topic = driver.input_topic("in")
    output = driver.output_topic("out", value=LONG)
    topic.send("a", 1, timestamp_ms=1)
    topic.send("b", 1, timestamp_ms=2)
    topic.send("a", 1, timestamp_ms=3)
    assert output.read_key_values() == []
    topic.send("c", 1, timestamp_ms=10)
    assert output.read_key_values() == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("is_eager", "expected"),
    [
        (False, [["l1", "r1"], ["l2", None], [None, "r3"]]),
        (True, [["l1", None], ["l1", "r1"], ["l2", None], [None, "r3"], ["l9", None]]),
    ],
)
def test_outer_join_of_streams(is_eager: bool, expected: list[Any]) -> None:
    builder = StreamsBuilder()
    windows = JoinWindows(before_ms=5, after_ms=5, grace_ms=0, is_eager=is_eager)
    left, right = builder.stream("left"), builder.stream("right")
    left.outer_join(right, lambda one, two: [one, two], windows).to("out")
    driver = driven(builder)
    one, two = driver.input_topic("left"), driver.input_topic("right")
    one.send("1", "l1", timestamp_ms=0)
    two.send("1", "r1", timestamp_ms=5)
    one.send("2", "l2", timestamp_ms=6)
    two.send("3", "r3", timestamp_ms=7)
    one.send("9", "l9", timestamp_ms=100)
    assert [value for _, value in driver.output_topic("out").read_key_values()] == expected


def test_stream_is_looked_up_in_table_as_it_is_then() -> None:
    builder = StreamsBuilder()
    table = builder.table("t")
    orders = builder.stream("in")
    orders.join_table(table, lambda order, row: [order, row], is_left=True).to("left")
    orders.join_table(
        table, lambda order, row: [order, row], key_of=lambda _, order: order["of"]
    ).to("by")
    driver = driven(builder, partitions=3)
    topic, rows = driver.input_topic("in"), driver.input_topic("t")
    topic.send("a", {"of": "b"})
    rows.send("a", 1)
    rows.send("b", 2)
    topic.send("a", {"of": "b"})
    topic.send(None, {"of": "a"})
    order_b, order_a = {"of": "b"}, {"of": "a"}
    assert [value for _, value in driver.output_topic("left").read_key_values()] == [
        [order_b, None],
        [order_b, 1],
        [order_a, None],
    ]
    assert driver.output_topic("by").read_key_values() == [
        ("a", [order_b, 2]),
        (None, [order_a, 1]),
    ]


class _Alarm(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.counts: KeyValueStore = context.store("counts")
        self.context = context
        context.schedule(10, Punctuation.STREAM_TIME, lambda now_ms: self._report("stream", now_ms))
        context.schedule(
            1000, Punctuation.WALL_CLOCK_TIME, lambda now_ms: self._report("clock", now_ms)
        )

    def process(self, key: Any, value: Any, context: ProcessorContext) -> None:
        self.counts.put(key, (self.counts.get(key) or 0) + value)

    def _report(self, why: str, now_ms: int) -> None:
        for key, count in self.counts.range():
            self.context.forward(key, [why, now_ms, count])


def test_processor_with_store_and_punctuators() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(_Alarm, "counts").to("out")
    driver = driven(builder)
    topic, output = driver.input_topic("in"), driver.output_topic("out")
    topic.send("a", 1, timestamp_ms=0)
    topic.send("a", 1, timestamp_ms=9)
    topic.send("a", 1, timestamp_ms=30)
    assert output.read_key_values() == [("a", ["stream", 0, 1]), ("a", ["stream", 30, 3])]
    driver.advance_wall_clock_time(999)
    assert output.read_key_values() == []
    driver.advance_wall_clock_time(1)
    assert output.read_key_values() == [("a", ["clock", 1000, 3])]
    store = driver.store("counts")
    assert isinstance(store, KeyValueStore)
    assert store.get("a") == 3


def test_changelog_makes_the_same_stores() -> None:
    """What `changed` is told is enough to go on in another driver, with the same results."""
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10, advance_ms=10, grace_ms=0)
    stream = builder.stream("in")
    stream.group_by_key().windowed_by(windows).count().suppress(until_window_closes=True).to("a")
    stream.group_by_key().windowed_by(SessionWindows(gap_ms=5, grace_ms=0)).count().to("b")
    other = builder.stream("other")
    join = JoinWindows(before_ms=5, after_ms=5, grace_ms=5)
    stream.left_join(other, lambda one, two: [one, two], join).to("c")
    records = [
        ("in", "a", 3),
        ("other", "b", 4),
        ("in", "b", 8),
        ("in", "a", 30),
        ("other", "a", 31),
    ]
    plan = builder.build()
    whole = TopologyTestDriver(plan)
    for topic, key, time_ms in records:
        whole.input_topic(topic).send(key, 1, timestamp_ms=time_ms)
    for stop in range(len(records)):
        first, second = TopologyTestDriver(plan), TopologyTestDriver(plan)
        for topic, key, time_ms in records[:stop]:
            first.input_topic(topic).send(key, 1, timestamp_ms=time_ms)
        second.restore(first.changelog)
        for topic, key, time_ms in records[stop:]:
            second.input_topic(topic).send(key, 1, timestamp_ms=time_ms)
        for name in "abc":
            parts = [*first.outputs.get(name, ()), *second.outputs.get(name, ())]
            assert parts == list(whole.outputs.get(name, ())), (stop, name)


def test_mistakes_are_told() -> None:
    builder = StreamsBuilder()
    with pytest.raises(ValueError, match="the topology is empty"):
        builder.build()
    with pytest.raises(ValueError, match="two operators cannot both be called"):
        builder.stream("a", name="x").filter(lambda *_: True, name="x")
    with pytest.raises(ValueError, match="takes until_window_closes=True or wait_ms"):
        builder.table("t").suppress()
    windows = SessionWindows(gap_ms=1, grace_ms=0)
    grouped = builder.stream("b").group_by_key().windowed_by(windows)
    with pytest.raises(ValueError, match="needs a function that merges"):
        grouped.aggregate(lambda: 0, lambda _, __, total: total)
    with pytest.raises(ValueError, match="advances by at least one millisecond"):
        TimeWindows(size_ms=10, advance_ms=11, grace_ms=0)


def test_partitions_of_a_join_must_correspond() -> None:
    builder = StreamsBuilder()
    builder.table("a").join(builder.table("b"), lambda one, two: [one, two]).to("out")
    with pytest.raises(CannotRun, match="its left side has 2, its right side 3"):
        driven(builder, partitions={"a": 2, "b": 3})


def test_topic_that_is_written_and_read() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda number: number - 1).filter(
        lambda _, number: number > 0
    ).to("in")
    driver = driven(builder)
    driver.input_topic("in").send("a", 4)
    assert driver.output_topic("in").read_key_values() == [("a", 3), ("a", 2), ("a", 1)]
    with pytest.raises(ValueError, match="does not read 'nope'"):
        driver.input_topic("nope")


def test_bytes_of_a_windowed_key() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10, advance_ms=10, grace_ms=0)
    builder.stream("in").group_by_key().windowed_by(windows).count().to("out")
    driver = driven(builder)
    driver.input_topic("in").send("a", 1, timestamp_ms=25)
    (record,) = driver.output_topic("out", key=BYTES, value=LONG).read()
    assert record.key == b"a" + (20).to_bytes(8, "big")


def test_store_that_is_not_there_is_named() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ValueError, match="there is no store 'counts': there are none"):
        TopologyTestDriver(builder.build()).store("counts")
