"""The runner, on a log in memory whose commits the test decides: order, replies, deadlines, end."""

import asyncio
import gc
from collections.abc import AsyncIterator, Hashable, Sequence

import pytest

from odradek.statemachine.machine import (
    Caller,
    Deadline,
    LogRecord,
    Marker,
    Now,
    Outcome,
    ProducerIdentity,
    Reply,
    Written,
)
from odradek.statemachine.pending_replies import CommitLimit
from odradek.statemachine.runner import NotWritten, Runner, RunnerEnded
from odradek.statemachine.watermark import Watermark
from odradek.world import SystemClock
from simulation.run import run
from simulation.world import Simulation


class MemoryLog:
    """A `ReplicatedLog` that commits when it is told to."""

    def __init__(self, *records: LogRecord, commits_at_once: bool = True) -> None:
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

    async def committed(self, offset: int) -> None:
        await self.high_watermark.reached(offset)

    def refusal(self) -> Exception | None:
        return None if self.is_leased else InterruptedError("no lease")


class Counter:
    """Counts by name; `wait` parks its caller until somebody counts to the number."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.parked: list[tuple[str, Caller]] = []
        self.expired: list[Hashable] = []
        self.has_expired = asyncio.Event()
        # What was counted when a marker came.
        self.markers: list[tuple[dict[str, int], Marker]] = []

    def decide(
        self, command: tuple[str, str], caller: Caller | None, now: Now
    ) -> Outcome[tuple[str, Caller]]:
        verb, name = command
        count = self.counts.get(name, 0)
        if verb == "add":
            replies = [Reply(caller, count + 1)] if caller is not None else []
            replies += [
                Reply(waiting, count + 1) for parked, waiting in self.parked if parked == name
            ]
            return Outcome([LogRecord(name.encode(), b"%d" % (count + 1))], replies=replies)
        if verb == "read":
            assert caller is not None
            return Outcome(replies=[Reply(caller, count)])
        if verb in ("add only", "read only"):
            # Is about one name, and rests on nothing else.
            assert caller is not None
            after = count + (verb == "add only")
            records = [LogRecord(name.encode(), b"%d" % after)] if after > count else []
            return Outcome(records, replies=[Reply(caller, after)], subjects=(name,))
        if verb == "alarm":
            assert caller is not None
            return Outcome(replies=[Reply(caller, None)], deadlines=[Deadline(name, 10)])
        assert caller is not None
        return Outcome(events=[(name, caller)])

    def apply(self, entry: Written | Marker | tuple[str, Caller]) -> None:
        if isinstance(entry, Written):
            assert entry.record.value is not None
            self.counts[entry.record.key.decode()] = int(entry.record.value)
        elif isinstance(entry, Marker):
            self.markers.append((dict(self.counts), entry))
        else:
            self.parked.append(entry)

    def subjects_of(self, marker: Marker) -> None:
        return None

    def expire(self, key: Hashable, now: Now) -> Outcome[tuple[str, Caller]]:
        self.expired.append(key)
        self.has_expired.set()
        return Outcome([LogRecord(b"expired", b"1")])

    def loaded(self, now: Now) -> Outcome[tuple[str, Caller]]:
        return Outcome()


async def loaded(
    log: MemoryLog, limit: CommitLimit | None = None
) -> tuple[Runner[tuple[str, str], tuple[str, Caller]], Counter]:
    machine = Counter()
    runner: Runner[tuple[str, str], tuple[str, Caller]] = Runner(machine, log, SystemClock(), limit)
    await runner.load()
    return runner, machine


async def test_a_marker_that_comes_during_a_replay_counts_behind_it() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"))
    machine = Counter()
    runner: Runner[tuple[str, str], tuple[str, Caller]] = Runner(machine, log, SystemClock())
    marker = Marker(ProducerIdentity(7, 0), committed=True)
    runner.note(marker, 2)
    assert machine.markers == []
    await runner.load()
    runner.note(marker, 3)
    assert machine.markers == [({"a": 1}, marker)] * 2


async def test_a_replay_brings_the_state_back() -> None:
    runner, _ = await loaded(MemoryLog(LogRecord(b"a", b"1"), LogRecord(b"a", b"2")))
    assert await runner.ask(("read", "a")) == 2
    assert await runner.ask(("add", "a")) == 3


async def test_the_next_decision_sees_what_is_not_committed_but_nobody_is_told_before() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, machine = await loaded(log)
    first = asyncio.ensure_future(runner.ask(("add", "a")))
    second = asyncio.ensure_future(runner.ask(("add", "a")))
    reader = asyncio.ensure_future(runner.ask(("read", "a")))
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
        runner.begin(("add only", name))
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [False, False, True]
    log.high_watermark.advance(1)
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [True, False, True]
    log.high_watermark.advance(2)
    assert runner.is_committed("b")


async def test_what_is_committed_as_it_is_written_is_answered_without_a_turn_of_the_loop() -> None:
    runner, _ = await loaded(MemoryLog())
    replies = [runner.begin(("add", "a")) for _ in range(3)]
    assert [reply.result() for reply in replies] == [1, 2, 3]


async def test_what_was_begun_is_answered_when_committed_or_told_that_leadership_is_lost() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    first, second = runner.begin(("add", "a")), runner.begin(("add", "a"))
    assert not first.done()
    log.high_watermark.advance(1)
    assert await first == 1
    runner.end(ConnectionError("no longer leader"))
    with pytest.raises(ConnectionError):
        await second


async def test_one_outcome_answers_many() -> None:
    runner, _ = await loaded(MemoryLog())
    waiting = [asyncio.ensure_future(runner.ask(("wait", "a"))) for _ in range(3)]
    await asyncio.sleep(0)
    assert await runner.ask(("add", "a")) == 1
    assert await asyncio.gather(*waiting) == [1, 1, 1]


async def test_a_caller_that_went_away_does_not_disturb_the_others() -> None:
    runner, _ = await loaded(MemoryLog())
    gone = asyncio.ensure_future(runner.ask(("wait", "a")))
    waiting = asyncio.ensure_future(runner.ask(("wait", "a")))
    await asyncio.sleep(0)
    gone.cancel()
    runner.tell(("add", "a"))
    assert await waiting == 1


async def test_a_failed_append_ends_the_runner_and_tells_everyone() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(("wait", "a")))
    await asyncio.sleep(0)
    log.is_leader = False
    with pytest.raises(ConnectionError):
        await runner.ask(("add", "a"))
    with pytest.raises(ConnectionError):
        await waiting
    with pytest.raises(ConnectionError):
        await runner.ask(("read", "a"))
    assert machine.counts == {}


async def test_lost_leadership_fails_what_waits_for_the_commit() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(("add", "a")))
    await asyncio.sleep(0)
    log.high_watermark.fail(ConnectionError("no longer leader"))
    with pytest.raises(ConnectionError):
        await waiting


async def test_a_deadline_reaches_the_machine_and_an_ended_runner_has_none() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    await runner.ask(("alarm", "x"))
    await log.high_watermark.reached(1)
    assert machine.expired == ["x"]
    await runner.ask(("alarm", "y"))
    runner.end(ConnectionError("stopped"))
    assert not runner._timers


async def test_nobody_is_served_before_the_log_is_replayed() -> None:
    runner: Runner[tuple[str, str], tuple[str, Caller]] = Runner(
        Counter(), MemoryLog(), SystemClock()
    )
    with pytest.raises(RunnerEnded):
        await runner.ask(("read", "a"))


async def test_a_deadline_that_passes_when_leadership_is_gone_ends_the_runner_quietly() -> None:
    log = MemoryLog()
    runner, _ = await loaded(log)
    waiting = asyncio.ensure_future(runner.ask(("wait", "a")))
    await runner.ask(("alarm", "x"))
    log.is_leader = False
    with pytest.raises(ConnectionError):
        await waiting


async def test_what_a_marker_changed_is_told_when_the_marker_is_committed() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), commits_at_once=False)
    runner, _ = await loaded(log)
    log.records.append(LogRecord(b"marker", b"0"))
    runner.note(Marker(ProducerIdentity(7, 0), committed=True), 2)
    reader = asyncio.ensure_future(runner.ask(("read", "a")))
    await asyncio.sleep(0)
    assert not reader.done()
    log.high_watermark.advance(2)
    assert await reader == 1


async def test_nobody_is_served_before_the_end_of_the_log_is_committed() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), LogRecord(b"a", b"2"), commits_at_once=False)
    log.high_watermark = Watermark(1)
    machine = Counter()
    runner: Runner[tuple[str, str], tuple[str, Caller]] = Runner(machine, log, SystemClock())
    loading = asyncio.ensure_future(runner.load())
    await asyncio.sleep(0)
    assert machine.counts == {"a": 2}
    assert not runner.is_loaded
    with pytest.raises(RunnerEnded):
        await runner.ask(("read", "a"))
    log.high_watermark.advance(2)
    await loading
    assert await runner.ask(("read", "a")) == 2


async def test_a_runner_that_ended_while_it_loaded_never_serves() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), commits_at_once=False)
    log.high_watermark = Watermark(0)
    runner: Runner[tuple[str, str], tuple[str, Caller]] = Runner(Counter(), log, SystemClock())
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
    parked = asyncio.ensure_future(runner.ask(("wait", "a")))
    await asyncio.sleep(0)
    log.has_room = False
    with pytest.raises(BlockingIOError):
        await runner.ask(("add", "a"))
    runner.tell(("add", "a"))
    assert machine.counts == {"a": 1}
    assert await runner.ask(("read", "a")) == 1
    log.has_room = True
    assert await runner.ask(("add", "a")) == 2
    assert await parked == 2


async def test_callers_whose_joint_command_was_not_written_are_forgotten() -> None:
    """They were told at once: whoever is told later is told about a future that nobody has."""
    log = MemoryLog()
    runner, machine = await loaded(log)
    log.has_room = False
    with pytest.raises(BlockingIOError):
        runner.begin_together(["a", "b"], lambda _: ("add", "a"))
    with pytest.raises(ZeroDivisionError):
        runner.begin_together(["a", "b"], lambda pairs: ("add", "a" * (1 // 0)))
    assert not runner._callers
    assert machine.counts == {}
    runner.end(ConnectionError("no longer leader"))


async def test_a_deadline_that_could_not_be_written_comes_again() -> None:
    log = MemoryLog()
    runner, machine = await loaded(log)
    log.has_room = False
    await runner.ask(("alarm", "a"))
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
    begun = [runner.begin(("add only", name)) for name in ("a", "b")]
    assert await runner.ask(("read only", "c")) == 0
    reads = [runner.begin(("read only", name)) for name in ("a", "b")]
    everything = runner.begin(("read", "c"))
    assert not any(future.done() for future in (*begun, *reads, everything))
    log.high_watermark.advance(1)
    assert (await begun[0], await reads[0]) == (1, 1)
    assert not any(future.done() for future in (begun[1], reads[1], everything))
    log.high_watermark.advance(2)
    assert (await begun[1], await reads[1], await everything) == (1, 1, 0)


async def test_a_reply_that_comes_later_may_leave_earlier() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    first = runner.begin(("add only", "a"))
    second = runner.begin(("add only", "b"))
    first.cancel()  # Its client is gone: the runner waits for the second record from now on.
    await asyncio.sleep(0)
    read = runner.begin(("read only", "a"))
    await asyncio.sleep(0)
    log.high_watermark.advance(1)
    assert await read == 1
    assert not second.done()
    log.high_watermark.advance(2)
    assert await second == 1


async def test_records_about_nothing_in_particular_hold_everybody_up() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(("add", "a"))
    read = runner.begin(("read only", "c"))
    await asyncio.sleep(0)
    assert not read.done()
    log.high_watermark.advance(1)
    assert (await write, await read) == (1, 0)


async def test_a_reply_is_given_up_when_its_replicas_are_too_slow() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log, CommitLimit(20, lambda: TimeoutError("too slow")))
    write = runner.begin(("add only", "a"))
    await asyncio.sleep(0)
    read = runner.begin(("read only", "a"))
    for late in (write, read):
        with pytest.raises(TimeoutError):
            await late
    # What was decided stands, and whoever asks after the commit is told of it.
    later = runner.begin(("read only", "a"))
    await asyncio.sleep(0)
    assert not later.done()
    log.high_watermark.advance(1)
    assert await later == 1


def test_a_reply_of_the_same_offset_outlives_one_whose_time_is_up() -> None:
    async def main(_: Simulation) -> None:
        log = MemoryLog(commits_at_once=False)
        runner, _machine = await loaded(log, CommitLimit(20, lambda: TimeoutError("too slow")))
        early = runner.begin(("add only", "a"))
        await asyncio.sleep(0.015)
        late = runner.begin(("read only", "a"))
        with pytest.raises(TimeoutError):
            await early
        assert not late.done()  # Nothing is committed, and its own time is not up.
        log.high_watermark.advance(1)
        assert await late == 1

    run(main, seed=1)


async def test_a_runner_whose_log_has_no_lease_answers_nobody() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(("add", "a"))
    log.is_leased = False
    log.high_watermark.advance(1)
    for refused in (write, runner.begin(("read", "a"))):
        with pytest.raises(InterruptedError):
            await refused
    log.is_leased = True
    assert await runner.ask(("read", "a")) == 1


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
    waiting = [runner.begin(("add", "a")), runner.begin(("wait", "b"))]
    await asyncio.sleep(0)
    runner.send_away()  # Nothing happens as long as there is a lease.
    assert not any(each.done() for each in waiting)
    log.is_leased = False
    runner.send_away()
    for each in waiting:
        assert isinstance(each.exception(), InterruptedError)
    log.is_leased = True
    read = runner.begin(("read", "a"))
    await asyncio.sleep(0)
    assert not read.done()
    log.high_watermark.advance(1)
    assert await read == 1


async def test_a_refusal_that_nobody_awaits_is_not_logged() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    runner, _ = await loaded(MemoryLog(commits_at_once=False))
    replies = [runner.begin(("add", "a"))]
    runner.end(ConnectionError("no longer leader"))
    replies.clear()  # As when the connection ends before its handler comes to this reply.
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
