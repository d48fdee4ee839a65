"""Tries an operation again while the other side does not answer: `Unavailable`.

`errors.retry.timeout` says for how long, with growing pauses of at most
`errors.retry.delay.max.ms`. Whatever it says, an operation is tried again for some seconds, so that
a short outage passes unnoticed. Then the task fails, so that its status is true, and the worker
starts it again with a pause of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from odradek.connect.connector_settings import ConnectorSettings
from odradek.connect.errors import Unavailable

T = TypeVar("T")

_SHORT_S: Final = 3.0
_FIRST_PAUSE_S: Final = 0.1


class Retries:
    def __init__(self, settings: ConnectorSettings, longest_s: float | None = None) -> None:
        """`longest_s` is a limit over that of the settings."""
        timeout_ms = settings.errors_retry_timeout
        within_s = float("inf") if timeout_ms < 0 else max(timeout_ms / 1000, _SHORT_S)
        self._within_s = within_s if longest_s is None else min(within_s, longest_s)
        self._longest_pause_s = max(settings.errors_retry_delay_max_ms / 1000, _FIRST_PAUSE_S)
        self.count = 0

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Returns what the operation returns. Raises the last `Unavailable` if time is up."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._within_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await operation()
            except Unavailable:
                if loop.time() + pause_s > deadline_s:
                    raise
            self.count += 1
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._longest_pause_s)
