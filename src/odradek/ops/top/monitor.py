"""Samples a cluster repeatedly, and computes its figures from the last two samples."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.client.admin.configs import ConfigCalls
from odradek.ops.lag.evaluation import GroupStatus
from odradek.ops.lag.history import LagHistory
from odradek.ops.top import management
from odradek.ops.top.ages import Age, EndOffsets
from odradek.ops.top.events import between, status_changes
from odradek.ops.top.figures import ClusterFigures, Event, GroupFigures
from odradek.ops.top.management import ManagementPorts, growth
from odradek.ops.top.rates import (
    Moment,
    broker_figures,
    partition_figures,
    topic_figures,
)
from odradek.ops.top.sampling import ClusterSample, TopAdmin, take_cluster_sample
from odradek.protocol.types import TopicPartition
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.ops.lag.queries import Queries

_KEPT_EVENTS: Final = 200
_MANY_PARTITIONS: Final = 10_000


class MonitorAdmin(TopAdmin, ConfigCalls):
    """The admin calls of a monitor."""


class Monitor:
    """Monitors one cluster. `odradek top` and the console call `refresh` every few seconds."""

    def __init__(
        self,
        admin: MonitorAdmin,
        clock: Clock,
        ports: Iterable[tuple[str, int]] = (),
        queries: "Queries | None" = None,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._ports = ManagementPorts(ports)
        self._queries = queries
        self._lag = LagHistory()
        self._ends = EndOffsets()
        self._last: Moment | None = None
        self._statuses: dict[str, str] = {}
        self._events: deque[Event] = deque(maxlen=_KEPT_EVENTS)

    async def refresh(self) -> ClusterFigures:
        """Takes a sample, and returns the figures since the last one. Raises if no broker
        answers."""
        sample = await take_cluster_sample(self._admin, self._clock, self._queries)
        readings = await self._ports.read(
            self._admin, sample.cluster_id, sample.brokers, self._clock.monotonic_s()
        )
        before, now = self._last, Moment(sample, readings)
        self._last = now
        if ends := _watched_ends(sample):
            self._ends.add(sample.at_s, ends)
        if sample.groups is not None:
            self._lag.add(sample.groups)
        if before is not None:
            self._events.extend(between(before.sample, sample))
        brokers_before = {} if before is None else before.sample.brokers
        passed_s = None if before is None else sample.at_s - before.sample.at_s
        # With tens of thousands of partitions each step takes long, so other tasks run in between.
        partitions = partition_figures(before, now)
        del before  # It needs as much memory as all steps that follow.
        await asyncio.sleep(0)
        topics = topic_figures(now, partitions)
        await asyncio.sleep(0)
        groups = self._groups(now)
        return ClusterFigures(
            sample.at_ms,
            sample.cluster_id,
            passed_s,
            tuple(broker_figures(brokers_before, now, partitions)),
            tuple(topics),
            tuple(partitions),
            tuple(groups),
            tuple(reversed(self._events)),
            (*sample.notes, *map(_unanswered, self._ports.unanswered())),
        )

    def _groups(self, now: Moment) -> list[GroupFigures]:
        sample = now.sample
        statuses = self._lag.evaluate_all(sample.at_ms)
        # The brokers themselves report the lag in seconds, if they are Odradek's.
        reported_s = {
            group: seconds
            for readings in now.readings.values()
            for group, seconds in readings.now.by_label(
                management.LAG_SECONDS, "consumergroup"
            ).items()
        }
        figures = [self._group(status, reported_s, now) for status in statuses]
        judged = {figure.name: figure.status for figure in figures if figure.status != "-"}
        self._events.extend(status_changes(self._statuses, judged, sample.at_ms))
        self._statuses = judged
        return figures

    def _group(
        self, status: GroupStatus, reported_s: dict[str, float], now: Moment
    ) -> GroupFigures:
        seconds = reported_s.get(status.group)
        age = self._oldest(status, now.sample.at_s) if seconds is None else Age(seconds, False)
        worst = status.worst
        return GroupFigures(
            status.group,
            status.kind,
            # One sample shows the lag, but not how it moves.
            status.status.name if self._lag.samples > 1 else "-",
            status.total_lag,
            None if age is None else age.seconds,
            age is not None and age.is_older,
            len(status.partitions),
            len({judged.window.client_id for judged in status.partitions if judged.window.owner}),
            self._consumed(status, now.sample.at_ms),
            None if worst is None else f"{worst.partition.topic}-{worst.partition.partition}",
        )

    def _oldest(self, status: GroupStatus, now_s: float) -> Age | None:
        """Returns the highest age of an unread record in any partition."""
        ages = [
            self._ends.age(judged.partition, judged.window.commits[-1].offset, now_s)
            for judged in status.partitions
            if judged.window.commits
        ]
        return max((age for age in ages if age is not None), default=None)

    def _consumed(self, status: GroupStatus, at_ms: int) -> float | None:
        """Returns the rate of consumption over the window of commits. The rate between two samples
        would fluctuate, because consumers commit only every few seconds."""
        windows = [judged.window.commits for judged in status.partitions if judged.window.commits]
        if self._lag.samples < 2 or not windows:
            return None
        passed_s = (at_ms - min(commits[0].timestamp_ms for commits in windows)) / 1000
        read = sum(commits[-1].offset - commits[0].offset for commits in windows)
        return growth(0, read, passed_s)


def _watched_ends(sample: ClusterSample) -> Mapping[TopicPartition, int]:
    """Returns the end offsets to remember, from which the ages of unread records are computed. In a
    large cluster these are only the partitions that groups read. In a small one these are all, so
    that the ages for a new group are known at once."""
    groups = sample.groups
    if len(sample.ends) <= _MANY_PARTITIONS or groups is None:
        return sample.ends
    return {key: end for key, end in sample.ends.items() if key in groups.ends}


def _unanswered(url: str) -> str:
    return f"figures of {url}: no management port of a broker of this cluster answers there"
