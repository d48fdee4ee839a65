"""Polls the sockets for a moment after a request, where the next request follows at once.

On a virtual machine it takes a process longer to fall asleep and to be woken than to serve a small
request (40 against 25 microseconds, decision 7). So after a request the event loop looks at its
sockets a few times more before it waits for them. Where that finds nothing it is tried less and
less often: a client that sends a request every millisecond costs no extra CPU.

Invariant: iterations of the event loop are counted, and time is not measured: a virtual clock would
stand still meanwhile.
"""

from collections.abc import Callable
from typing import Final

# How many iterations of the loop, two microseconds each, may find nothing before the loop sleeps.
_MAX_IDLE_TURNS: Final = 32
# Polling is tried again after at most 2 ** 6 requests.
_MAX_MISSES: Final = 6

CallSoon = Callable[[Callable[[], None]], object]
"""`call_soon` of an event loop: calls a function in the next iteration."""


class BusyPoll:
    """One for all connections of an event loop.

    Invariant: while `_is_polling`, `_poll` is scheduled for the next iteration of the loop.
    """

    __slots__ = (
        "_call_soon",
        "_idle_turns",
        "_is_polling",
        "_misses",
        "_requests_to_skip",
        "_was_served",
    )

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._is_polling = False
        self._was_served = False
        self._idle_turns = 0
        # How many requests are served before polling is tried again.
        self._requests_to_skip = 0
        # How often in a row polling has found nothing.
        self._misses = 0

    def served(self) -> None:
        """Called by a connection when it has answered all requests it had read."""
        if self._is_polling:
            self._was_served = True
        elif self._requests_to_skip:
            self._requests_to_skip -= 1
        else:
            self._is_polling = True
            self._idle_turns = -1  # The current iteration of the loop is not over yet.
            self._was_served = False
            self._call_soon(self._poll)

    def _poll(self) -> None:
        """Runs once in an iteration. While it is scheduled, the loop polls without waiting."""
        was_served, self._was_served = self._was_served, False
        idle_turns = self._idle_turns
        if was_served:
            # In the first iteration the request may have arrived together with the one before.
            if idle_turns >= 0:
                self._misses = 0
            self._idle_turns = 0
        elif idle_turns < _MAX_IDLE_TURNS:
            self._idle_turns = idle_turns + 1
        else:
            self._misses = min(self._misses + 1, _MAX_MISSES)
            self._requests_to_skip = (1 << self._misses) - 1
            self._is_polling = False
            return
        self._call_soon(self._poll)
