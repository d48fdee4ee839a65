"""Connections that have more to serve or to receive take turns.

A connection serves a few requests as they arrive. If there are more, or a large one, it queues
here. All that wait share five milliseconds of each iteration of the event loop, in order. So a
client that sends one small request at a time is answered within some milliseconds, whatever a
hundred other clients have sent before.

Receiving takes turns too. uvloop reads up to 8 MB from each connection in one iteration, so eight
clients that sent 100 MB each held the loop for 120 ms. A connection in the middle of a large
request therefore takes one chunk (256 KB at most) and queues again.
"""

from collections import deque
from collections.abc import Callable

from odradek.broker.network.busy_poll import CallSoon
from odradek.world.timeslice import SLICE_S, read_stopwatch


class RoundRobin:
    """In each iteration of the loop it calls as many of the waiting functions as five milliseconds
    allow, and at most `max_per_turn`.

    Invariant: `_run` is scheduled exactly while a function waits.
    """

    __slots__ = ("_call_soon", "_max_per_turn", "_waiting")

    def __init__(self, call_soon: CallSoon, max_per_turn: int = 1 << 30) -> None:
        self._call_soon = call_soon
        self._max_per_turn = max_per_turn
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, take_turn: Callable[[], None]) -> None:
        """Calls `take_turn` once, in one of the next iterations of the loop."""
        if not self._waiting:
            self._call_soon(self._run)
        self._waiting.append(take_turn)

    def _run(self) -> None:
        waiting = self._waiting
        began_s = read_stopwatch()
        try:
            for _ in range(self._max_per_turn):
                # It stays in the queue while it runs, so that `add` schedules nothing.
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
