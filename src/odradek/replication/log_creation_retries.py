"""Tries again to create logs that could not be created.

A partition may be assigned to this broker while it is short of file descriptors or its disk fails.
Until its log exists, clients get KAFKA_STORAGE_ERROR. `Replicas` adds the topic here. The broker
runs `run`, which takes up the image's roles again for these topics, after 0.5 s and then with a
back-off. A directory that failed meanwhile is not chosen again, another one may be.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

_FIRST_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0


class LogCreationRetries:
    """Invariant: `_topics` holds every topic of which a log could not be created at the last
    try."""

    def __init__(self) -> None:
        self._topics: dict[str, None] = {}
        self._noted = asyncio.Event()
        self._hurried = asyncio.Event()

    def add(self, topic: str) -> None:
        """Adds a topic of which a log could not be created."""
        self._topics[topic] = None
        self._noted.set()

    def hurry(self, topic: str) -> None:
        """What kept the logs of a topic from being created has changed: it is tried at once."""
        if topic in self._topics:
            self._hurried.set()

    async def run(self, follow_again: Callable[[Collection[str]], None]) -> None:
        """Calls `follow_again` with the topics, until cancelled. Topics that fail again are added
        by `follow_again`."""
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._noted.wait()
            self._hurried.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurried.wait()
            topics = list(self._topics)
            self._topics.clear()
            self._noted.clear()
            follow_again(topics)
            is_done = not self._topics
            pause_s = _FIRST_PAUSE_S if is_done else min(2 * pause_s, _MAX_PAUSE_S)
