"""Small replies of several connections leave together, when the turn of the loop is over.

The first byte that is sent wakes a client that sleeps, which costs the sender more than sending.
A client with several connections that is sent one reply after the other sleeps and is woken for
each of them; sent together, they wake it once. Where a turn serves one connection alone there is
nothing to gather, and waiting for the end of the turn would only cost time.
"""

from collections.abc import Callable
from typing import Final

from odradek.broker.network.busy_poll import CallSoon

# After how many replies it is tried whether there is anything to gather. A prime: among a
# number of connections it should not be the last one's turn each time.
_TRIED_EVERY: Final = 61
# After how many turns with one reply it is given up.
_MAX_ALONE: Final = 8


class ReplyBatching:
    __slots__ = ("_alone", "_call_soon", "_is_worth_it", "_untried", "_writes")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._writes: list[Callable[[], None]] = []
        self._is_worth_it = False
        self._untried = 0
        self._alone = 0

    def put_off(self, write: Callable[[], None]) -> bool:
        """Whether `write` is called at the end of this turn; else it is the caller's to do now."""
        if not self._is_worth_it and not self._writes:
            self._untried += 1
            if self._untried < _TRIED_EVERY:
                return False
            self._untried = 0
        if not self._writes:
            self._call_soon(self._depart)
        self._writes.append(write)
        return True

    def _depart(self) -> None:
        writes, self._writes = self._writes, []
        if len(writes) > 1:
            self._is_worth_it = True
            self._alone = 0
        else:
            self._alone += 1
            if self._alone >= _MAX_ALONE:
                self._is_worth_it = False
        for write in writes:
            write()
