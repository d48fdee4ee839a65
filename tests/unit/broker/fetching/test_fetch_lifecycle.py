"""The states of a fetch: the table, the wait, and what must hold between two fetches."""

import asyncio

import pytest

from odradek.broker.fetching.due_partitions import DuePartitions, FetchEntry
from odradek.broker.fetching.fetch_lifecycle import TRANSITIONS, Fetch, FetchEvent, FetchState
from odradek.broker.fetching.fetch_sessions import FetchSession
from odradek.invariants import InvariantViolation
from odradek.protocol.types import NO_TOPIC_ID, Offset
from odradek.statemachine.watermark import Watermark

FINAL = (FetchState.ANSWERED, FetchState.ABANDONED)


def entries(count: int = 1) -> list[FetchEntry]:
    return [FetchEntry("t", NO_TOPIC_ID, partition) for partition in range(count)]


def waiting_fetch(deadline_s: float = 1e9, *, ends_for_next_request: bool = False) -> Fetch:
    due = DuePartitions(entries(), 0.0)
    fetch = Fetch(due)
    due.take_all()
    fetch.start_waiting(deadline_s, ends_for_next_request=ends_for_next_request)
    fetch.pass_ended(is_enough=False)
    assert fetch.state is FetchState.WAITING
    return fetch


def test_the_table_has_an_answer_for_every_state_and_event() -> None:
    assert len(TRANSITIONS) == len(FetchState)
    assert all(len(row) == len(FetchEvent) for row in TRANSITIONS)


def test_every_state_leads_to_an_end_and_no_end_is_left() -> None:
    for state in FetchState:
        reached = {state}
        while True:
            more = {after for at in reached for after in TRANSITIONS[at] if after is not None}
            if more <= reached:
                break
            reached |= more
        assert reached & set(FINAL)
        if state in FINAL:
            assert reached == {state}


def test_the_deadline_and_an_interruption_end_every_wait() -> None:
    for state in (FetchState.READING, FetchState.READING_STALE, FetchState.WAITING):
        for event in (FetchEvent.DEADLINE, FetchEvent.INTERRUPTED):
            assert TRANSITIONS[state][event] is FetchState.READING_LAST
    last = TRANSITIONS[FetchState.READING_LAST]
    assert last[FetchEvent.FOUND_TOO_LITTLE] is FetchState.ANSWERING


def test_an_event_that_cannot_happen_is_an_invariant_violation() -> None:
    fetch = Fetch(DuePartitions(entries(), 0.0))
    with pytest.raises(InvariantViolation, match="RESPONDED does not happen in the state READING"):
        fetch.responded()


async def test_a_change_ends_the_wait_also_if_it_comes_before_the_wait_begins() -> None:
    for comes_first in (False, True):
        fetch = waiting_fetch()
        watermark, [entry] = Watermark(), entries()
        fetch.due.add(entry)
        fetch.due.take_all()
        entry.register(watermark)
        wait = asyncio.ensure_future(fetch.wait(None))
        if not comes_first:
            await asyncio.sleep(0)
        watermark.advance(Offset(1))
        await asyncio.wait_for(wait, 10)
        assert fetch.state is FetchState.READING
        assert fetch.due.take_all() == [entry]


async def test_a_change_while_partitions_are_read_makes_another_pass() -> None:
    fetch = Fetch(DuePartitions(entries(2), 0.0))
    fetch.start_waiting(1e9, ends_for_next_request=False)
    first, _ = fetch.due.take_all()
    watermark = Watermark()
    first.register(watermark)
    states = [fetch.state]
    watermark.advance(Offset(1))
    states.append(fetch.state)
    assert not fetch.pass_ended(is_enough=False)
    states.append(fetch.state)
    assert states == [FetchState.READING, FetchState.READING_STALE, FetchState.READING]


async def test_the_deadline_ends_the_wait() -> None:
    fetch = waiting_fetch(asyncio.get_running_loop().time() + 0.01)
    await asyncio.wait_for(fetch.wait(None), 10)
    assert fetch.state is FetchState.READING_LAST


async def test_a_throttle_that_opens_ends_the_wait() -> None:
    fetch = waiting_fetch()
    await asyncio.wait_for(fetch.wait(asyncio.get_running_loop().time() + 0.01), 10)
    assert fetch.state is FetchState.READING


async def test_the_next_request_ends_the_wait_of_followers_only() -> None:
    consumer, follower = waiting_fetch(), waiting_fetch(ends_for_next_request=True)
    consumer.next_request_arrived()
    follower.next_request_arrived()
    assert consumer.state is FetchState.WAITING
    assert follower.state is FetchState.READING_LAST


async def test_a_connection_that_closes_in_the_middle_of_a_pass_makes_all_partitions_due() -> None:
    session = FetchSession(1, False, entries(3), 0.0)
    fetch = Fetch(session.due, session)
    fetch.start_waiting(1e9, ends_for_next_request=False)
    for entry in session.due.take_all():
        entry.last_sent_high_watermark = Offset(5)
    fetch.close()
    assert fetch.state is FetchState.ABANDONED
    assert [entry.partition for entry in session.due.take_all()] == [0, 1, 2]
    assert all(entry.last_sent_high_watermark == -1 for entry in session.entries.values())


async def test_a_partition_that_no_change_would_make_due_is_noticed_with_the_response() -> None:
    session = FetchSession(1, False, entries(2), 0.0)
    fetch = Fetch(session.due, session)
    first, forgotten = session.due.take_all()
    first.register(Watermark())
    fetch.pass_ended(is_enough=True)
    with pytest.raises(InvariantViolation, match=r"'t', 1\) is neither due nor registered"):
        fetch.responded()
    forgotten.register(Watermark())
    session.check()
