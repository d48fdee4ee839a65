"""When a task may work.

An engine may let its tasks work by turns. A runner asks before each range that it reads, and before
each poll. Between turns a task keeps its connections, and its place in its group.
"""

import asyncio

_LONGEST_PAUSE_S = 1.0


class Turns:
    """The turns of an engine whose tasks may always work."""

    longest_pause_s = _LONGEST_PAUSE_S
    """How long a source that has nothing new waits at most before it is asked again."""

    async def begin(self) -> None:
        """Returns when the task may work."""


class GivenTurns(Turns):
    """Turns that somebody gives, for a time each. A piece of work that has begun is finished."""

    # Sources are looked at often: what came between two turns has waited already.
    longest_pause_s = 0.1

    def __init__(self) -> None:
        self._may_work = asyncio.Event()
        self.given = 0
        self._end: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        await self._may_work.wait()

    async def give(self, duration_s: float) -> None:
        """Lets the task work, and returns when the turn is over. A longer turn wins over a shorter
        one that is under way."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + duration_s
        self.given += 1
        if self._end is None or self._end.when() < ends_s:
            if self._end is not None:
                self._end.cancel()
            self._end = loop.call_at(ends_s, self._close)
        self._may_work.set()
        await asyncio.sleep(duration_s)

    def _close(self) -> None:
        self._end = None
        self._may_work.clear()
