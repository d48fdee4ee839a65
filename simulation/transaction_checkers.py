"""Checks transactions: all records become visible or none, once, and none of a fenced producer.

These are pure functions over a history, for any number of brokers. Every value that is sent names
its transaction. A transaction whose commit was asked for and not answered may
have happened; one whose commit was never asked for must not.

    aborted read    a read_committed consumer saw a record of an aborted transaction
    early read      it saw one before the commit was asked for
    torn            of one transaction some records are visible at the end and others are not
    lost            a transaction whose commit was acknowledged is not visible at the end
    hidden          read_committed sees at the end what the log does not hold, or elsewhere
    zombie          a transaction was committed by a producer after its successor was ready
    shut out        a producer that nobody can have fenced was told that its id is unknown
    not once        a record of the input has no output, or more than one
    skipped, backwards, inconsistent, duplicate, moved, unordered: see `checkers`
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from simulation.checkers import History, Partition, Send, Violation, violations
from simulation.group_checkers import Commit

Source = tuple[Partition, int]

# Shorter than every transaction timeout of the workloads.
_NO_TIMEOUT_S = 2.5


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction, as its producer saw it. `producer` names one instance of a producer."""

    transactional_id: str
    producer: str
    number: int
    began_s: float
    sends: list[Send] = field(default_factory=list)
    # For each send, the record of the input that it came from.
    sources: list[Source] = field(default_factory=list)
    # Of the group, committed with it.
    positions: dict[Partition, int] = field(default_factory=dict)
    # None until the commit was asked for: such a one never happened.
    commit_asked_s: float | None = None
    committed_s: float = inf
    # An answer said so.
    is_committed: bool = False
    is_aborted: bool = False

    @property
    def may_be_committed(self) -> bool:
        return self.commit_asked_s is not None and not self.is_aborted

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.producer}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A producer asks for its identity. Whether it is told, or dies first, is not known yet."""

    transactional_id: str
    producer: str
    asked_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    """A producer was told its identity. Every producer that was ready before is fenced."""

    transactional_id: str
    producer: str
    asked_s: float
    at_s: float


@dataclass(frozen=True, slots=True)
class CommittedRead:
    reader: str
    partition: Partition
    offset: int
    value: bytes
    at_s: float


@dataclass(frozen=True, slots=True)
class ShutOut:
    """A producer was told INVALID_PRODUCER_ID_MAPPING, in a transaction that began then."""

    transactional_id: str
    producer: str
    began_s: float
    at_s: float


@dataclass(slots=True)
class TransactionHistory:
    """`log` is what read_uncommitted sees: all sends, in transactions or not."""

    log: History = field(default_factory=History)
    attempts: list[Attempt] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    reads: list[CommittedRead] = field(default_factory=list)
    shut_out: list[ShutOut] = field(default_factory=list)
    # What read_committed sees, by consumer as in `History.polls`, and at the end.
    committed: History = field(default_factory=History)

    def began(self, transactional_id: str, producer: str, now_s: float) -> Attempt:
        attempt = Attempt(transactional_id, producer, len(self.attempts), now_s)
        self.attempts.append(attempt)
        return attempt

    def is_asking(self, transactional_id: str, producer: str, now_s: float) -> None:
        self.asked.append(Asked(transactional_id, producer, now_s))

    def is_ready(self, transactional_id: str, producer: str, asked_s: float, now_s: float) -> None:
        self.ready.append(Ready(transactional_id, producer, asked_s, now_s))

    def read(
        self, reader: str, partition: Partition, offset: int, value: bytes, now_s: float
    ) -> None:
        self.committed.polled(reader, partition, offset, value)
        self.reads.append(CommittedRead(reader, partition, offset, value, now_s))


def transaction_violations(history: TransactionHistory) -> list[Violation]:
    """All violations in the history, except those of `exactly_once`."""
    committed = History(
        sends=history.log.sends, polls=history.committed.polls, final=history.committed.final
    )
    visible = {
        (partition, value): offset
        for partition, records in history.committed.final.items()
        for offset, value in records
    }
    # Losses are judged here in transactions: what was aborted is lost on purpose.
    unanswered = [Send(s.producer, s.partition, s.value) for s in committed.sends]
    committed.sends = unanswered
    return [
        *violations(history.log, idempotent=True),
        *violations(committed, idempotent=True),
        *_impossible_reads(history),
        *_torn(history, visible),
        *_hidden(history),
        *_zombies(history, visible),
        *_shut_out(history),
    ]


Visible = dict[tuple[Partition, bytes], int]


def _impossible_reads(history: TransactionHistory) -> Iterable[Violation]:
    attempts = {(s.partition, s.value): a for a in history.attempts for s in a.sends}
    final = [
        CommittedRead("the end", partition, offset, value, inf)
        for partition, records in history.committed.final.items()
        for offset, value in records
    ]
    for read in (*history.reads, *final):
        attempt = attempts.get((read.partition, read.value))
        if attempt is None:
            continue  # Outside transactions.
        detail = f"{read.reader} saw {read.value!r} at {read.offset}, of {attempt}"
        if not attempt.may_be_committed:
            yield Violation("aborted read", read.partition, detail)
        elif attempt.commit_asked_s is not None and read.at_s < attempt.commit_asked_s:
            yield Violation("early read", read.partition, detail)


def _torn(history: TransactionHistory, visible: Visible) -> Iterable[Violation]:
    for attempt in history.attempts:
        seen = [(send.partition, send.value) in visible for send in attempt.sends]
        if attempt.is_committed and not all(seen):
            lost = attempt.sends[seen.index(False)]
            detail = f"{lost.value!r} of {attempt}, which was acknowledged"
            yield Violation("lost", lost.partition, detail)
        elif any(seen) and not all(seen):
            lost = attempt.sends[seen.index(False)]
            detail = f"{attempt} is visible, but not its {lost.value!r}"
            yield Violation("torn", lost.partition, detail)


def _hidden(history: TransactionHistory) -> Iterable[Violation]:
    for partition, records in history.committed.final.items():
        if partition not in history.log.final:
            continue
        there = set(history.log.final[partition])
        for offset, value in records:
            if (offset, value) not in there:
                yield Violation("hidden", partition, f"{value!r} at {offset} is not in the log")


def _zombies(history: TransactionHistory, visible: Visible) -> Iterable[Violation]:
    fenced_s = fencing_times(history.ready)
    for attempt in history.attempts:
        asked_s = attempt.commit_asked_s
        if asked_s is None or asked_s <= fenced_s.get(attempt.producer, inf):
            continue
        seen = [send for send in attempt.sends if (send.partition, send.value) in visible]
        if attempt.is_committed or seen:
            partition = attempt.sends[0].partition if attempt.sends else None
            detail = f"{attempt} asked at {asked_s:.3f}, fenced since"
            detail = f"{detail} {fenced_s[attempt.producer]:.3f}"
            yield Violation("zombie", partition, detail)


def _shut_out(history: TransactionHistory) -> Iterable[Violation]:
    """Only a producer that may be fenced, or that exceeded its transaction timeout, may be shut
    out."""
    ready = {one.producer: one for one in history.ready}
    for producer in history.shut_out:
        own = ready.get(producer.producer)
        if (
            own is not None
            and producer.at_s - producer.began_s < _NO_TIMEOUT_S
            and not _may_be_fenced(own, producer.at_s, history.asked, ready)
        ):
            detail = f"{producer.producer} at {producer.at_s:.3f}, and nobody had taken its place"
            yield Violation("shut out", producer.transactional_id, detail)


def _may_be_fenced(
    own: Ready, until_s: float, asked: Iterable[Asked], ready: Mapping[str, Ready]
) -> bool:
    """Whether another producer can have taken the id after `own`, and before `until_s`.

    A coordinator takes a request at any moment between the question and the answer. So it is not
    only a producer that asked later that can have come later, but each one whose answer came after
    `own` had asked: for instance one that was paused while it asked, and asks again when it
    resumes. One that was never answered, because it was killed or gave up, can have come at any
    time after it asked: its request may lie in the buffers of a broker that is stopped.
    """
    for other in asked:
        if other.transactional_id != own.transactional_id or other.producer == own.producer:
            continue
        answer = ready.get(other.producer)
        answered_s = inf if answer is None else answer.at_s
        if other.asked_s <= until_s and answered_s >= own.asked_s:
            return True
    return False


def fencing_times(ready: Iterable[Ready]) -> dict[str, float]:
    """When each producer was surely fenced: when another one was ready that asked after it was.

    Of two that asked at the same time nobody knows who came first.
    """
    by_id: dict[str, list[Ready]] = defaultdict(list)
    for attempt in ready:
        by_id[attempt.transactional_id].append(attempt)
    fenced_s: dict[str, float] = {}
    for ours in by_id.values():
        for commit in ours:
            times = [other.at_s for other in ours if other.asked_s > commit.at_s]
            if times:
                fenced_s[commit.producer] = min(times)
    return fenced_s


def commits_of(history: TransactionHistory) -> list[Commit]:
    """The positions that were committed with transactions, for the rules of groups.

    Whatever a producer left undecided is decided when its successor is ready.
    """
    fenced_s = fencing_times(history.ready)
    commits = []
    for attempt in history.attempts:
        for partition, offset in attempt.positions.items():
            asked_s = attempt.commit_asked_s
            commits.append(
                Commit(
                    str(attempt),
                    partition,
                    offset,
                    inf if asked_s is None else asked_s,
                    min(attempt.committed_s, fenced_s.get(attempt.producer, inf)),
                    is_acknowledged=attempt.is_committed,
                    is_refused=not attempt.may_be_committed,
                )
            )
    return commits


def exactly_once(
    history: TransactionHistory, inputs: Iterable[Partition], outputs: Iterable[Partition]
) -> Iterable[Violation]:
    """Output equals input: each visible record of the input has one visible output."""
    sources = {
        (send.partition, send.value): source
        for attempt in history.attempts
        for send, source in zip(attempt.sends, attempt.sources, strict=False)
    }
    made: dict[Source, list[bytes]] = defaultdict(list)
    for partition in outputs:
        for _, value in history.committed.final.get(partition, []):
            source = sources.get((partition, value))
            if source is not None:
                made[source].append(value)
    for partition in inputs:
        for offset, value in history.committed.final.get(partition, []):
            found = made.pop((partition, offset), [])
            if len(found) != 1:
                yield Violation("not once", partition, f"{value!r} at {offset} became {found}")
    for (partition, offset), found in made.items():
        yield Violation("not once", partition, f"nothing visible at {offset} became {found}")
