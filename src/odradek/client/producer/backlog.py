"""Lets `send` wait for a moment while the brokers are behind.

A loop that sends faster than the brokers answer would fill `buffer.memory` with batches. They are
not sent any faster for it: a few batches are enough to keep all requests under way. But a hundred
thousand records that wait cost memory, and Python's garbage collector looks at all of them again
and again: a third of the producer's time (decision 25).

So `send` waits while the partition to which it last gave a batch has a deep queue and a response
for it is under way. A broker that does not answer must not stop the program before
`buffer.memory` is full, so each wait is short.
"""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.client.producer.accumulator import PartitionQueue

_DEEP_BATCHES: Final = 8
_LONGEST_WAIT_S: Final = 0.02


class Backlog:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._deep: PartitionQueue | None = None
        self._waiters: dict[asyncio.Future[None], PartitionQueue] = {}

    def note_queued(self, queue: "PartitionQueue") -> None:
        """Notes that a queue got one more batch."""
        if len(queue.batches) > _DEEP_BATCHES:
            self._deep = queue

    def note_taken(self, queue: "PartitionQueue") -> None:
        """Wakes those who wait for a queue that is no longer deep; half of it is left to send."""
        if self._waiters and len(queue.batches) <= _DEEP_BATCHES // 2:
            for waiter, waited_for in self._waiters.items():
                if waited_for is queue:
                    _finish(waiter)

    async def pause(self) -> None:
        """Lets the sender run, and waits for it if a queue is deep."""
        queue, self._deep = self._deep, None
        if queue is None or not queue.sending or len(queue.batches) <= _DEEP_BATCHES:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = queue
        timer = self._loop.call_later(_LONGEST_WAIT_S, _finish, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            del self._waiters[waiter]


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
