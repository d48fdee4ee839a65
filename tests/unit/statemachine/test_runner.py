"""The runner, on a log in memory whose commits the test decides: order, replies, deadlines, end."""

import asyncio
import gc
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.invariants import InvariantViolation
from odradek.protocol.api_error import ApiError
from odradek.statemachine.log_lines import LogLines
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
from odradek.statemachine.runner import NotWritten, Runner, RunnerEnded
from odradek.statemachine.watermark import Watermark
from odradek.world import SystemClock
from simulation.run import run
from simulation.world import Simulation


class MemoryLog:
    """A `ReplicatedLog` that commits when it is told to."""

    def __init__(self, *records: LogRecord, commits_at_once: bool = True) -> None:
        self.waits_for_commit = asyncio.Event()
        self.records = list(records)
        self.high_watermark = Watermark(len(records))
        self.commits_at_once = commits_at_once
        self.is_leader = True
        self.has_room = True
        self.is_leased = True

    @property
    def committed_offset(self) -> int:
        return self.high_watermark.value

    @property
    def end_offset(self) -> int:
        return len(self.records)

    async def replay(self, end_offset: int) -> AsyncIterator[Sequence[Written | Marker]]:
        yield [Written(record, offset) for offset, record in enumerate(self.records[:end_offset])]

    def append(
        self, records: Sequence[LogRecord], producer: ProducerIdentity | None, timestamp_ms: int
    ) -> int:
        if not self.is_leader:
            raise ConnectionError("no longer leader")
        if not self.has_room:
            raise NotWritten(BlockingIOError("too few replicas"))
        offset = len(self.records)
        self.records += records
        if self.commits_at_once:
            self.high_watermark.advance(len(self.records))
        return offset

    async def wait_until_committed(self, offset: int) -> None:
        self.waits_for_commit.set()
        await self.high_watermark.reached(offset)

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


async def test_a_marker_that_comes_during_a_replay_counts_behind_it() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"))
    machine = Counter()
    runner = runner_of(machine, log)
    marker = Marker(ProducerIdentity(7, 0), committed=True)
    runner.note(marker, 2)
    assert machine.markers == []
    await runner.load()
    runner.note(marker, 3)
    assert machine.markers == [({"a": 1}, marker)] * 2


async def test_a_replay_brings_the_state_back() -> None:
    runner, _ = await loaded(MemoryLog(LogRecord(b"a", b"1"), LogRecord(b"a", b"2")))
    assert await runner.ask(Count("read", "a")) == 2
    assert await runner.ask(Count("add", "a")) == 3


async def test_the_next_decision_sees_what_is_not_committed_but_nobody_is_told_before() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, machine = await loaded(log)
    first = asyncio.ensure_future(runner.ask(Count("add", "a")))
    second = asyncio.ensure_future(runner.ask(Count("add", "a")))
    reader = asyncio.ensure_future(runner.ask(Count("read", "a")))
    await asyncio.sleep(0)
    assert machine.counts == {"a": 2}
    assert not any(task.done() for task in (first, second, reader))
    log.high_watermark.advance(1)
    assert await first == 1
    assert not any(task.done() for task in (second, reader))
    log.high_watermark.advance(2)
    assert (await second, await reader) == (2, 2)


async def test_a_runner_says_of_one_subject_whether_all_about_it_is_committed() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    for name in ("a", "b"):
        runner.begin(Count("add only", name))
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [False, False, True]
    log.high_watermark.advance(1)
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [True, False, True]
    log.high_watermark.advance(2)
    assert runner.is_committed("b")


async def test_what_is_committed_as_it_is_written_is_answered_without_a_turn_of_the_loop() -> None:
    runner, _ = await loaded(MemoryLog())
    replies = [runner.begin(Count("add", "a")) for _ in range(3)]
    assert [reply.result() for reply in replies] == [1, 2, 3]


async def test_what_was_begun_is_answered_when_committed_or_told_that_leadership_is_lost() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    first, second = runner.begin(Count("add", "a")), runner.begin(Count("add", "a"))
    assert not first.done()
    log.high_watermark.advance(1)
    assert await first == 1
    runner.end(ConnectionError("no longer leader"))
    with pytest.raises(ConnectionError):
        await second


async def test_one_outcome_answers_many() -> None:
    runner, _ = await loaded(MemoryLog())
    waiting = [asyncio.ensure_future(runner.ask(Count("wait", "a"))) for _ in range(3)]
    await asyncio.sleep(0)
    assert await runner.ask(Count("add", "a")) == 1
    assert await asyncio.gather(*waiting) == [1, 1, 1]


async def test_a_caller_that_went_away_does_not_disturb_the_others() -> None:
    runner, _ = await loaded(MemoryLog())
    gone = asyncio.ensure_future(runner.ask(Count("wait", "a")))
    waiting = asyncio.ensure_future(runner.ask(Count("wait", "a")))
    await asyncio.sleep(0)
    gone.cancel()
    runner.tell(Count("add", "a"))
    assert await waiting == 1


async def test_a_failed_append_ends_the_runner_and_tells_everyone() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(Count("wait", "a")))
    await asyncio.sleep(0)
    log.is_leader = False
    with pytest.raises(ConnectionError):
        await runner.ask(Count("add", "a"))
    with pytest.raises(ConnectionError):
        await waiting
    with pytest.raises(ConnectionError):
        await runner.ask(Count("read", "a"))
    assert machine.counts == {}


async def test_lost_leadership_fails_what_waits_for_the_commit() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(Count("add", "a")))
    await asyncio.sleep(0)
    log.high_watermark.fail(ConnectionError("no longer leader"))
    with pytest.raises(ConnectionError):
        await waiting


async def test_a_deadline_reaches_the_machine_and_an_ended_runner_has_none() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    await runner.ask(Count("alarm", "x"))
    await log.high_watermark.reached(1)
    assert machine.expired == ["x"]
    await runner.ask(Count("alarm", "y"))
    runner.end(ConnectionError("stopped"))
    assert not runner._timers


async def test_nobody_is_served_before_the_log_is_replayed() -> None:
    runner = runner_of(Counter(), MemoryLog())
    with pytest.raises(RunnerEnded):
        await runner.ask(Count("read", "a"))


async def test_a_deadline_that_passes_when_leadership_is_gone_ends_the_runner_quietly() -> None:
    log = MemoryLog()
    runner, _ = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(Count("wait", "a")))
    await runner.ask(Count("alarm", "x"))
    log.is_leader = False
    with pytest.raises(ConnectionError):
        await waiting


async def test_what_a_marker_changed_is_told_when_the_marker_is_committed() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), commits_at_once=False)
    runner, _ = await loaded(log)
    log.records.append(LogRecord(b"marker", b"0"))
    runner.note(Marker(ProducerIdentity(7, 0), committed=True), 2)
    reader = asyncio.ensure_future(runner.ask(Count("read", "a")))
    await asyncio.sleep(0)
    assert not reader.done()
    log.high_watermark.advance(2)
    assert await reader == 1


async def test_nobody_is_served_before_the_end_of_the_log_is_committed() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), LogRecord(b"a", b"2"), commits_at_once=False)
    log.high_watermark = Watermark(1)
    machine = Counter()
    runner = runner_of(machine, log)
    loading = asyncio.ensure_future(runner.load())
    await asyncio.wait_for(log.waits_for_commit.wait(), 30)
    assert machine.counts == {"a": 2}
    assert not runner.is_loaded
    with pytest.raises(RunnerEnded):
        await runner.ask(Count("read", "a"))
    log.high_watermark.advance(2)
    await loading
    assert await runner.ask(Count("read", "a")) == 2


async def test_a_runner_that_ended_while_it_loaded_never_serves() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), commits_at_once=False)
    log.high_watermark = Watermark(0)
    runner = runner_of(Counter(), log)
    loading = asyncio.ensure_future(runner.load())
    await asyncio.sleep(0)
    runner.end(ConnectionError("another broker leads"))
    log.high_watermark.advance(1)
    with pytest.raises(ConnectionError):
        await loading
    assert runner.ended.is_set()
    assert not runner.is_loaded


async def test_a_log_that_takes_nothing_now_disturbs_the_caller_alone() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"))
    runner, machine = await loaded(log)
    parked = asyncio.ensure_future(runner.ask(Count("wait", "a")))
    await asyncio.sleep(0)
    log.has_room = False
    with pytest.raises(BlockingIOError):
        await runner.ask(Count("add", "a"))
    runner.tell(Count("add", "a"))
    assert machine.counts == {"a": 1}
    assert await runner.ask(Count("read", "a")) == 1
    log.has_room = True
    assert await runner.ask(Count("add", "a")) == 2
    assert await parked == 2


async def test_callers_whose_joint_command_was_not_written_are_forgotten() -> None:
    """They were told at once: whoever is told later is told about a future that nobody has."""
    log = MemoryLog()
    runner, machine = await loaded(log)
    log.has_room = False
    with pytest.raises(BlockingIOError):
        runner.begin_together(["a", "b"], lambda _: Forbid())
    with pytest.raises(ZeroDivisionError):
        runner.begin_together(["a", "b"], lambda pairs: Forbid(1 // 0))
    assert not runner._callers
    assert machine.counts == {}
    runner.end(ConnectionError("no longer leader"))


async def test_a_deadline_that_could_not_be_written_comes_again() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    log.has_room = False
    await runner.ask(Count("alarm", "a"))
    while not machine.expired:  # noqa: ASYNC110 - the machine has no loop to tell
        await asyncio.sleep(0.005)
    assert machine.counts == {}
    log.has_room = True
    while not machine.counts:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert machine.expired == ["a", "a"]
    assert machine.counts == {"expired": 1}


async def test_a_reply_waits_only_for_what_it_rests_on() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    begun = [runner.begin(Count("add only", name)) for name in ("a", "b")]
    assert await runner.ask(Count("read only", "c")) == 0
    reads = [runner.begin(Count("read only", name)) for name in ("a", "b")]
    everything = runner.begin(Count("read", "c"))
    assert not any(future.done() for future in (*begun, *reads, everything))
    log.high_watermark.advance(1)
    assert (await begun[0], await reads[0]) == (1, 1)
    assert not any(future.done() for future in (begun[1], reads[1], everything))
    log.high_watermark.advance(2)
    assert (await begun[1], await reads[1], await everything) == (1, 1, 0)


async def test_a_reply_that_comes_later_may_leave_earlier() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    first = runner.begin(Count("add only", "a"))
    second = runner.begin(Count("add only", "b"))
    first.cancel()  # Its client is gone: the runner waits for the second record from now on.
    await asyncio.sleep(0)
    read = runner.begin(Count("read only", "a"))
    await asyncio.sleep(0)
    log.high_watermark.advance(1)
    assert await read == 1
    assert not second.done()
    log.high_watermark.advance(2)
    assert await second == 1


async def test_records_about_nothing_in_particular_hold_everybody_up() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(Count("add", "a"))
    read = runner.begin(Count("read only", "c"))
    await asyncio.sleep(0)
    assert not read.done()
    log.high_watermark.advance(1)
    assert (await write, await read) == (1, 0)


async def test_a_reply_is_given_up_when_its_replicas_are_too_slow() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log, CommitTimeout(20, lambda: TimeoutError("too slow")))
    write = runner.begin(Count("add only", "a"))
    await asyncio.sleep(0)
    read = runner.begin(Count("read only", "a"))
    for late in (write, read):
        with pytest.raises(TimeoutError):
            await late
    # What was decided stands, and whoever asks after the commit is told of it.
    later = runner.begin(Count("read only", "a"))
    await asyncio.sleep(0)
    assert not later.done()
    log.high_watermark.advance(1)
    assert await later == 1


def test_a_reply_of_the_same_offset_outlives_one_whose_time_is_up() -> None:
    async def main(_: Simulation) -> None:
        log = MemoryLog(commits_at_once=False)
        runner, _machine = await loaded(log, CommitTimeout(20, lambda: TimeoutError("too slow")))
        early = runner.begin(Count("add only", "a"))
        await asyncio.sleep(0.015)
        late = runner.begin(Count("read only", "a"))
        with pytest.raises(TimeoutError):
            await early
        assert not late.done()  # Nothing is committed, and its own time is not up.
        log.high_watermark.advance(1)
        assert await late == 1

    run(main, seed=1)


async def test_a_runner_whose_log_has_no_lease_answers_nobody() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(Count("add", "a"))
    log.is_leased = False
    log.high_watermark.advance(1)
    for refused in (write, runner.begin(Count("read", "a"))):
        with pytest.raises(InterruptedError):
            await refused
    log.is_leased = True
    assert await runner.ask(Count("read", "a")) == 1


async def test_no_deadline_passes_without_a_lease() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    log.is_leased = False
    runner._expire("a")
    assert machine.expired == []
    log.is_leased = True
    async with asyncio.timeout(5):
        await machine.has_expired.wait()
    assert machine.expired == ["a"]


async def test_whoever_waits_is_sent_away_without_a_lease_and_the_next_one_is_answered() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    waiting = [runner.begin(Count("add", "a")), runner.begin(Count("wait", "b"))]
    await asyncio.sleep(0)
    runner.fail_waiters()  # Nothing happens as long as there is a lease.
    assert not any(each.done() for each in waiting)
    log.is_leased = False
    runner.fail_waiters()
    for each in waiting:
        assert isinstance(each.exception(), InterruptedError)
    log.is_leased = True
    read = runner.begin(Count("read", "a"))
    await asyncio.sleep(0)
    assert not read.done()
    log.high_watermark.advance(1)
    assert await read == 1


async def test_a_refusal_that_nobody_awaits_is_not_logged() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    runner, _ = await loaded(MemoryLog(commits_at_once=False))
    replies = [runner.begin(Count("add", "a"))]
    runner.end(ConnectionError("no longer leader"))
    replies.clear()  # As when the connection ends before its handler comes to this reply.
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_a_decision_sees_the_image_of_its_moment() -> None:
    runner, _ = await loaded(MemoryLog())
    assert await runner.ask(Count("image", "a")) == len("cluster")


async def test_effects_and_log_lines_follow_the_append_and_not_the_decision(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "odradek.test")
    log = MemoryLog(commits_at_once=False)
    runner, machine = await loaded(log)
    log.has_room = False
    with pytest.raises(BlockingIOError):
        await runner.ask(Count("effect", "a"))
    assert not machine.performed
    assert not caplog.messages
    log.has_room = True
    reply = runner.begin(Count("effect", "a"))
    # The record is appended and not committed: the effect may follow, the reply may not.
    assert machine.performed == ["a"]
    assert caplog.messages == ["counted a"]
    assert not reply.done()
    log.high_watermark.advance(1)
    assert await reply == 1


async def test_a_violation_ends_the_runner_and_its_owner_finds_it() -> None:
    runner, _ = await loaded(MemoryLog())
    waiting = runner.begin(Count("wait", "a"))
    asked = runner.begin(Count("violate", "a"))
    for refused in (waiting, asked):
        with pytest.raises(ApiError, match="out of service"):
            await refused
    with pytest.raises(ApiError, match="out of service"):
        runner.begin(Count("read", "a"))
    assert runner.ended.is_set()
    assert isinstance(runner.failure, InvariantViolation)
    assert runner.failure.history == ("once",)


async def test_a_violation_of_the_log_ends_the_runner_too() -> None:
    """The log's own invariants are checked when it is appended to."""
    log = MemoryLog()
    runner, _ = await loaded(log)
    violation = InvariantViolation("partition t-0", "the high watermark is beyond the end")

    def append(*_: object) -> int:
        raise violation

    log.append = append  # type: ignore[method-assign,assignment]
    with pytest.raises(ApiError, match="out of service"):
        await runner.ask(Count("add", "a"))
    assert runner.failure is violation


async def test_a_machine_never_applies_more_than_the_log_holds() -> None:
    log = MemoryLog()
    runner, _ = await loaded(log)
    log.append = lambda *_: 7  # type: ignore[method-assign]
    with pytest.raises(ApiError, match="out of service"):
        await runner.ask(Count("add", "a"))
    assert isinstance(runner.failure, InvariantViolation)
    assert "applied up to offset 8, but the log ends at 0" in str(runner.failure)


async def test_lines_that_clients_cause_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "odradek.test")
    now_s = 5.0
    lines = LogLines(lambda: now_s)
    refusal = LogLine("odradek.test", "refused %d", (1,), is_limited=True)
    for _ in range(100):
        lines.write([refusal])
    lines.write([LogLine("odradek.test", "as usual")])
    assert caplog.messages == ["refused 1"] * 20 + ["as usual"]
    now_s = 15.0
    caplog.clear()
    lines.write([refusal, refusal])
    assert caplog.messages == ["refused 1 (80 similar lines were left out before)", "refused 1"]
