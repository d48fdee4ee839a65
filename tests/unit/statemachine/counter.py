"""A log in memory, and a machine that counts, for tests of the runner."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.invariants import InvariantViolation
from odradek.protocol.types import Offset
from odradek.statemachine.machine import (
    Caller,
    Command,
    Deadline,
    DecisionContext,
    LogLine,
    LogRecord,
    Marker,
    Outcome,
    ProducerIdentity,
    Reply,
    Written,
    reply_to,
)
from odradek.statemachine.pending_replies import CommitTimeout
from odradek.statemachine.runner import NotWritten, Runner
from odradek.statemachine.watermark import Watermark
from odradek.world import SystemClock


class MemoryLog:
    """A `ReplicatedLog` that commits when it is told to."""

    def __init__(self, *records: LogRecord, commits_at_once: bool = True) -> None:
        self.waits_for_commit = asyncio.Event()
        self.records = list(records)
        self.high_watermark = Watermark(Offset(len(records)))
        self.commits_at_once = commits_at_once
        self.is_leader = True
        self.has_room = True
        self.is_leased = True

    @property
    def committed_offset(self) -> Offset:
        return self.high_watermark.value

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.records))

    async def replay(self, end_offset: int) -> AsyncIterator[Sequence[Written | Marker]]:
        yield [
            Written(record, Offset(offset))
            for offset, record in enumerate(self.records[:end_offset])
        ]

    def append(
        self, records: Sequence[LogRecord], producer: ProducerIdentity | None, timestamp_ms: int
    ) -> Offset:
        if not self.is_leader:
            raise ConnectionError("no longer leader")
        if not self.has_room:
            raise NotWritten(BlockingIOError("too few replicas"))
        offset = Offset(len(self.records))
        self.records += records
        if self.commits_at_once:
            self.high_watermark.advance(Offset(len(self.records)))
        return offset

    async def wait_until_committed(self, offset: Offset) -> None:
        self.waits_for_commit.set()
        await self.high_watermark.wait_for(offset)

    def refusal(self) -> Exception | None:
        return None if self.is_leased else InterruptedError("no lease")


@dataclass(slots=True)
class Count(Command[int]):
    verb: str
    name: str


@dataclass(slots=True)
class Forbid(Command[None]):
    """Writes a record, whoever asks together."""

    number: int = 0


Parked = tuple[str, Caller[int]]

CounterOutcome = Outcome[Parked, str]


class Counter:
    """Counts by name; `wait` parks its caller until somebody counts to the number."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.parked: list[Parked] = []
        self.expired: list[Hashable] = []
        self.has_expired = asyncio.Event()
        self.performed: list[str] = []
        # What was counted when a marker came.
        self.markers: list[tuple[dict[str, int], Marker]] = []

    def decide(
        self, command: Command[Any], caller: Caller[Any] | None, now: DecisionContext[str]
    ) -> CounterOutcome:
        if isinstance(command, Forbid):
            return Outcome([LogRecord(b"a", b"1")])
        assert isinstance(command, Count)
        name = command.name
        count = self.counts.get(name, 0)
        assert caller is not None or command.verb == "add"
        outcome: CounterOutcome
        match command.verb:
            case "add":
                waiting = [each for parked, each in self.parked if parked == name]
                replies = [
                    *reply_to(caller, count + 1),
                    *(Reply(each, count + 1) for each in waiting),
                ]
                outcome = Outcome([LogRecord(name.encode(), b"%d" % (count + 1))], replies=replies)
            case "read":
                outcome = Outcome(replies=reply_to(caller, count))
            case "add only" | "read only":
                # Is about one name, and depends on nothing else.
                after = count + (command.verb == "add only")
                records = [LogRecord(name.encode(), b"%d" % after)] if after > count else []
                outcome = Outcome(records, replies=reply_to(caller, after), subjects=(name,))
            case "alarm":
                outcome = Outcome(replies=reply_to(caller, 0), deadlines=[Deadline(name, 10)])
            case "image":
                outcome = Outcome(replies=reply_to(caller, len(now.image)))
            case "effect":
                record = LogRecord(name.encode(), b"1")
                line = LogLine("odradek.test", "counted %s", (name,))
                outcome = Outcome(
                    [record], replies=reply_to(caller, 1), effects=[name], log_lines=[line]
                )
            case "violate":
                outcome = Outcome([LogRecord(b"wrong", b"1")], replies=reply_to(caller, 1))
            case _:
                assert caller is not None
                outcome = Outcome(events=[(name, caller)])
        return outcome

    def apply(self, entry: Written | Marker | Parked) -> None:
        if isinstance(entry, Written):
            assert entry.record.value is not None
            if entry.record.key == b"wrong":
                raise InvariantViolation("the counter", "it counts only what is right", ["once"])
            self.counts[entry.record.key.decode()] = int(entry.record.value)
        elif isinstance(entry, Marker):
            self.markers.append((dict(self.counts), entry))
        else:
            self.parked.append(entry)

    def subjects_of(self, marker: Marker) -> None:
        return None

    def expire(self, key: Hashable, now: DecisionContext[str]) -> CounterOutcome:
        self.expired.append(key)
        self.has_expired.set()
        return Outcome([LogRecord(b"expired", b"1")])

    def after_load(self, now: DecisionContext[str]) -> CounterOutcome:
        return Outcome()


def runner_of(
    machine: Counter, log: MemoryLog, limit: CommitTimeout | None = None
) -> Runner[Parked, str, str]:
    return Runner(
        machine,
        log,
        SystemClock(),
        image=lambda: "cluster",
        perform=machine.performed.append,
        limit=limit,
    )


async def loaded(
    log: MemoryLog, limit: CommitTimeout | None = None
) -> tuple[Runner[Parked, str, str], Counter]:
    machine = Counter()
    runner = runner_of(machine, log, limit)
    await runner.load()
    return runner, machine
