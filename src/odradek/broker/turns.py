"""Connections that have more to serve take turns, for five milliseconds in each turn of the loop.

A connection serves a few requests as they come; if there are more, or a large one, it queues up
here. All that wait share one piece of each turn of the event loop, in order: so a client that
sends one small request at a time is answered within some milliseconds, whatever a hundred others
have sent ahead.
"""

from collections import deque
from collections.abc import Callable

from odradek.broker.attention import CallSoon
from odradek.world.timeslice import SLICE_S, read_stopwatch


class Turns:
    """Invariant: `_run` is scheduled exactly while somebody waits."""

    __slots__ = ("_call_soon", "_waiting")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, take_turn: Callable[[], None]) -> None:
        """Calls `take_turn` in one of the next turns of the loop, once."""
        if not self._waiting:
            self._call_soon(self._run)
        self._waiting.append(take_turn)

    def _run(self) -> None:
        waiting = self._waiting
        began_s = read_stopwatch()
        try:
            while waiting:
                # It stays in the queue meanwhile, so that whoever it adds schedules nothing.
                waiting[0]()
                waiting.popleft()
                if read_stopwatch() - began_s >= SLICE_S:
                    break
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                self._call_soon(self._run)
