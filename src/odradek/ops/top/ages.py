"""How old the first unread record of a group is, from how the end offsets have grown.

Our own brokers tell it (`kafka_consumergroup_max_lag_seconds`). Other brokers do not, but whoever
has watched the ends of logs knows when an offset was written: between the two samples that have it
between their ends. What is older than the first sample is only known to be older than that.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.protocol.types import TopicPartition

_KEPT: Final = 300
"""Samples of a partition that are kept: ten minutes at the default interval."""


class Age(NamedTuple):
    seconds: float
    is_older: bool
    """Whether it is a lower limit."""


class EndOffsets:
    """The end offsets of all partitions that were seen, with their times."""

    def __init__(self) -> None:
        # Lists, for an empty deque has 600 bytes, and there may be tens of thousands.
        self._seen: dict[TopicPartition, list[tuple[float, int]]] = {}

    def add(self, at_s: float, ends: Mapping[TopicPartition, int]) -> None:
        """Takes the ends of one sample in; partitions without an end are forgotten."""
        for partition in self._seen.keys() - ends.keys():
            del self._seen[partition]
        for partition, end in ends.items():
            ring = self._seen.setdefault(partition, [])
            if len(ring) > 1 and ring[-1][1] == end == ring[-2][1]:
                ring.pop()  # Of a time without records the first and the last moment are enough.
            ring.append((at_s, end))
            del ring[:-_KEPT]

    def age(self, partition: TopicPartition, offset: int, now_s: float) -> Age | None:
        """Returns how long ago the record at `offset` was written: 0 if it does not exist yet, None
        if nothing is known."""
        ring = self._seen.get(partition)
        if not ring:
            return None
        if offset >= ring[-1][1]:
            return Age(0.0, False)
        before_s, before = ring[0]
        if offset < before:
            return Age(now_s - before_s, True)
        for at_s, end in ring:
            if end > offset:
                # It was written after the sample before, whose end is not beyond it.
                share = (offset - before) / (end - before) if end > before else 1.0
                return Age(max(0.0, now_s - (before_s + share * (at_s - before_s))), False)
            before_s, before = at_s, end
        return None
