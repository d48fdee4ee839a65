"""Where a plan begins to read its topics, and in which order their records are handled.

`runner` uses it for plans that go on after a restart, and the SQL server for push queries.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace, merge
from typing import Any, Final, Protocol

from odradek.client.consumer.consumer import Consumer
from odradek.protocol.types import TopicPartition
from odradek.streams.plan.nodes import Plan
from odradek.streams.running.executor import InputRecord

_MOST_AT_ONCE: Final = 2_000
_MOST_WAITING: Final = 5_000


async def assign_all(
    consumer: Consumer,
    plan: Plan,
    counts: Mapping[str, int],
    start: Mapping[str, Sequence[int]] | None = None,
    *,
    has_group: bool = True,
) -> "TablesFirst":
    """Assigns all partitions of a plan's topics to a consumer, each at the offset where reading
    begins: the one that its group has committed, if it has one, or that `start` has for it, or as
    its source says (`nodes.Source.reset`).

    Where the end of a partition is, is decided before this returns: records from then on are read.
    """
    partitions = [
        TopicPartition(topic, number) for topic in plan.source_topics
        for number in range(counts[topic])
    ]  # fmt: skip
    consumer.assign(partitions)
    committed = await consumer.committed(partitions) if has_group else {}
    start, latest = start or {}, plan.latest_topics
    from_end: list[TopicPartition] = []
    for partition in partitions:
        known, fixed = committed.get(partition), start.get(partition.topic)
        if known is not None:
            consumer.seek(partition, known.offset)
        elif fixed is not None and partition.partition < len(fixed):
            consumer.seek(partition, fixed[partition.partition])
        elif fixed is None and partition.topic in latest:
            from_end.append(partition)
        else:
            # A partition that was added later is read from its beginning, too.
            consumer.seek_to_beginning([partition])
    if from_end:
        consumer.seek_to_end(from_end)
        for partition in from_end:
            await consumer.position(partition)
    first = TablesFirst(consumer, [one for one in partitions if one.topic in latest])
    new = [one for one in partitions if committed.get(one) is None and one.topic not in latest]
    await first.begin(new)
    return first


class TablesFirst:
    """Holds back the topics that are read from their end until those that are read from their
    beginning, tables usually, have been read as far as they went when reading began. So a new
    record of a stream finds the rows that a table had before."""

    def __init__(self, consumer: Consumer, held: Sequence[TopicPartition]) -> None:
        self._consumer = consumer
        self._held = held
        self._ends: dict[TopicPartition, int] = {}

    async def begin(self, partitions: Sequence[TopicPartition]) -> None:
        """`partitions` are those to be read first."""
        if not self._held or not partitions:
            return
        self._ends = dict(await self._consumer.end_offsets(partitions))
        await self.look()
        if self._ends:
            self._consumer.pause(self._held)

    async def look(self) -> None:
        """Lets the others go on if what was to be read first is read; to be called after polls."""
        if not self._ends:
            return
        for partition, end in list(self._ends.items()):
            if await self._consumer.position(partition) >= end:
                del self._ends[partition]
        if not self._ends:
            self._consumer.resume(self._held)


class RecordConsumer(Protocol):
    """What is needed of a consumer to read in order."""

    async def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]: ...
    async def position(self, partition: TopicPartition) -> int: ...
    def assignment(self) -> Iterable[TopicPartition]: ...
    def paused(self) -> list[TopicPartition]: ...
    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...
    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...
    def lag(self, partition: TopicPartition) -> int | None: ...


class InOrder:
    """Gives the records of a plan's topics by their time, each partition's in its order.

    With several topics, a record is given only when the next one of every other partition that has
    more is here too (KIP-695): so a query over topics that are full already joins each record of a
    stream with the table as it was then, and not as far as it happened to be read. A partition that
    has been read to its end holds up nothing.
    """

    def __init__(self, consumer: RecordConsumer, plan: Plan) -> None:
        self._consumer = consumer
        self._is_single = len(plan.source_topics) <= 1
        self._waiting: dict[TopicPartition, deque[Any]] = {}
        self._has_due = False
        self._too_many: set[TopicPartition] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no record waits here."""
        return not any(self._waiting.values())

    async def poll(self, timeout_ms: int) -> list[InputRecord]:
        """Returns the next records; none if there are none within the time, or if others have to be
        here before."""
        polled = await self._consumer.poll(0 if self._has_due else timeout_ms)
        if self._is_single:
            return list(by_time(polled.values()))
        for partition, records in polled.items():
            self._waiting.setdefault(partition, deque()).extend(records)
        found = [_input(record) for record in self._due()]
        self._hold_back()
        return found

    async def position(self, partition: TopicPartition) -> int:
        """Returns the offset of the next record of a partition that was not given yet."""
        waiting = self._waiting.get(partition)
        return int(waiting[0].offset) if waiting else int(await self._consumer.position(partition))

    def _due(self) -> Iterator[Any]:
        """Yields the records before which none of the others can come, the earliest first."""
        self._has_due = False
        held = {*self._consumer.paused()} - self._too_many
        for partition in self._consumer.assignment():
            if not self._waiting.get(partition) and self._has_more(partition, held):
                return
        heads = [
            (queue[0].timestamp_ms, partition)
            for partition, queue in self._waiting.items()
            if queue
        ]
        heapify(heads)
        for _ in range(_MOST_AT_ONCE):
            if not heads:
                return
            _, partition = heads[0]
            queue = self._waiting[partition]
            yield queue.popleft()
            if queue:
                heapreplace(heads, (queue[0].timestamp_ms, partition))
            elif self._has_more(partition, held):
                return
            else:
                heappop(heads)
        self._has_due = bool(heads)

    def _has_more(self, partition: TopicPartition, held: set[TopicPartition]) -> bool:
        """Whether a partition has records that are not here. One that was never fetched may."""
        return partition not in held and self._consumer.lag(partition) != 0

    def _hold_back(self) -> None:
        """Stops reading what others are waited for, and goes on when few records are left."""
        many = {one for one, queue in self._waiting.items() if len(queue) > _MOST_WAITING}
        if many - self._too_many:
            self._consumer.pause(sorted(many - self._too_many))
        few = {one for one in self._too_many if len(self._waiting[one]) < _MOST_WAITING // 2}
        if few:
            self._consumer.resume(sorted(few))
        self._too_many = (self._too_many | many) - few


def _input(record: Any) -> InputRecord:
    return InputRecord(
        record.topic, record.partition, record.offset, record.timestamp_ms, record.key,
        record.value, tuple(record.headers),
    )  # fmt: skip


def by_time(batches: Iterable[list[Any]]) -> Iterable[InputRecord]:
    """Yields the records of several partitions, each in its order, the earliest next one first."""
    return map(_input, merge(*batches, key=lambda record: record.timestamp_ms))
