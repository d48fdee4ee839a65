"""Offsets of a query as Spark keeps them, and how ranges of offsets become tasks. Pure functions.

The JSON in checkpoints and in query progress is that of Spark's own Kafka source, `{"topic":
{"0": 23}}`. Options that decide how a batch is split into tasks stand in it too, under a name no
topic can have: a batch that is replayed is split as it was, whatever the options say by then. The
exactly-once sink depends on it.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from odradek.protocol.types import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]

SPLIT_KEY: Final = "#split"


class Split(NamedTuple):
    """How ranges become tasks; 0 is not set."""

    min_partitions: int = 0
    max_records: int = 0


class Range(NamedTuple):
    """Offsets from `start` to before `end`: the work of one task."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def to_json(offsets: Mapping[TopicPartition, int], split: Split = Split()) -> OffsetsJson:  # noqa: B008 - a tuple
    """Sorted, so that equal offsets are equal text."""
    written: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(partition)] = offset
    if any(split):
        written[SPLIT_KEY] = {name: value for name, value in split._asdict().items() if value}
    return written


def from_json(written: OffsetsJson) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in written.items()
        if topic != SPLIT_KEY
        for partition, offset in offsets.items()
    }


def split_of(written: OffsetsJson) -> Split:
    return Split(**written.get(SPLIT_KEY, {}))


def plan(start: OffsetsJson, end: OffsetsJson) -> list[Range]:
    """The tasks of a batch: a function of its two offsets and of nothing else.

    A partition that is new in `end` is read from its beginning.
    """
    begins = from_json(start)
    ranges = [
        Range(*place, begins.get(place, 0), until)
        for place, until in sorted(from_json(end).items())
        if begins.get(place, 0) < until
    ]
    return divide(ranges, split_of(end))


def divide(ranges: list[Range], split: Split) -> list[Range]:
    """Cuts large ranges so that there are about as many as wanted, and none is too long."""
    pieces: list[Range] = []
    total = sum(one.end - one.start for one in ranges)
    for one in ranges:
        size = one.end - one.start
        count = 1
        if split.min_partitions > len(ranges):
            count = max(count, round(size / total * split.min_partitions))
        if split.max_records:
            count = max(count, -(-size // split.max_records))
        count = min(count, size)
        cuts = [one.start + size * index // count for index in range(count + 1)]
        pieces += [one._replace(start=begin, end=until) for begin, until in pairwise(cuts)]
    return pieces


def limit(start: Mapping[TopicPartition, int], latest: Offsets, most: int) -> Offsets:
    """At most `most` offsets beyond `start`, shared out by what each partition has waiting."""
    waiting = {place: until - start.get(place, 0) for place, until in latest.items()}
    waiting = {place: size for place, size in waiting.items() if size > 0}
    total = sum(waiting.values())
    if total <= most:
        return latest
    limited = dict(latest)
    left = most
    for place, size in sorted(waiting.items(), key=lambda one: (one[1], one[0])):
        # Small ones first: what they leave of their share goes to the others, and every
        # partition that waits moves by one at least, as long as there is any left.
        share = min(size, left, max(1, most * size // total))
        limited[place] = start.get(place, 0) + share
        left -= share
    return limited
