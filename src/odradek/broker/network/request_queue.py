"""Bounds the memory of requests that clients have sent and the broker has not answered.

Every byte of a request is counted from the moment at which it is read from the socket until the
request is answered or its connection is closed: incomplete frames, frames that wait behind earlier
ones, and requests under way. A client need not log in for any of that, so two settings bound it for
all connections together:

- `queued.max.request.bytes`: when so much is held, the broker does not read from connections that
  hold more than a small request, until memory is released.
- `queued.max.requests`: when so many connections have a request that waits for its turn, the broker
  reads from no connection until there are fewer. As in Kafka a connection counts once, because its
  requests are served one after the other.

Bytes are counted as they arrive and not as the size prefix announces them, so a client that
announces a large request and sends nothing keeps no other client out. But several incomplete
requests may use all memory and then wait for each other. Therefore one connection at a time, the
`finisher`, may complete its frame although memory is short: the one that needs the fewest bytes.
The next one is chosen when that request has been answered or dropped, so no more than one request
is beyond the limit. A connection `is_blocked` if the client decides when its next request is served
(it waits behind a Fetch or a JoinGroup, or the client does not read its replies): such a connection
is never the finisher, and reads no more than a small request ahead (`broker.network.connection`).

These rules keep a client from holding memory for good. While memory is short

- a finisher that is slower than 1 MiB/s (and five seconds) is closed;
- a connection is closed that has not sent more of a large incomplete frame for ten seconds,
  although the broker reads from it;
- the wait of a blocked connection that holds more than a small request is interrupted. If the
  connection is still blocked after ten seconds it is closed, unless it holds nothing but the
  request that waits, and that has no more than 1 MiB.

Produce requests that wait for followers are not closed: replication answers them.

So at most these are held at any time: `max_bytes`, one request of `socket.request.max.bytes`, and
for each connection a small request and what one read of its socket brought (256 KiB).
"""

import asyncio
import logging
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, Protocol

from odradek.invariants import InvariantViolation, is_thorough

logger = logging.getLogger("odradek.server")

# The broker always reads from a connection that holds no more than this: heartbeats, fetches and
# metadata requests are served while large requests wait.
SMALL_BYTES: Final = 16 * 1024
# The finisher has this time, and the time for its bytes at this rate.
_FINISHER_S: Final = 5.0
_FINISHER_BYTES_PER_SECOND: Final = 1 << 20
# How long a large incomplete frame may make no progress while memory is short.
_MAX_STALL_S: Final = 10.0
# How long a blocked connection may hold much while memory is short, and how large a request may
# be that only waits, for instance the JoinGroup of a member with many topics.
_MAX_BLOCKED_S: Final = 10.0
_MAX_WAITING_BYTES: Final = 1 << 20
_CHECK_INTERVAL_S: Final = 1.0


class Sender(Protocol):
    """A connection as the queue sees it."""

    address: str
    port: int
    # When bytes of an incomplete frame arrived last.
    received_s: float
    # When a request was served or answered last.
    active_s: float

    @property
    def held_bytes(self) -> int: ...
    @property
    def unfinished_bytes(self) -> int: ...
    @property
    def missing_bytes(self) -> int: ...
    @property
    def unserved_bytes(self) -> int: ...
    @property
    def is_blocked(self) -> bool: ...
    def interrupt_wait(self) -> None: ...
    def read_on(self) -> None: ...
    def abort(self) -> None: ...


class RequestQueue:
    """Counts for all connections of a broker. Connections change `held_bytes` and `queued`
    themselves, because they do so for each request.

    Invariant: `held_bytes` is the sum of what the open connections hold, and never negative. A
    connection that is not read from because memory is short is in `_stopped`, one that is not read
    from because too many wait for their turn is in `_crowded_out`. Both are read from again when
    there is room.
    """

    __slots__ = (
        "_check",
        "_completed",
        "_crowded_out",
        "_finish_by_s",
        "_senders",
        "_stopped",
        "finisher",
        "held_bytes",
        "max_bytes",
        "max_queued",
        "queued",
    )

    def __init__(self, *, max_queued: int, max_bytes: int, senders: Iterable[Sender]) -> None:
        """`senders` is a view of all open connections, read while memory is short."""
        self.max_queued = max_queued
        self.max_bytes = max_bytes
        self.held_bytes = 0
        # How many connections have a request that waits for its turn.
        self.queued = 0
        # The connection that may complete its frame although memory is short.
        self.finisher: Sender | None = None
        # The connection that has done so, until its request is answered or dropped.
        self._completed: Sender | None = None
        self._finish_by_s = 0.0
        self._senders = senders
        self._stopped: dict[Sender, None] = {}
        self._crowded_out: dict[Sender, None] = {}
        self._check: asyncio.TimerHandle | None = None

    @property
    def stopped(self) -> int:
        """How many connections are not read from."""
        return len(self._stopped) + len(self._crowded_out)

    def may_read(self, sender: Sender) -> bool:
        """Returns whether the connection is to be read from. If not, its `read_on` is called when
        there is room again."""
        if self.held_bytes < self.max_bytes and self.queued < self.max_queued:
            return True
        if sender is self.finisher:
            return True
        if self.queued >= self.max_queued:
            self._crowded_out[sender] = None
            return False
        self._note_shortage()
        if sender.held_bytes <= SMALL_BYTES:
            self._stopped.pop(sender, None)
            return True
        self._stopped[sender] = None
        self._choose_finisher()
        return sender is self.finisher

    def settle(self) -> None:
        """Called when requests were answered or dropped, after they were taken off the counts."""
        self.check()
        if self.held_bytes >= self.max_bytes:
            self._choose_finisher()
        else:
            self.finisher = self._completed = None
            if self._stopped:
                stopped, self._stopped = self._stopped, {}
                for sender in stopped:
                    sender.read_on()
        if self._crowded_out and self.queued < self.max_queued:
            crowded_out, self._crowded_out = self._crowded_out, {}
            for sender in crowded_out:
                sender.read_on()

    def finished(self, sender: Sender) -> None:
        """Called when the finisher's frame is complete. The connection is not read from, and no
        other connection may complete a frame, until the request is answered or dropped (`settle`
        finds that out)."""
        if sender is not self.finisher:
            raise _violated("only the finisher completes a frame beyond the limit")
        self.finisher = None
        self._completed = sender

    def forget(self, sender: Sender) -> None:
        """Called when a connection is closed. It holds nothing any more."""
        self._stopped.pop(sender, None)
        self._crowded_out.pop(sender, None)
        if sender is self.finisher:
            self.finisher = None
        if sender is self._completed:
            self._completed = None
        self.settle()

    def _choose_finisher(self) -> None:
        if self.held_bytes < self.max_bytes:
            return
        if self.finisher is not None:
            if self.finisher.unfinished_bytes:
                return
            self.finisher = None  # The connection is being closed, and has dropped its frame.
        if self._completed is not None:
            # The connection is not read from while it holds much, so what it holds is that request
            # and those in front of it.
            if self._completed.held_bytes - self._completed.unfinished_bytes > SMALL_BYTES:
                return
            self._completed = None
        # A connection whose frame has no size yet holds other requests, and is read from when those
        # are answered.
        unfinished = [
            sender for sender in self._stopped if sender.missing_bytes and not sender.is_blocked
        ]
        if not unfinished:
            return  # What is held is under way, or its connection is closed after a while.
        chosen = min(unfinished, key=_missing)
        timeout_s = _FINISHER_S + chosen.missing_bytes / _FINISHER_BYTES_PER_SECOND
        self._finish_by_s = asyncio.get_running_loop().time() + timeout_s
        self.finisher = chosen
        del self._stopped[chosen]
        chosen.read_on()

    def check(self) -> None:
        """Raises `InvariantViolation` if more was released than was counted."""
        if self.held_bytes < 0 or self.queued < 0:
            raise _violated(
                f"held_bytes ({self.held_bytes}) and queued ({self.queued}) are not negative"
            )
        if is_thorough():
            held_bytes = sum(map(attrgetter("held_bytes"), self._senders))
            if self.held_bytes < held_bytes:
                raise _violated(
                    f"held_bytes ({self.held_bytes}) is at least what the open connections hold"
                    f" ({held_bytes})"
                )

    # While memory is short

    def _note_shortage(self) -> None:
        if self._check is None:
            logger.warning(
                "requests hold %d bytes (queued.max.request.bytes: %d); large ones wait",
                self.held_bytes,
                self.max_bytes,
            )
            self._schedule_check()

    def _schedule_check(self) -> None:
        self._check = asyncio.get_running_loop().call_later(_CHECK_INTERVAL_S, self._close_stalled)

    def _close_stalled(self) -> None:
        self._check = None
        if self.held_bytes < self.max_bytes:
            return
        self._schedule_check()
        now_s = asyncio.get_running_loop().time()
        for sender in list(self._senders):
            if sender is self.finisher:
                is_stalled = now_s >= self._finish_by_s
            elif sender.held_bytes <= SMALL_BYTES:
                is_stalled = False
            elif sender.is_blocked:
                sender.interrupt_wait()
                holds_much = (
                    sender.unserved_bytes > SMALL_BYTES or sender.held_bytes > _MAX_WAITING_BYTES
                )
                is_stalled = holds_much and now_s - sender.active_s >= _MAX_BLOCKED_S
            else:
                is_stalled = (
                    sender not in self._stopped
                    and sender not in self._crowded_out
                    and sender.unfinished_bytes > SMALL_BYTES
                    and now_s - sender.received_s >= _MAX_STALL_S
                )
            if is_stalled:
                logger.warning(
                    "closing the connection from %s:%d: its requests hold %d bytes,"
                    " make no progress, and memory for requests is short",
                    sender.address,
                    sender.port,
                    sender.held_bytes,
                )
                sender.abort()


def _violated(rule: str) -> InvariantViolation:
    return InvariantViolation("request queue", rule)


def _missing(sender: Sender) -> int:
    return sender.missing_bytes
