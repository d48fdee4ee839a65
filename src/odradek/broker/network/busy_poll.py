"""Stays awake for a moment after a request, where the next one follows at once.

To fall asleep and to be woken takes a process on a virtual machine longer than to serve a small
request (40 against 25 microseconds, see decision 7). So after a request the loop looks at its
sockets a few times more before it waits for them. Where that finds nothing it is tried less and
less often: a client that asks every millisecond costs nothing, one core is not taken from others.

Invariant: it counts turns of the loop, not time; a virtual clock would stand still meanwhile.
"""

from collections.abc import Callable
from typing import Final

# Turns of the loop that find nothing, two microseconds each, before it may sleep.
_MAX_TURNS: Final = 32
# After how many requests it is tried again at most: 2 ** 6.
_MAX_MISSES: Final = 6

CallSoon = Callable[[Callable[[], None]], object]
"""A loop's own: calls a function in the next turn."""


class BusyPoll:
    __slots__ = ("_call_soon", "_is_awake", "_misses", "_rest", "_turns", "_was_served")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._is_awake = False
        self._was_served = False
        self._turns = 0
        self._rest = 0
        self._misses = 0

    def served(self) -> None:
        """A connection has served what it had."""
        if self._is_awake:
            self._was_served = True
        elif self._rest:
            self._rest -= 1
        else:
            self._is_awake = True
            self._turns = -1  # This turn of the loop is not over yet.
            self._was_served = False
            self._call_soon(self._look)

    def _look(self) -> None:
        """Once a turn. While this is scheduled, the loop polls its sockets without waiting."""
        was_served, self._was_served = self._was_served, False
        turns = self._turns
        if was_served:
            if turns >= 0:  # Else it came with the first one, which says nothing.
                self._misses = 0
            self._turns = 0
        elif turns < _MAX_TURNS:
            self._turns = turns + 1
        else:
            self._misses = min(self._misses + 1, _MAX_MISSES)
            self._rest = (1 << self._misses) - 1
            self._is_awake = False
            return
        self._call_soon(self._look)
