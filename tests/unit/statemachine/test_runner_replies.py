"""When replies of a runner leave: what they rest on, and the lease of the log."""

import asyncio

import pytest

from odradek.protocol.types import Offset
from odradek.statemachine.pending_replies import CommitTimeout
from simulation.run import run
from simulation.world import Simulation
from tests.unit.statemachine.counter import Count, MemoryLog, loaded


async def test_a_reply_waits_only_for_what_it_rests_on() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    begun = [runner.begin(Count("add only", name)) for name in ("a", "b")]
    assert await runner.ask(Count("read only", "c")) == 0
    reads = [runner.begin(Count("read only", name)) for name in ("a", "b")]
    everything = runner.begin(Count("read", "c"))
    assert not any(future.done() for future in (*begun, *reads, everything))
    log.high_watermark.advance(Offset(1))
    assert (await begun[0], await reads[0]) == (1, 1)
    assert not any(future.done() for future in (begun[1], reads[1], everything))
    log.high_watermark.advance(Offset(2))
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
    log.high_watermark.advance(Offset(1))
    assert await read == 1
    assert not second.done()
    log.high_watermark.advance(Offset(2))
    assert await second == 1


async def test_records_about_nothing_in_particular_hold_everybody_up() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(Count("add", "a"))
    read = runner.begin(Count("read only", "c"))
    await asyncio.sleep(0)
    assert not read.done()
    log.high_watermark.advance(Offset(1))
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
    log.high_watermark.advance(Offset(1))
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
        log.high_watermark.advance(Offset(1))
        assert await late == 1

    run(main, seed=1)


async def test_a_runner_whose_log_has_no_lease_answers_nobody() -> None:
    log = MemoryLog(commits_at_once=False)
    runner, _ = await loaded(log)
    write = runner.begin(Count("add", "a"))
    log.is_leased = False
    log.high_watermark.advance(Offset(1))
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
    log.high_watermark.advance(Offset(1))
    assert await read == 1
