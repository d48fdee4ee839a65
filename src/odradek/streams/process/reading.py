"""Where a plan begins to read its topics, and in which order.

`runner` uses it for plans that go on after a restart, and the SQL server for push queries.
"""

from collections.abc import Mapping, Sequence

from odradek.client.consumer.consumer import Consumer
from odradek.protocol.types import TopicPartition
from odradek.streams.plan.nodes import Plan


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
