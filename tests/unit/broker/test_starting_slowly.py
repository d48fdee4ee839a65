"""A broker whose logs take longer to load than its session with the metadata store lives."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker import joining_cluster
from odradek.cluster.controller import Controller
from odradek.cluster.membership import Membership
from odradek.config import TopicSettings
from odradek.protocol.types import TopicPartition
from odradek.storage.manager import LogManager
from tests.unit.replication.cluster import Cluster, with_cluster
from tests.unit.storage.storage_world import TOPIC_ID, make_manager, make_world, topic


@pytest.mark.parametrize("away_s", [0.5, 6.5])
def test_it_registers_when_the_store_is_in_reach_again(
    monkeypatch: pytest.MonkeyPatch, away_s: float
) -> None:
    """In its old session, or in a new one after 6 s, the session timeout."""
    loads = LogManager.load

    async def test(cluster: Cluster) -> None:
        broker = cluster.brokers[3]
        broker.kill()
        await asyncio.sleep(1)

        async def slow(
            logs: LogManager, settings_of: Callable[[str], TopicSettings] | None = None
        ) -> None:
            await loads(logs, settings_of)
            broker.cut_store()
            asyncio.get_running_loop().call_later(away_s, broker.reconnect_store)

        monkeypatch.setattr(LogManager, "load", slow)
        broker.start()
        await asyncio.sleep(away_s + 5)
        broker.require_alive()
        assert broker.session_id is not None
        await cluster.create_topic([3, 1])

    with_cluster(test)


@pytest.mark.parametrize("away_s", [0.5, 6.5])
@pytest.mark.parametrize(
    ("place", "step", "comes_first"),
    [
        (Membership, "_give_up_leadership", False),
        (Membership, "_register", True),
        (Membership, "_register", False),
        (Controller, "elect", False),
        (joining_cluster, "adopt_unknown_logs", False),
    ],
)
def test_it_registers_although_the_store_goes_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch, place: Any, step: str, comes_first: bool, away_s: float
) -> None:
    """At any step, in its old session or in a new one: it ended, and needed a supervisor.
    `comes_first` says that the step is taken before the store goes away."""
    step_as_it_is = getattr(place, step)

    async def test(cluster: Cluster) -> None:
        broker = cluster.brokers[3]
        broker.kill()
        await asyncio.sleep(1)
        times = 0

        async def without_store(*arguments: Any, **more: Any) -> Any:
            nonlocal times
            times += 1
            result = await step_as_it_is(*arguments, **more) if comes_first else None
            if times == 1:
                broker.cut_store()
                asyncio.get_running_loop().call_later(away_s, broker.reconnect_store)
            return result if comes_first else await step_as_it_is(*arguments, **more)

        monkeypatch.setattr(place, step, without_store)
        broker.start()
        await asyncio.sleep(away_s + 5)
        broker.require_alive()
        assert times
        await cluster.create_topic([3, 1])
        assert (await cluster.produce(3, b"a")).error_code == 0

    with_cluster(test)


async def test_others_have_their_turn_after_each_log_that_is_recovered() -> None:
    """What keeps the session is one of them."""
    world = make_world()
    killed = make_manager(world)
    await killed.load()
    for number in range(5):
        killed.create(TopicPartition("t", number), TOPIC_ID, topic())
    killed.abandon()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await make_manager(world).load()
    counting.cancel()
    assert turns >= 5
