"""Small replies to several connections are written together, at the end of a loop iteration.

The first byte that is sent wakes the client, which costs the sender more than sending. A client
with several connections that gets its replies one after the other is woken for each of them; if
they are written together it is woken once. Where an iteration serves one connection alone there is
nothing to batch, and waiting for the end of the iteration would only cost time. So it is tried now
and then whether batching is of use.
"""

from collections.abc import Callable
from typing import Final

from odradek.broker.network.busy_poll import CallSoon

# Batching is tried with every so-many-th reply. A prime: otherwise the reply that is tried might
# always be that of the connection which is served last.
_TRY_INTERVAL: Final = 61
# After so many iterations with a single reply batching is given up.
_MAX_SINGLE: Final = 8


class ReplyBatching:
    """One for all connections of an event loop."""

    __slots__ = ("_call_soon", "_is_useful", "_replies_since_try", "_single", "_writes")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._writes: list[Callable[[], None]] = []
        self._is_useful = False
        self._replies_since_try = 0
        # How many iterations in a row had a single reply.
        self._single = 0

    def defer(self, write: Callable[[], None]) -> bool:
        """Returns whether `write` will be called at the end of this iteration of the loop. If not,
        the caller has to write now."""
        if not self._is_useful and not self._writes:
            self._replies_since_try += 1
            if self._replies_since_try < _TRY_INTERVAL:
                return False
            self._replies_since_try = 0
        if not self._writes:
            self._call_soon(self._write_all)
        self._writes.append(write)
        return True

    def _write_all(self) -> None:
        writes, self._writes = self._writes, []
        if len(writes) > 1:
            self._is_useful = True
            self._single = 0
        else:
            self._single += 1
            if self._single >= _MAX_SINGLE:
                self._is_useful = False
        for write in writes:
            write()
