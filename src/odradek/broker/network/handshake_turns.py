"""The order in which TLS handshakes begin: one in each turn of the event loop.

Answering a ClientHello is the work of a handshake: a tenth of a millisecond with an elliptic curve,
a whole one with RSA. Hundreds that arrive together, from clients that nobody knows yet, would hold
up the requests of all others for as long as all of them take. So they wait for each other, and
between two of them the event loop serves what else has arrived.
"""

import asyncio
from collections import deque
from collections.abc import Callable

Begin = Callable[[], bool]
"""Begins a handshake; returns False if its connection is gone, so that nothing was computed."""


class HandshakeTurns:
    """The handshakes of a listener that wait for their turn. How many there can be is bounded by
    the limit of connections that have not logged in."""

    def __init__(self) -> None:
        self._waiting: deque[Begin] = deque()
        self._is_scheduled = False

    def wait(self, begin: Begin) -> None:
        """Calls `begin` in a later turn of the event loop."""
        self._waiting.append(begin)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            while self._waiting and not self._waiting.popleft()():
                pass
        finally:
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                asyncio.get_running_loop().call_soon(self._next)
