"""Brokers that take longer to start than their session with the metadata store lasts."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.config import TopicSettings
from odradek.storage import LogManager
from tests.unit.cluster.crew import Crew, with_crew


@pytest.mark.parametrize("away_s", [1.0, 6.5])
def test_a_connection_that_is_lost_while_logs_are_loaded_is_made_again(
    monkeypatch: pytest.MonkeyPatch, away_s: float
) -> None:
    """The broker registers when the store is back: in the old session, or in a new one if it was
    away for longer than the session lasts (6 s)."""
    load = LogManager.load

    async def story(crew: Crew) -> None:
        await crew.create()
        broker = crew.brokers[3]
        broker.kill()
        await crew.until(lambda: 3 not in crew.image.brokers)

        async def load_without_a_store(
            logs: LogManager, topic_settings: Callable[[str], TopicSettings] | None = None
        ) -> None:
            await load(logs, topic_settings)
            broker.cut_from_store()
            asyncio.get_running_loop().call_later(away_s, broker.back_at_store)

        monkeypatch.setattr(LogManager, "load", load_without_a_store)
        broker.start()
        await crew.until(lambda: 3 in crew.image.brokers, within_s=away_s + 1)
        await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})

    with_crew(story)
