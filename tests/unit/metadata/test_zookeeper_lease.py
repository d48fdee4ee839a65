"""What a session of ZooKeeper is worth as a lease, without a ZooKeeper."""

import asyncio
from typing import Any

import pytest

from odradek.metadata import zookeeper
from odradek.metadata.kazoo_client import Troubles
from odradek.metadata.zookeeper import ZookeeperStore
from odradek.world import MemoryDisk, Randomness, World
from tests.unit.storage.storage_world import InlineWorkers, StillClock


class Bridge:
    """Stands in for kazoo; the test calls the store's callbacks itself."""

    agreed_timeout_s = 0.03
    session_key = None

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class AnsweringBridge(Bridge):
    """Answers every request at once, in one session."""

    agreed_timeout_s = 6.0
    session_id = 1

    def __init__(self, *_: Any, **__: Any) -> None:
        self.client = self
        self.troubles = Troubles()

    def watch_tree(self, _: str) -> asyncio.Future[Any]:
        return self.awaited(None)

    def sync_async(self, _: str) -> None:
        pass

    def awaited(self, result: None) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_result(result)
        return answer


async def test_an_answer_of_the_next_session_does_not_prolong_the_one_that_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, may_answer, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def read_nodes(*_: object) -> None:
        asked.set()
        await may_answer.wait()
        answered.set()

    monkeypatch.setattr(zookeeper, "KazooBridge", Bridge)
    monkeypatch.setattr(ZookeeperStore, "_read_nodes", read_nodes)
    world = World(StillClock(), MemoryDisk(), Randomness(1), InlineWorkers())
    store = ZookeeperStore("host:2181", world, 30)
    store._session.begin(1)
    store._is_available = True
    store._note_answer(world.clock.monotonic_s())
    assert not store.may_be_outdated()
    async with asyncio.timeout(5):
        await asked.wait()
        store._note_state("LOST")
        assert store.may_be_outdated()
        may_answer.set()
        await answered.wait()
        await asyncio.sleep(0)
    assert store.session_id == 1
    assert store.may_be_outdated()
    await store.close()


async def test_a_resumed_session_counts_once_the_broker_has_read_what_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bridge answers at once, and the connection is lost and opened again in one session."""
    monkeypatch.setattr(zookeeper, "KazooBridge", AnsweringBridge)
    clock = StillClock()
    world = World(clock, MemoryDisk(), Randomness(1), InlineWorkers())
    store = ZookeeperStore("host:2181", world, 6_000)

    async def connect() -> None:
        store._note_state("CONNECTED")
        assert store._preparing is not None
        await store._preparing

    await connect()
    assert not store.may_be_outdated()
    clock.advance(3_000)
    store._note_state("SUSPENDED")
    await connect()
    clock.advance(1_000)
    assert store.may_be_outdated()
    store.note_all_read(store.resumptions)
    assert not store.may_be_outdated()
    await store.close()
