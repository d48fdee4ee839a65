"""The timers of batches: `linger.ms` and `delivery.timeout.ms`.

Both times are the same for every batch of a producer, so batches linger and expire in the order in
which they were opened. Two queues and one timer serve any number of batches.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from odradek.client.producer.accumulator import ProducerBatch


class BatchTimers:
    """Calls `on_due` when the oldest batch has lingered or has expired."""

    def __init__(self, linger_s: float, delivery_s: float, on_due: Callable[[], None]) -> None:
        self._linger_s = linger_s
        self._delivery_s = delivery_s
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._lingering: deque[ProducerBatch] = deque()
        self._expiring: deque[ProducerBatch] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0

    def add(self, batch: ProducerBatch, *, lingers: bool) -> None:
        """Adds a batch that was opened now; `lingers` is False if it can be sent at once."""
        self._expiring.append(batch)
        if lingers:
            self._lingering.append(batch)
        self.set()

    def add_parts(self, parts: list[ProducerBatch]) -> None:
        """Adds the parts of a batch that was split. They have the age of that batch."""
        expiring = self._expiring
        position = 0
        while position < len(expiring) and expiring[position].created_s < parts[0].created_s:
            position += 1
        for part in reversed(parts):
            expiring.insert(position, part)

    def has_lingered(self, batch: ProducerBatch, now_s: float) -> bool:
        """Returns whether `linger.ms` is over for a batch."""
        return batch.created_s + self._linger_s <= now_s

    def take_lingered(self) -> Iterator[ProducerBatch]:
        """Removes and yields the batches that are still open and have lingered."""
        now_s, lingering = self._loop.time(), self._lingering
        while lingering:
            batch = lingering[0]
            is_open = batch.queue.open_batch is batch
            if is_open and not self.has_lingered(batch, now_s):
                return
            lingering.popleft()
            if is_open:
                yield batch

    def take_expired(self) -> Iterator[ProducerBatch]:
        """Removes and yields the batches that are not done within `delivery.timeout.ms`."""
        now_s, expiring = self._loop.time(), self._expiring
        while expiring:
            batch = expiring[0]
            if not batch.done and batch.created_s + self._delivery_s > now_s:
                return
            expiring.popleft()
            if not batch.done:
                yield batch

    def set(self) -> None:
        """Sets the timer for the next time at which a batch has lingered or expires."""
        at_s = float("inf")
        if self._lingering:
            at_s = self._lingering[0].created_s + self._linger_s
        if self._expiring:
            at_s = min(at_s, self._expiring[0].created_s + self._delivery_s)
        if at_s == float("inf"):
            return
        if self._timer is not None:
            if self._timer_at_s <= at_s:
                return
            self._timer.cancel()
        self._timer_at_s = at_s
        self._timer = self._loop.call_at(at_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._on_due()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
