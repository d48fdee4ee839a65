"""Checks the history of a consumer group: who owned what, and which offsets were committed.

These are pure functions over a history, for any number of brokers.

    two owners      a partition belonged to two members in one generation or epoch, and the
                    generations of the group did not begin anew in between
    phantom offset  an offset was read that was never committed, or only in an aborted transaction
    stale offset    a position was read that an acknowledged later commit had replaced
    went back       an acknowledged commit is below an earlier acknowledged one
    wrong start     a member began somewhere else than where the group was
    passed over     the group's position is beyond a record that no member was given
    unfinished      at the end the group's position is not the end of the log

A commit is an interval of time: asked, and answered or never. One without an answer may take
effect at any later moment, even after younger ones: the request may still be on its way.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from simulation.checkers import Violation

Partition = Hashable
# The offsets of each partition that can be read at the end.
Log = Mapping[Any, list[int]]


@dataclass(slots=True, eq=False)
class Commit:
    """A commit of one partition. At `ended_s` it had surely happened; infinite if that is
    unknown."""

    who: str
    partition: Partition
    offset: int
    asked_s: float
    ended_s: float = inf
    is_acknowledged: bool = False
    # Whether it surely never happened.
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """The committed offset that a client was told; None if there was none."""

    who: str
    partition: Partition
    offset: int | None
    asked_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Start:
    """The first record that a member was given after a partition came to it."""

    who: str
    partition: Partition
    offset: int
    assigned_s: float
    polled_s: float


class Span(NamedTuple):
    """A time between two others, if the moment itself is not known."""

    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Ownership:
    owner: str
    generation: int
    partition: Partition


@dataclass(slots=True)
class GroupHistory:
    commits: list[Commit] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    # In order, each once, with the time in which the coordinator gave the partition to its owner:
    # after the client began, before it was told.
    ownerships: dict[Ownership, Span] = field(default_factory=dict)
    # When the generations of the group began anew, in order (`group_resets`).
    resets: list[Span] = field(default_factory=list)
    delivered: dict[Partition, set[int]] = field(default_factory=dict)

    def owned(
        self,
        owner: str,
        generation: int,
        partitions: Iterable[Partition],
        given: Span = Span(0.0, 0.0),  # noqa: B008 - it is a constant
    ) -> None:
        for partition in partitions:
            self.ownerships.setdefault(Ownership(owner, generation, partition), given)

    def was_given(self, partition: Partition, offset: int) -> None:
        self.delivered.setdefault(partition, set()).add(offset)


def group_violations(history: GroupHistory, log: Log) -> list[Violation]:
    """All violations in the history."""
    return [
        *two_owners(history),
        *wrong_observations(history),
        *backward_commits(history.commits),
        *wrong_starts(history, log),
        *passed_over(history, log),
    ]


def two_owners(history: GroupHistory) -> Iterable[Violation]:
    """Leaves an ownership out if it is unknown whether a reset came before or after it."""
    owners: dict[tuple[Partition, int, int], str] = {}
    for ownership, given in history.ownerships.items():
        resets_before = sum(reset.last_s < given.first_s for reset in history.resets)
        if resets_before != sum(reset.first_s <= given.last_s for reset in history.resets):
            continue
        key = (ownership.partition, ownership.generation, resets_before)
        owner = owners.setdefault(key, ownership.owner)
        if owner != ownership.owner:
            detail = f"{owner} and {ownership.owner} in generation {ownership.generation}"
            yield Violation("two owners", ownership.partition, detail)


def possible_offsets(
    commits: Iterable[Commit], asked_s: float, answered_s: float
) -> dict[int | None, Commit | None]:
    """What a reader of the position may have been told in a span of time, and by whose commit.

    `commits` are those of the partition.
    """
    candidates = [
        commit for commit in commits if not commit.is_refused and commit.asked_s <= answered_s
    ]
    # A commit that began after another one had ended replaces it.
    settled = [
        candidate
        for candidate in candidates
        if candidate.is_acknowledged and candidate.ended_s < asked_s
    ]
    newest_begin_s = max((commit.asked_s for commit in settled), default=-inf)
    possible: dict[int | None, Commit | None] = {
        candidate.offset: candidate
        for candidate in candidates
        if candidate.ended_s >= newest_begin_s
    }
    if not settled:
        possible[None] = None
    return possible


def wrong_observations(history: GroupHistory) -> Iterable[Violation]:
    by_partition = _by_partition(history.commits)
    for seen in history.observations:
        commits = by_partition.get(seen.partition, [])
        if seen.offset in possible_offsets(commits, seen.asked_s, seen.answered_s):
            continue
        known = any(commit.offset == seen.offset and not commit.is_refused for commit in commits)
        rule = "stale offset" if known or seen.offset is None else "phantom offset"
        detail = f"{seen.who} was told {seen.offset} between {seen.asked_s:.3f} and"
        yield Violation(rule, seen.partition, f"{detail} {seen.answered_s:.3f}")


def backward_commits(commits: Sequence[Commit]) -> Iterable[Violation]:
    for partition, ours in _by_partition(commits).items():
        acknowledged = [commit for commit in ours if commit.is_acknowledged]
        unanswered = [
            commit for commit in ours if not commit.is_acknowledged and not commit.is_refused
        ]
        for later in acknowledged:
            before = max(
                (commit for commit in acknowledged if commit.ended_s < later.asked_s),
                key=lambda one: one.offset,
                default=None,
            )
            if before is None or later.offset >= before.offset:
                continue
            # A request without an answer arrived late and put the group back before.
            if any(o.offset <= later.offset and o.asked_s <= later.asked_s for o in unanswered):
                continue
            detail = f"{later.who} committed {later.offset} after {before.who} {before.offset}"
            yield Violation("went back", partition, detail)


def wrong_starts(history: GroupHistory, log: Log) -> Iterable[Violation]:
    by_partition = _by_partition(history.commits)
    for start in history.starts:
        commits = by_partition.get(start.partition, [])
        possible = possible_offsets(commits, start.assigned_s, start.polled_s)
        readable = log.get(start.partition, [])
        if not any(_begins(readable, offset or 0, start.offset) for offset in possible):
            detail = f"{start.who} began at {start.offset}, the group was at {list(possible)}"
            yield Violation("wrong start", start.partition, detail)


def _begins(readable: list[int], position: int, first: int) -> bool:
    """Whether `first` is the first record that can be read from `position` on."""
    return position <= first and not any(position <= offset < first for offset in readable)


def passed_over(history: GroupHistory, log: Log) -> Iterable[Violation]:
    """The last observation tells the final offsets: no member works any more by then."""
    last = {seen.partition: seen for seen in history.observations}
    for partition, readable in log.items():
        position = last[partition].offset if partition in last else None
        given = history.delivered.get(partition, set())
        for offset in readable:
            if offset >= (position or 0):
                yield Violation("unfinished", partition, f"{position}, but there is {offset}")
                break
            if offset not in given:
                yield Violation("passed over", partition, f"{offset} was given to nobody")


def _by_partition(commits: Iterable[Commit]) -> dict[Partition, list[Commit]]:
    found: dict[Partition, list[Commit]] = {}
    for commit in commits:
        found.setdefault(commit.partition, []).append(commit)
    return found
