"""The windows of all groups, filled by samples of what groups have committed, or by every commit.

Burrow reads every commit from the topic of offsets, with its time, and so does `odradek lag serve`
(`commit_reading`). A sample shows only the newest one, and not when it was made. So from samples a
commit is counted when the offset has changed since the last sample, and when it has not, but a
member owns the partition, every `repeat_ms`: a consumer that is alive commits its position again
and again. A partition without an owner gets no such commit, so it is STOP and not STALL.

As soon as a commit of a partition was read, its window has commits alone that were read.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from odradek.ops.lag.evaluation import (
    QUERY,
    Commit,
    GroupStatus,
    PartitionWindow,
    Rules,
    evaluate_group,
    not_found,
)
from odradek.protocol.types import TopicPartition

REPEAT_MS: Final = 6_000
"""A little more than a consumer's default `auto.commit.interval.ms`."""


class Past(NamedTuple):
    """An offset that was committed earlier, and when."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group is in a partition, and the member that owns it, if one does."""

    offset: int
    owner: str = ""
    client_id: str = ""
    repeat_ms: int = 0
    """After how long an owner counts as one that commits the same offset again, if that is longer
    than usual."""
    past: tuple[Past, ...] = ()
    """Commits whose times are known, the oldest first and this one last. Spark keeps those of its
    queries, so that their window is full at the first sample."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the brokers said at one moment."""

    at_ms: int
    groups: Mapping[str, Mapping[TopicPartition, Position]]
    ends: Mapping[TopicPartition, int]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Groups whose offsets could not be read now, and why. They keep their windows."""
    queries: frozenset[str] = frozenset()
    """Which of the groups are Spark queries."""


@dataclass(slots=True)
class _Ring:
    commits: deque[Commit]
    owner: str = ""
    client_id: str = ""
    is_read: bool = False
    """Whether the commits were read, with their times, and not sampled."""


class LagHistory:
    """What samples and commits have shown so far. Both must come in the order of time."""

    def __init__(self, rules: Rules | None = None, *, repeat_ms: int = REPEAT_MS) -> None:
        self.rules = rules or Rules()
        self._repeat_ms = repeat_ms
        self._groups: dict[str, dict[TopicPartition, _Ring]] = {}
        self._ends: dict[TopicPartition, deque[int]] = {}
        self._queries: frozenset[str] = frozenset()
        self.samples = 0
        self._reads_commits = False

    # Commits that are read

    def begin_reading(self) -> None:
        """From now on every commit is told by `commit`. May be called again."""
        self._reads_commits = True

    def stop_reading(self) -> None:
        """Commits cannot be read any more: windows go on with samples."""
        self._reads_commits = False
        for rings in self._groups.values():
            for ring in rings.values():
                ring.is_read = False

    def commit(self, group: str, partition: TopicPartition, offset: int, timestamp_ms: int) -> None:
        """Takes in a commit that was read. What samples made of earlier ones is dropped."""
        ring = self._ring(self._groups.setdefault(group, {}), partition)
        if not ring.is_read:
            ring.commits.clear()
            ring.is_read = True
        ends = self._ends.get(partition)
        lag = max(0, ends[-1] - offset) if ends else None
        ring.commits.append(Commit(offset, timestamp_ms, lag))

    def _ring(self, rings: dict[TopicPartition, _Ring], partition: TopicPartition) -> _Ring:
        ring = rings.get(partition)
        if ring is None:
            ring = rings[partition] = _Ring(deque(maxlen=self.rules.intervals))
        return ring

    @property
    def groups(self) -> list[str]:
        return sorted(self._groups)

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self._ends})

    def ends(self, topic: str) -> list[int] | None:
        """Returns the newest end offset of each partition, or None for a topic that is unknown."""
        found = {
            partition.partition: ends[-1]
            for partition, ends in self._ends.items()
            if partition.topic == topic
        }
        return [found.get(index, 0) for index in range(max(found) + 1)] if found else None

    def consumers_of(self, topic: str) -> list[str]:
        return sorted(
            group
            for group, rings in self._groups.items()
            if any(partition.topic == topic for partition in rings)
        )

    def forget(self, group: str) -> bool:
        """Drops the windows of a group until it is sampled again."""
        return self._groups.pop(group, None) is not None

    def add(self, sample: Sample) -> None:
        """Takes a sample in. What the brokers do not know any more is dropped."""
        self.samples += 1
        self._queries = sample.queries | (self._queries & sample.unreadable.keys())
        for partition, end in sample.ends.items():
            ring = self._ends.setdefault(partition, deque(maxlen=self.rules.intervals))
            ring.append(end)
        for group, positions in sample.groups.items():
            rings = self._groups.setdefault(group, {})
            for partition in rings.keys() - positions.keys():
                del rings[partition]
            for partition, position in positions.items():
                self._add(rings, partition, position, sample)
        for group in self._groups.keys() - sample.groups.keys() - sample.unreadable.keys():
            del self._groups[group]
        if not sample.unreadable:
            for partition in self._ends.keys() - sample.ends.keys():
                del self._ends[partition]

    def _add(
        self,
        rings: dict[TopicPartition, _Ring],
        partition: TopicPartition,
        position: Position,
        sample: Sample,
    ) -> None:
        ring = self._ring(rings, partition)
        ring.owner, ring.client_id = position.owner, position.client_id
        if ring.is_read and self._reads_commits:
            return
        if ring.commits:
            last = ring.commits[-1]
            waited_ms = sample.at_ms - last.timestamp_ms
            repeat_ms = max(self._repeat_ms, position.repeat_ms)
            is_repeated = bool(position.owner) and waited_ms >= repeat_ms
            if position.offset == last.offset and not is_repeated:
                return
        end = sample.ends.get(partition)
        lag = None if end is None else max(0, end - position.offset)
        at_ms = sample.at_ms
        if not ring.commits and position.past:
            # Where the log ended then is not known.
            ring.commits.extend(Commit(*past, None) for past in position.past[:-1])
            at_ms = position.past[-1].at_ms
        ring.commits.append(Commit(position.offset, at_ms, lag))

    def windows(self, group: str) -> dict[TopicPartition, PartitionWindow]:
        """Returns the windows of a group, by topic and partition."""
        rings = self._groups.get(group, {})
        return {
            partition: PartitionWindow(
                tuple(rings[partition].commits),
                tuple(self._ends.get(partition, ())),
                rings[partition].owner,
                rings[partition].client_id,
                is_read=rings[partition].is_read,
            )
            for partition in sorted(rings)
        }

    def evaluate(self, group: str, now_ms: int) -> GroupStatus:
        if group not in self._groups:
            return not_found(group)
        status = evaluate_group(group, self.windows(group).items(), now_ms, self.rules)
        return replace(status, kind=QUERY) if group in self._queries else status

    def evaluate_all(self, now_ms: int) -> list[GroupStatus]:
        """Returns all groups, the worst first."""
        statuses = [self.evaluate(group, now_ms) for group in self._groups]
        return sorted(statuses, key=lambda one: (-one.status, -one.total_lag, one.group))
