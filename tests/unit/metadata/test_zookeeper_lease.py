"""What a session of ZooKeeper is worth as a lease, without a ZooKeeper."""

import asyncio
from typing import Any

import pytest

from odradek.metadata import zookeeper
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
    assert not store.may_have_expired()
    async with asyncio.timeout(5):
        await asked.wait()
        store._note_state("LOST")
        assert store.may_have_expired()
        may_answer.set()
        await answered.wait()
        await asyncio.sleep(0)
    assert store.session_id == 1
    assert store.may_have_expired()
    await store.close()
