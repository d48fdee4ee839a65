"""The order in which records of several topics are handled, whatever polls return."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.streams import StreamsBuilder
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.reading import InOrder

STREAM, TABLE = TopicPartition("stream", 0), TopicPartition("table", 0)


class _Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes = b"k"
    value: bytes = b"v"
    headers: tuple[Any, ...] = ()


class _Consumer:
    """A consumer in memory: each poll returns the next of the given answers."""

    def __init__(self, times: dict[TopicPartition, list[int]]) -> None:
        self.logs = {
            partition: [
                _Record(*partition, offset, time_ms) for offset, time_ms in enumerate(found)
            ]
            for partition, found in times.items()
        }
        self.positions = dict.fromkeys(times, 0)
        self.fetched: set[TopicPartition] = set()
        self.answers: deque[dict[TopicPartition, int]] = deque()
        self.held: set[TopicPartition] = set()

    async def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        found = {}
        for partition, count in (self.answers.popleft() if self.answers else {}).items():
            assert partition not in self.held, "it is paused"
            begin = self.positions[partition]
            found[partition] = list(self.logs[partition][begin : begin + count])
            self.positions[partition] = begin + len(found[partition])
            self.fetched.add(partition)
        return found

    def assignment(self) -> list[TopicPartition]:
        return list(self.logs)

    async def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def lag(self, partition: TopicPartition) -> int | None:
        if partition not in self.fetched:
            return None
        return len(self.logs[partition]) - self.positions[partition]

    def paused(self) -> list[TopicPartition]:
        return sorted(self.held)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.held |= {*partitions}

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.held -= {*partitions}


def _plan() -> Plan:
    builder = StreamsBuilder()
    table = builder.table("table")
    builder.stream("stream").join_table(table, lambda one, two: [one, two]).to("out")
    return builder.build()


async def _polled(records: InOrder) -> list[tuple[str, int]]:
    return [(one.topic, one.timestamp_ms) for one in await records.poll(0)]


async def test_a_record_waits_for_earlier_ones_of_a_topic_that_is_read_later() -> None:
    consumer = _Consumer({STREAM: [10, 20], TABLE: [1, 15]})
    records = InOrder(consumer, _plan())
    consumer.answers += [{STREAM: 2}, {TABLE: 1}, {TABLE: 1}]
    assert await _polled(records) == [], "nothing is known of the table yet"
    assert await records.position(STREAM) == 0, "what was not given is not read"
    assert await _polled(records) == [("table", 1)], "the table has more"
    assert await _polled(records) == [("stream", 10), ("table", 15), ("stream", 20)]
    assert records.is_empty
    assert await records.position(STREAM) == 2


async def test_a_partition_that_is_read_to_its_end_holds_up_nothing() -> None:
    consumer = _Consumer({STREAM: [10, 20], TABLE: []})
    records = InOrder(consumer, _plan())
    consumer.answers += [{STREAM: 1}, {TABLE: 0}, {STREAM: 1}]
    assert await _polled(records) == []
    assert await _polled(records) == [("stream", 10)]
    assert await _polled(records) == [("stream", 20)]


async def test_a_partition_that_others_hold_back_holds_up_nothing() -> None:
    consumer = _Consumer({STREAM: [10], TABLE: [20]})
    records = InOrder(consumer, _plan())
    consumer.pause([STREAM])
    consumer.answers += [{TABLE: 1}]
    assert await _polled(records) == [("table", 20)]


async def test_what_waits_for_others_is_not_read_without_limit() -> None:
    consumer = _Consumer({STREAM: list(range(20_000)), TABLE: [19_000]})
    records = InOrder(consumer, _plan())
    consumer.answers += [{STREAM: 4_000}, {STREAM: 4_000}]
    assert await _polled(records) == []
    assert await _polled(records) == []
    assert consumer.paused() == [STREAM]
    consumer.answers.append({TABLE: 1})
    given = await _polled(records)
    while consumer.paused():
        given += await _polled(records)
    consumer.answers += [{STREAM: 12_000}]
    while not records.is_empty or consumer.answers:
        given += await _polled(records)
    assert [time_ms for _, time_ms in given] == sorted([*range(20_000), 19_000])


async def test_one_topic_is_given_as_it_comes() -> None:
    builder = StreamsBuilder()
    builder.stream("stream").to("out")
    other = TopicPartition("stream", 1)
    consumer = _Consumer({STREAM: [10, 5], other: [7]})
    records = InOrder(consumer, builder.build())
    consumer.answers += [{STREAM: 2}, {other: 1}]
    assert await _polled(records) == [("stream", 10), ("stream", 5)]
    assert await _polled(records) == [("stream", 7)]
