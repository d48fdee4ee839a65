"""The store in memory made as weak as ZooKeeper may be."""

import asyncio
from collections.abc import Coroutine

import pytest

from odradek.metadata import (
    BadVersion,
    Create,
    OutcomeUnknown,
    SessionExpired,
    Set,
    StoreUnavailable,
)
from odradek.metadata.memory import LostReply, MemoryMetadata, StoreFaults
from odradek.metadata.store import EVERYTHING
from odradek.world import Randomness
from simulation import Simulation
from simulation import run as run_simulation


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.parametrize(
    ("outcome", "happened"), [(LostReply.HAPPENED, True), (LostReply.DID_NOT_HAPPEN, False)]
)
def test_after_a_lost_reply_only_reading_back_tells(outcome: LostReply, happened: bool) -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store = metadata.connect()
        watch = store.watch()
        metadata.faults.lose_next_reply(outcome)
        with pytest.raises(OutcomeUnknown):
            await store.multi(Create("/a"))
        assert (await store.read("/a") is not None) is happened
        assert EVERYTHING in watch.pending()
        await store.multi(Create("/b"))

    run(scenario())


def test_late_notifications_arrive_together() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(StoreFaults(max_notification_delay_s=0.01))
        store = metadata.connect()
        watch = store.watch()
        await store.multi(Create("/a"))
        await store.multi(Create("/b"))
        await store.multi(Set("/a", b"1"))
        assert watch.pending() == []
        assert await watch.next() == ["/a", "/b"]
        await store.multi(Set("/a", b"2"))
        watch.close()

    run(scenario())


def test_an_expired_session_is_followed_by_another() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store, witness = metadata.connect(), metadata.connect()
        former = store.session_id
        watch = store.watch()
        await store.multi(Create("/a", b"", True))
        watch.pending()
        waiting = asyncio.ensure_future(store.next_session(former))
        await asyncio.sleep(0)
        store.expire()
        assert await witness.read("/a") is None
        assert await waiting == store.session_id != former
        assert EVERYTHING in watch.pending()
        await store.multi(Create("/a", b"", True))

    run(scenario())


def test_a_short_cut_leaves_the_session_as_it_was() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store, witness = metadata.connect(), metadata.connect()
        former = store.session_id
        await store.multi(Create("/a", b"", True))
        watch = store.watch()
        store.cut()
        with pytest.raises(StoreUnavailable):
            await store.read("/a")
        with pytest.raises(StoreUnavailable):
            await store.multi(Create("/b"))
        await witness.multi(Create("/c"))
        assert watch.pending() == []
        store.reconnect()
        assert watch.pending() == [EVERYTHING]
        assert store.session_id == former
        assert await store.read("/a") is not None
        assert not store.may_be_outdated()

    run(scenario())


def test_a_long_cut_ends_the_session_and_the_broker_learns_it_afterwards() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(session_timeout_ms=30)
        store, witness = metadata.connect(), metadata.connect()
        former = store.session_id
        await store.multi(Create("/a", b"", True))
        watch = witness.watch()
        store.cut()
        assert not store.may_be_outdated()
        assert await watch.next() == ["/a"]
        # It was in doubt before anybody else could know.
        assert store.may_be_outdated()
        assert store.session_id == former
        store.reconnect()
        assert store.session_id != former
        assert not store.may_be_outdated()

    run(scenario())


def test_a_connection_that_ends_before_anything_was_read_does_not_bring_it_up_to_date() -> None:
    async def main(simulation: Simulation) -> None:
        store = MemoryMetadata(session_timeout_ms=6_000).connect()
        store.cut()
        await asyncio.sleep(3)
        store.reconnect()
        resumption = store.resumptions
        store.cut()
        assert not store.may_be_outdated()
        await asyncio.sleep(1)
        assert store.may_be_outdated()
        store.reconnect()
        # What was read before the second cut is no longer enough.
        store.note_all_read(resumption)
        assert store.may_be_outdated()
        store.note_all_read(store.resumptions)
        assert not store.may_be_outdated()

    run_simulation(main, seed=1)


@pytest.mark.parametrize("seed", range(6))
def test_a_change_cut_off_has_an_unknown_outcome(seed: int) -> None:
    async def scenario() -> None:
        faults = StoreFaults(Randomness(seed), max_operation_delay_s=0.001)
        metadata = MemoryMetadata(faults)
        store, witness = metadata.connect(), metadata.connect()
        change = asyncio.ensure_future(store.multi(Create("/a")))
        await asyncio.sleep(0)
        store.cut()
        with pytest.raises(OutcomeUnknown):
            await change
        seen = await witness.read("/a")
        store.reconnect()
        assert await store.read("/a") == seen

    run(scenario())


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_crash_is_noticed_at_once_or_after_the_timeout(is_noticed: bool) -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(session_timeout_ms=10)
        store, witness = metadata.connect(), metadata.connect()
        await store.multi(Create("/a", b"", True))
        watch = witness.watch()
        store.crash(is_noticed=is_noticed)
        assert (await witness.read("/a") is None) is is_noticed
        assert await watch.next() == ["/a"]
        assert await witness.read("/a") is None
        with pytest.raises(SessionExpired):
            await store.read("/a")

    run(scenario())


def test_with_a_lag_others_are_seen_late_and_in_order_and_oneself_at_once() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(StoreFaults(max_read_lag_s=0.01))
        store, other = metadata.connect(), metadata.connect()
        watch = store.watch()
        await other.multi(Create("/a", b"1"), Create("/gone", b"", True))
        assert await other.children("/") == ["a", "gone"]
        assert await store.children("/") == []
        assert watch.pending() == []
        assert await watch.next() == ["/a", "/gone"]
        assert await store.children("/") == ["a", "gone"]
        await other.multi(Set("/a", b"2"))
        await other.close()
        node = await store.read("/a")
        assert node is not None
        assert node.value == b"1"
        # A write checks versions where the truth is, and brings all that came before it.
        with pytest.raises(BadVersion):
            await store.multi(Set("/a", b"3", 0))
        await store.multi(Create("/b"))
        assert await store.children("/") == ["a", "b"]
        assert watch.pending() == ["/a", "/gone", "/b"]

    run(scenario())


def test_with_a_lag_what_is_read_after_an_unknown_outcome_is_final() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(StoreFaults(max_read_lag_s=0.01))
        store, other = metadata.connect(), metadata.connect()
        metadata.faults.lose_next_reply(LostReply.HAPPENED)
        with pytest.raises(OutcomeUnknown):
            await store.multi(Create("/a"))
        assert await store.read("/a") is not None
        store.cut()
        await other.multi(Create("/b"))
        store.reconnect()
        assert await store.children("/") == ["a", "b"]

    run(scenario())


def test_the_same_seed_loses_the_same_replies() -> None:
    async def outcomes(seed: int) -> list[bool]:
        faults = StoreFaults(Randomness(seed), lost_replies=0.5, max_operation_delay_s=0.0001)
        store = MemoryMetadata(faults).connect()
        seen = []
        for number in range(20):
            try:
                await store.multi(Create(f"/{number}"))
                seen.append(True)
            except OutcomeUnknown:
                seen.append(await store.read(f"/{number}") is not None)
        return seen

    first = asyncio.run(outcomes(1))
    assert first == asyncio.run(outcomes(1))
    assert {True, False} == set(first)
