"""Whether a connection is served now, or later because of a quota or a limit.

Two things keep a connection from being served for a while: connections arrive faster than they may
(`connection_rate`), and its client has used up a quota (`broker.limits`). The later of their ends
counts. The connection asks `is_open` before it serves or receives, and is called when that time is
over.
"""

import asyncio
from collections.abc import Callable


class Admission:
    __slots__ = ("_loop", "_opened", "_timer", "is_open")

    def __init__(self, loop: asyncio.AbstractEventLoop, opened: Callable[[], None]) -> None:
        """`opened` is called when the connection may be served again."""
        self.is_open = True
        self._loop = loop
        self._opened = opened
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_delayed(self) -> bool:
        """Whether it is closed now and will be open later."""
        return self._timer is not None

    def close_for(self, duration_s: float) -> None:
        """Closes for so long, or for as long as it is closed already if that is longer. A duration
        without end is for a connection that is closed before it is ever served."""
        self.is_open = False
        if duration_s == float("inf"):
            return
        until_s = self._loop.time() + duration_s
        if self._timer is not None:
            if self._timer.when() >= until_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(until_s, self._open)

    def end(self) -> None:
        """Called when the transport is closed. `opened` is a method of the connection, which owns
        this object: the cycle would keep both in memory."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._opened = _nothing

    def _open(self) -> None:
        self.is_open = True
        self._timer = None
        self._opened()


def _nothing() -> None:
    """In place of `opened` when the transport is closed."""
