"""The store in memory made as weak as ZooKeeper may be."""

import asyncio
from collections.abc import Coroutine

import pytest

from odradek.metadata import Create, OutcomeUnknown, SessionExpired, Set
from odradek.metadata.memory import LostReply, MemoryMetadata, Weakness
from odradek.metadata.store import EVERYTHING
from odradek.world import Randomness


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
        metadata.weakness.lose_next_reply(outcome)
        with pytest.raises(OutcomeUnknown):
            await store.multi(Create("/a"))
        assert (await store.read("/a") is not None) is happened
        assert EVERYTHING in watch.pending()
        await store.multi(Create("/b"))

    run(scenario())


def test_late_notifications_arrive_together() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(Weakness(longest_notification_delay_s=0.01))
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


def test_an_expired_session_is_told_so() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store, witness = metadata.connect(), metadata.connect()
        await store.multi(Create("/a", b"", True))
        store.expire()
        assert await witness.read("/a") is None
        with pytest.raises(SessionExpired):
            await store.multi(Create("/b"))
        with pytest.raises(SessionExpired):
            store.watch()

    run(scenario())


def test_the_same_seed_loses_the_same_replies() -> None:
    async def outcomes(seed: int) -> list[bool]:
        weakness = Weakness(Randomness(seed), lost_replies=0.5, longest_operation_delay_s=0.0001)
        store = MemoryMetadata(weakness).connect()
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
