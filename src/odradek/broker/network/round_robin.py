"""Connections that have more to serve or to receive take turns.

A connection serves a few requests as they come; if there are more, or a large one, it queues up
here. All that wait share one piece of each turn of the event loop, in order: so a client that
sends one small request at a time is answered within some milliseconds, whatever a hundred others
have sent ahead.

Receiving takes turns too. uvloop reads up to 8 MB from each connection in one turn of the loop, so
eight clients that send 100 MB each held it up for 120 ms. A connection in the middle of a large
request therefore takes one chunk (256 KB at most) and queues up again; some go on in each turn.
"""

from collections import deque
from collections.abc import Callable

from odradek.broker.network.busy_poll import CallSoon
from odradek.world.timeslice import SLICE_S, read_stopwatch


class RoundRobin:
    """Lets as many take their turn as five milliseconds allow, and at most `most` of them.

    Invariant: `_run` is scheduled exactly while somebody waits.
    """

    __slots__ = ("_call_soon", "_most", "_waiting")

    def __init__(self, call_soon: CallSoon, most: int = 1 << 30) -> None:
        self._call_soon = call_soon
        self._most = most
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
            for _ in range(self._most):
                # It stays in the queue meanwhile, so that whoever it adds schedules nothing.
                waiting[0]()
                waiting.popleft()
                if not waiting or read_stopwatch() - began_s >= SLICE_S:
                    break
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                self._call_soon(self._run)
