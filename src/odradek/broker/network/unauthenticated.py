"""Connections whose clients have not proved yet who they are: how many there may be, and how long.

Everybody can open such connections, so all of them together must cost little. A client that means
well is through in some milliseconds. So if there are too many, the one that has taken longest is
closed, and not the newest: ten thousand half-open connections do not keep a good client out.
"""

import asyncio
from typing import Protocol


class Pending(Protocol):
    """A connection that can be closed at once."""

    def abort(self) -> None: ...


class Unauthenticated:
    """Invariant: the connections are in the order in which they came, and so of their deadlines; a
    timer runs exactly while there are any."""

    def __init__(self, max_connections: int, timeout_s: float) -> None:
        self.max_connections = max_connections
        self.timeout_s = timeout_s
        # By connection: when its time is over.
        self._deadlines: dict[Pending, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Since the start: those that were closed because they took too long, or were too many.
        self.timed_out = self.crowded_out = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: Pending) -> None:
        loop = asyncio.get_running_loop()
        if len(self._deadlines) >= self.max_connections:
            oldest = next(iter(self._deadlines))
            del self._deadlines[oldest]
            self.crowded_out += 1
            oldest.abort()
        self._deadlines[connection] = loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = loop.call_later(self.timeout_s, self._expire)

    def remove(self, connection: Pending) -> None:
        """Called when a client has proved who it is, or is gone."""
        self._deadlines.pop(connection, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        late = [one for one, deadline_s in self._deadlines.items() if deadline_s <= now_s]
        for connection in late:
            del self._deadlines[connection]
            self.timed_out += 1
            connection.abort()
        self._timer = None
        if self._deadlines:
            first_s = next(iter(self._deadlines.values()))
            self._timer = loop.call_at(first_s, self._expire)
