"""Decides when `send` pauses, so that the sender runs and the brokers catch up.

A loop of sends that never waits would keep the sender from running, so a pause is due whenever a
few batches were opened. Usually it is over at once.

A loop that sends faster than the brokers answer would fill `buffer.memory` with batches. They are
not sent any faster for it: a few batches are enough to keep all requests under way. But a hundred
thousand records that wait cost memory, and Python's garbage collector looks at all of them again
and again: a third of the producer's time (decision 25). So a pause lasts while the partition that
last got a batch has a deep queue and a response for it is under way.

A broker that does not answer must not stop the program before `buffer.memory` is full: a pause is
short, and a queue of which nothing was taken meanwhile is not waited for again until something is.

`Accumulator.room` makes callers wait for the end of a pause, in the order of their calls.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.client.producer.accumulator import PartitionQueue

_BATCHES_BETWEEN_PAUSES: Final = 4
_DEEP_BATCHES: Final = 8
_LONGEST_PAUSE_S: Final = 0.02


class Backlog:
    """Calls `on_pause_ended` at the end of each pause."""

    def __init__(self, on_pause_ended: Callable[[], None]) -> None:
        self.is_pause_due = False
        self._on_pause_ended = on_pause_ended
        self._loop = asyncio.get_running_loop()
        self._opened = 0
        self._deep: PartitionQueue | None = None
        # Queues for which a pause was in vain: nothing has been taken since.
        self._stuck: set[PartitionQueue] = set()
        self._awaited: PartitionQueue | None = None
        self._pause_end: asyncio.Handle | None = None

    @property
    def is_pausing(self) -> bool:
        return self._pause_end is not None

    def note_queued(self, queue: "PartitionQueue") -> None:
        """Notes that a queue got one more batch."""
        self._opened += 1
        if self._opened >= _BATCHES_BETWEEN_PAUSES:
            self.is_pause_due = True
        if len(queue.batches) > _DEEP_BATCHES:
            self._deep = queue

    def note_taken(self, queue: "PartitionQueue") -> None:
        """Ends a pause for a queue that is no longer deep; half of it is left to send."""
        if self._stuck:
            self._stuck.discard(queue)
        if queue is self._awaited and len(queue.batches) <= _DEEP_BATCHES // 2:
            self._end_pause()

    def begin_pause(self) -> None:
        """Begins the pause that is due, unless it has begun."""
        if self._pause_end is not None:
            return
        queue, self._deep = self._deep, None
        if (
            queue is None
            or not queue.sending
            or len(queue.batches) <= _DEEP_BATCHES
            or queue in self._stuck
        ):
            self._pause_end = self._loop.call_soon(self._end_pause)
        else:
            self._awaited = queue
            self._pause_end = self._loop.call_later(_LONGEST_PAUSE_S, self._give_up, queue)

    def _give_up(self, queue: "PartitionQueue") -> None:
        self._stuck.add(queue)
        self._end_pause()

    def _end_pause(self) -> None:
        if self._pause_end is not None:
            self._pause_end.cancel()
        self._pause_end = self._awaited = None
        self._opened, self.is_pause_due = 0, False
        self._on_pause_ended()
