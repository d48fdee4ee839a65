"""The requests of one connection that have begun and are not answered: which may begin beside them?

A request begins when every earlier request of its connection has been answered, as in Kafka, with
two exceptions:

- A Produce request begins when the one before it has appended its records. So appends keep their
  order, while replication is awaited concurrently.
- A LeaveGroup begins while a JoinGroup or SyncGroup waits for the other members. Otherwise the
  group would rebalance once more when the member has left.

`broker.network.connection` serves the requests and sends their replies; it asks `may_begin` first.
"""

import asyncio
from collections import deque
from typing import Final

from odradek.broker.network.request_serving import (
    LEAVE_GROUP,
    NO_WAIT,
    PRODUCE,
    REBALANCING,
    Encode,
    InterruptibleWait,
    Pending,
    encoded_already,
)
from odradek.protocol.types import Buffer

# How many Produce requests may wait for replication.
_MAX_WAITING: Final = 64

Waiting = tuple[asyncio.Future[object], Encode, int]
"""A request: its reply, how that is encoded, and the request's size in bytes."""


class RequestsUnderWay:
    """Invariant: `waiting` has the requests in the order in which they arrived, so that replies are
    sent in that order, whichever is ready first."""

    __slots__ = ("_are_pipelined", "_blocks", "_is_rebalance", "wait", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        # What is interrupted if the connection must answer soon.
        self.wait: InterruptibleWait = NO_WAIT
        # Whether all of them are Produce requests that have appended.
        self._are_pipelined = True
        # Whether a JoinGroup or SyncGroup waits for the other members of its group.
        self._is_rebalance = False
        # Whether the last one waits for as long as the client has chosen.
        self._blocks = False

    @property
    def size_bytes(self) -> int:
        """How many bytes of memory the requests hold."""
        return sum(size for _, _, size in self.waiting)

    @property
    def is_blocking(self) -> bool:
        """Whether a request waits for as long as the client has chosen. A Produce request waits for
        followers, and does not count."""
        return bool(self.waiting and self._blocks)

    @property
    def delayed_operations(self) -> tuple[str, int]:
        """What the requests are, by the names of Kafka's purgatories, and how many."""
        kind = "Produce" if self._are_pipelined else "Fetch"
        return "Rebalance" if self._is_rebalance else kind, len(self.waiting)

    def may_begin(self, frame: Buffer) -> bool:
        """Returns whether the request in `frame` may be served while these wait."""
        if not self.waiting:
            return True
        if self._is_rebalance:
            return frame[:2] == LEAVE_GROUP
        return self._are_pipelined and len(self.waiting) < _MAX_WAITING and frame[:2] == PRODUCE

    def begin(self, frame: Buffer, pending: Pending, size: int) -> asyncio.Future[object]:
        """Adds the request in `frame`, which waits for its reply; returns that reply."""
        is_alone = not self.waiting
        self._is_rebalance = is_alone and frame[:2] in REBALANCING
        self._blocks = not pending.is_pipelined and frame[:2] != PRODUCE
        self._are_pipelined = pending.is_pipelined and (self._are_pipelined or is_alone)
        reply = asyncio.ensure_future(pending.reply)
        self.waiting.append((reply, pending.encode, size))
        return reply

    def add_answered(self, encoded: object) -> None:
        """Adds a request that was answered at once: its reply is sent after those of the others."""
        reply: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        reply.set_result(encoded)
        self.waiting.append((reply, encoded_already, 0))

    def encode_on(self, encoding: asyncio.Future[object], size: int) -> None:
        """Puts the first request back, whose reply is large and is encoded in steps."""
        self.waiting.appendleft((encoding, encoded_already, size))

    def take_answered(self) -> Waiting | None:
        """Removes the first request if it has its reply, and returns it; otherwise None."""
        waiting = self.waiting
        return waiting.popleft() if waiting and waiting[0][0].done() else None

    def cancel(self) -> None:
        """Called when the connection is lost: nobody waits for the replies."""
        for reply, _, _ in self.waiting:
            reply.cancel()
        self.waiting.clear()
