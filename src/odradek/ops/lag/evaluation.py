"""The rules of Burrow, as pure functions: a window of commits gives a status.

The rules look at how the lag moved, not at how large it is: a group that is a million records
behind and catches up is OK, and one that is ten records behind and has stopped is not.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.protocol.types import TopicPartition

GROUP: Final = "group"
QUERY: Final = "query"
QUERY_PREFIX: Final = "spark:"
"""What the names of queries begin with, so that they are not taken for groups."""


class Status(IntEnum):
    """From the best to the worst; the numbers are those of Burrow's metrics."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class Commit(NamedTuple):
    """An offset that a group committed. `lag` is how far behind it was then, None if unknown."""

    offset: int
    timestamp_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be chosen. The defaults are Burrow's."""

    intervals: int = 10
    """How many commits of a partition are kept: its window."""
    allowed_lag: int = 0
    """A partition that is no further behind is OK."""
    minimum_complete: float = 0.0
    """A window that is filled less than this is OK: too little is known."""


@dataclass(frozen=True, slots=True)
class PartitionWindow:
    """What is known of a group in a partition, oldest first. `ends` are recent end offsets of the
    log, of which the last is where it ends now. `owner` and `client_id` are empty without a member
    that reads the partition."""

    commits: tuple[Commit, ...]
    ends: tuple[int, ...]
    owner: str = ""
    client_id: str = ""
    is_read: bool = False
    """Whether every commit was read with its time, and not sampled."""

    @property
    def current_lag(self) -> int:
        """How far behind the group is now. An end that is older than the commit may be before
        it."""
        if not self.commits or not self.ends:
            return 0
        return max(0, self.ends[-1] - self.commits[-1].offset)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    partition: TopicPartition
    status: Status
    current_lag: int
    complete: float
    """How much of the window is filled, up to 1."""
    window: PartitionWindow


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group. Its status is NOTFOUND, OK, WARN or ERR: the worst of its partitions, where STOP,
    STALL and REWIND count as ERR."""

    group: str
    status: Status
    complete: float
    """The share of partitions whose window is full."""
    total_lag: int = 0
    partitions: tuple[PartitionStatus, ...] = ()
    max_lag: PartitionStatus | None = None
    """The partition that is furthest behind."""
    kind: str = GROUP
    """`GROUP`, or `QUERY` for a Spark query."""

    @property
    def worst(self) -> PartitionStatus | None:
        """The partition that a person should look at first: by status, then by lag."""
        return max(self.partitions, key=lambda one: (one.status, one.current_lag), default=None)


def status_of(
    commits: Sequence[Commit],
    ends: Iterable[int],
    current_lag: int,
    now_ms: int,
    allowed_lag: int = 0,
) -> Status:
    """Returns OK, WARN, STOP, STALL or REWIND for a partition with at least one commit."""
    if current_lag <= allowed_lag:
        return Status.OK
    if _has_stopped(commits, now_ms) and not _had_read_all(commits, ends):
        return Status.STOP
    if _is_rewound(commits):
        return Status.REWIND
    return _progress(commits, allowed_lag)


def _progress(commits: Sequence[Commit], allowed_lag: int) -> Status:
    """Returns the status of a group that commits, and goes forward or stays where it is."""
    lags = [commit.lag for commit in commits if commit.lag is not None]
    if any(lag <= allowed_lag for lag in lags):
        return Status.OK
    if all(commit.offset == commits[0].offset for commit in commits):
        return Status.STALL
    # One lag alone does not move.
    if len(lags) > 1 and all(later >= earlier for earlier, later in itertools.pairwise(lags)):
        return Status.WARN
    return Status.OK


def _has_stopped(commits: Sequence[Commit], now_ms: int) -> bool:
    """Whether nothing was committed for longer than the whole window lasts."""
    first_ms, last_ms = commits[0].timestamp_ms, commits[-1].timestamp_ms
    return now_ms - last_ms > last_ms - first_ms


def _had_read_all(commits: Sequence[Commit], ends: Iterable[int]) -> bool:
    """Whether the log ended lately where the group is: then it waited for records, and had no
    reason to commit."""
    return any(end <= commits[-1].offset for end in ends)


def _is_rewound(commits: Sequence[Commit]) -> bool:
    """Whether the group went back, and is not where it was before."""
    for index in range(1, len(commits)):
        before = commits[index - 1].offset
        if commits[index].offset < before:
            return not any(commit.offset >= before for commit in commits[index:])
    return False


def evaluate_partition(
    partition: TopicPartition, window: PartitionWindow, now_ms: int, rules: Rules
) -> PartitionStatus:
    """Returns the status of a partition. If its commits were sampled, their times are guesses: with
    an owner it has not stopped, whatever they are, and from one commit alone, seen just now or of
    an owner, nothing follows yet."""
    complete = min(1.0, len(window.commits) / rules.intervals)
    status = Status.OK
    if window.commits and complete >= rules.minimum_complete:
        last_ms = window.commits[-1].timestamp_ms
        is_guessed = bool(window.owner) and not window.is_read
        until_ms = min(now_ms, last_ms) if is_guessed else now_ms
        if len(window.commits) > 1 or until_ms > last_ms:
            status = status_of(
                window.commits, window.ends, window.current_lag, until_ms, rules.allowed_lag
            )
    return PartitionStatus(partition, status, window.current_lag, complete, window)


def evaluate_group(
    group: str, windows: Iterable[tuple[TopicPartition, PartitionWindow]], now_ms: int, rules: Rules
) -> GroupStatus:
    partitions = tuple(
        evaluate_partition(partition, window, now_ms, rules) for partition, window in windows
    )
    if not partitions:
        return GroupStatus(group, Status.OK, 0.0)
    return GroupStatus(
        group,
        min(Status.ERR, max(partition.status for partition in partitions)),
        sum(partition.complete == 1.0 for partition in partitions) / len(partitions),
        sum(partition.current_lag for partition in partitions),
        partitions,
        max(partitions, key=lambda one: one.current_lag),
    )


def not_found(group: str) -> GroupStatus:
    """Returns the status of a group of which nothing is known."""
    return GroupStatus(group, Status.NOTFOUND, 1.0)
