"""The runner, on a log in memory whose commits the test decides: order, replies, deadlines, end."""

import asyncio
import gc

import pytest

from odradek.invariants import InvariantViolation
from odradek.protocol.api_error import ApiError
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId
from odradek.statemachine.log_lines import LogLines
from odradek.statemachine.machine import (
    LogLine,
    LogRecord,
    Marker,
    ProducerIdentity,
)
from odradek.statemachine.runner import RunnerEnded
from odradek.statemachine.watermark import Watermark
from tests.unit.statemachine.counter import Count, Counter, Forbid, MemoryLog, loaded, runner_of


async def test_a_marker_that_comes_during_a_replay_counts_behind_it() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"))
    machine = Counter()
    runner = runner_of(machine, log)
    marker = Marker(ProducerIdentity(ProducerId(7), ProducerEpoch(0)), committed=True)
    runner.note(marker, Offset(2))
    assert machine.markers == []
    await runner.load()
    runner.note(marker, Offset(3))
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
    log.high_watermark.advance(Offset(1))
    assert await first == 1
    assert not any(task.done() for task in (second, reader))
    log.high_watermark.advance(Offset(2))
    assert (await second, await reader) == (2, 2)


async def test_a_runner_says_of_one_subject_whether_all_about_it_is_committed() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    for name in ("a", "b"):
        runner.begin(Count("add only", name))
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [False, False, True]
    log.high_watermark.advance(Offset(1))
    assert [runner.is_committed(name) for name in ("a", "b", "c")] == [True, False, True]
    log.high_watermark.advance(Offset(2))
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
    log.high_watermark.advance(Offset(1))
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
    await log.high_watermark.wait_for(Offset(1))
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
    runner.note(
        Marker(ProducerIdentity(ProducerId(7), ProducerEpoch(0)), committed=True), Offset(2)
    )
    reader = asyncio.ensure_future(runner.ask(Count("read", "a")))
    await asyncio.sleep(0)
    assert not reader.done()
    log.high_watermark.advance(Offset(2))
    assert await reader == 1


async def test_nobody_is_served_before_the_end_of_the_log_is_committed() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), LogRecord(b"a", b"2"), commits_at_once=False)
    log.high_watermark = Watermark(Offset(1))
    machine = Counter()
    runner = runner_of(machine, log)
    loading = asyncio.ensure_future(runner.load())
    await asyncio.wait_for(log.waits_for_commit.wait(), 30)
    assert machine.counts == {"a": 2}
    assert not runner.is_loaded
    with pytest.raises(RunnerEnded):
        await runner.ask(Count("read", "a"))
    log.high_watermark.advance(Offset(2))
    await loading
    assert await runner.ask(Count("read", "a")) == 2


async def test_a_runner_that_ended_while_it_loaded_never_serves() -> None:
    log = MemoryLog(LogRecord(b"a", b"1"), commits_at_once=False)
    log.high_watermark = Watermark(Offset(0))
    runner = runner_of(Counter(), log)
    loading = asyncio.ensure_future(runner.load())
    await asyncio.sleep(0)
    runner.end(ConnectionError("another broker leads"))
    log.high_watermark.advance(Offset(1))
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
    log.high_watermark.advance(Offset(1))
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
    log.append = lambda *_: Offset(7)  # type: ignore[method-assign]
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
