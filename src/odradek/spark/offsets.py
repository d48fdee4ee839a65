"""The offsets of a query as Spark stores them, and how ranges of offsets become tasks. Pure
functions.

The JSON in checkpoints and in query progress is that of Spark's own Kafka source, `{"topic":
{"0": 23}}`. It also has two entries under names that no topic can have. `#split` holds the options
that decide how a batch is split into tasks, so that a replayed batch is split as before, even if
the options have changed. The exactly-once sink depends on that. `#ids` holds the ids of the topics
that the offsets belong to, so that a topic that was deleted and created again is recognised.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int | str]]
# Topic ids by name, as 32 hexadecimal digits. Topics whose brokers have no topic ids are left out.
TopicIds = Mapping[str, str]

SPLIT_KEY: Final = "#split"
IDS_KEY: Final = "#ids"
_RESERVED: Final = "#"


class Split(NamedTuple):
    """The options that decide how ranges become tasks; 0 means not set."""

    min_partitions: int = 0
    max_records: int = 0


class Range(NamedTuple):
    """The offsets [start, end) of a partition: the work of one task.

    `topic_id` is the id of the topic that the offsets belong to, or empty if it is not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def expected_id(self) -> TopicId:
        return TopicId(bytes.fromhex(self.topic_id)) if self.topic_id else NO_TOPIC_ID


def to_json(
    offsets: Mapping[TopicPartition, int],
    split: Split = Split(),  # noqa: B008 - a tuple
    ids: TopicIds | None = None,
) -> OffsetsJson:
    """Writes offsets as JSON. It is sorted, so that equal offsets give equal text."""
    document: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(partition)] = offset
    topic_ids = {topic: (ids or {})[topic] for topic in document if topic in (ids or {})}
    if any(split):
        document[SPLIT_KEY] = {name: value for name, value in split._asdict().items() if value}
    if topic_ids:
        document[IDS_KEY] = dict(topic_ids)
    return document


def from_json(document: OffsetsJson) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in document.items()
        if not topic.startswith(_RESERVED)
        for partition, offset in offsets.items()
    }


def split_of(document: OffsetsJson) -> Split:
    return Split(**{name: int(value) for name, value in document.get(SPLIT_KEY, {}).items()})


def ids_of(document: OffsetsJson) -> dict[str, str]:
    return {topic: str(topic_id) for topic, topic_id in document.get(IDS_KEY, {}).items()}


def recreated_topics(before: TopicIds, now: TopicIds) -> set[str]:
    """Returns the topics that have another id than before. Topics whose id is not known do not
    count."""
    return {topic for topic, old in before.items() if now.get(topic, old) != old}


def start_offsets(start: OffsetsJson, ids: TopicIds) -> Offsets:
    """Returns where to continue from `start`, given the topics' current ids. A topic that was
    created again is read from its beginning."""
    other = recreated_topics(ids_of(start), ids)
    return {
        partition: 0 if partition.topic in other else at
        for partition, at in from_json(start).items()
    }


def plan(start: OffsetsJson, end: OffsetsJson) -> list[Range]:
    """Returns the tasks of a batch. The result depends on its two offsets and on nothing else.

    A partition that is new in `end` is read from its beginning.
    """
    ids = ids_of(end)
    begins = start_offsets(start, ids)
    ranges = [
        Range(
            *partition,
            begins.get(partition, 0),
            until,
            ids.get(partition.topic, ""),
        )
        for partition, until in sorted(from_json(end).items())
        if begins.get(partition, 0) < until
    ]
    return divide(ranges, split_of(end))


def divide(ranges: list[Range], split: Split) -> list[Range]:
    """Cuts large ranges so that there are about as many as `split` asks for and none is too
    long."""
    parts: list[Range] = []
    total = sum(offset_range.end - offset_range.start for offset_range in ranges)
    for offset_range in ranges:
        size = offset_range.end - offset_range.start
        count = 1
        if split.min_partitions > len(ranges):
            count = max(count, round(size / total * split.min_partitions))
        if split.max_records:
            count = max(count, -(-size // split.max_records))
        count = min(count, size)
        cuts = [offset_range.start + size * index // count for index in range(count + 1)]
        parts += [offset_range._replace(start=begin, end=until) for begin, until in pairwise(cuts)]
    return parts


def limit(start: Mapping[TopicPartition, int], latest: Offsets, most: int) -> Offsets:
    """Returns end offsets that are at most `most` offsets beyond `start` in total. Each partition
    gets a share in proportion to its waiting offsets."""
    waiting = {partition: until - start.get(partition, 0) for partition, until in latest.items()}
    waiting = {partition: size for partition, size in waiting.items() if size > 0}
    total = sum(waiting.values())
    if total <= most:
        return latest
    limited = dict(latest)
    left = most
    for partition, size in sorted(waiting.items(), key=lambda entry: (entry[1], entry[0])):
        # Partitions with few waiting offsets come first: the unused rest of their share goes to the
        # others, and every waiting partition advances by at least one while any offsets are left to
        # share.
        share = min(size, left, max(1, most * size // total))
        limited[partition] = start.get(partition, 0) + share
        left -= share
    return limited
