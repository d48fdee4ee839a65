"""What clients have sent and the broker has not answered: how much it is, and who must wait.

Every byte of a request is counted from the moment at which it is read from the socket until the
request is answered or its connection is closed: unfinished frames, frames that wait behind
earlier ones, and requests that are under way. Nobody has to log in for any of that, so two
settings bound it for all connections together:

- `queued.max.request.bytes`: when so much is held, connections that hold more than a small request
  are not read from until memory is released.
- `queued.max.requests`: when so many connections have a request that waits for its turn, no
  connection is read from until there are fewer. As in Kafka a connection counts once, because
  its requests are served one after the other.

Bytes are counted as they come and not as they are announced, so a peer that announces a large
request and sends nothing keeps nobody out. But several unfinished requests may use all memory up
and then wait for each other. Therefore one connection at a time, the `finisher`, may complete its
frame although memory is short: the one that needs the fewest bytes. The next one is chosen when
that request has been answered or dropped, so no more than one request is beyond the limit. A
connection whose next request cannot be served before a wait of the client's choice is over (behind
a Fetch or a JoinGroup, or because the client does not read its replies) is `is_blocked`: it is
never the finisher, and reads no more than a small request ahead (`broker.network.connection`).

These rules keep a peer from holding memory for good. While memory is short

- a finisher that is slower than 1 MiB/s (and five seconds) is closed;
- a connection that does not go on with a large unfinished frame for ten seconds, although it is
  being read from, is closed;
- a connection that is blocked and holds more than a small request is asked to end its wait early.
  If it is still blocked after ten seconds it is closed, unless all that it holds is the request
  that waits, and that has no more than 1 MiB.

Produce requests that wait for followers are not closed: replication answers them.

So at most these are held at any time: `max_bytes`, one request of `socket.request.max.bytes`, and
for each connection a small request and what one read of its socket brought (256 KiB).
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

logger = logging.getLogger("odradek.server")

# A connection that holds no more than this is never stopped for want of memory: requests of
# members, fetches and metadata go on while large ones wait.
SMALL_BYTES: Final = 16 * 1024
# How long the finisher has, besides its bytes at this rate.
_FINISHER_S: Final = 5.0
_FINISHER_BYTES_A_SECOND: Final = 1 << 20
# How long a large unfinished frame may make no progress while memory is short.
_SILENCE_S: Final = 10.0
# How long a blocked connection may hold much while memory is short, and how large a request may
# be that only waits, for instance the JoinGroup of a member with many topics.
_BLOCKED_S: Final = 10.0
_WAITING_BYTES: Final = 1 << 20
_CHECK_EVERY_S: Final = 1.0


class Sender(Protocol):
    """A connection as the queue sees it."""

    address: str
    port: int
    # When bytes of an unfinished frame came last.
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
    """Counts for all connections of a broker; each tells it what it holds.

    Invariant: `held_bytes` is the sum of what the open connections hold, and never negative. A
    connection that is stopped for want of memory is in `_stopped`, one that is stopped because too
    many wait for their turn is in `_crowded_out`; both are resumed when there is room.
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
        # The one that may complete its frame although memory is short.
        self.finisher: Sender | None = None
        # The one that has done so, until its request is answered or dropped.
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
        it may be again."""
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
        """Called when something was answered or dropped, after it was taken off the counts."""
        assert self.held_bytes >= 0, "more bytes were released than were held"
        assert self.queued >= 0, "more requests were taken than were queued"
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
        """The finisher's frame is whole. It may read no more, and nobody else may complete a
        frame, until the request is answered or dropped: `settle` finds out."""
        assert sender is self.finisher, "only the finisher completes a frame beyond the limit"
        self.finisher = None
        self._completed = sender

    def forget(self, sender: Sender) -> None:
        """The connection is closed and holds nothing any more."""
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
            self.finisher = None  # It is being closed, and has dropped its frame.
        if self._completed is not None:
            # It is not read from while it holds much, so what it holds whole is that request and
            # those in front of it.
            if self._completed.held_bytes - self._completed.unfinished_bytes > SMALL_BYTES:
                return
            self._completed = None
        # One whose size is not known yet holds other requests, and is read when those are answered.
        unfinished = [
            sender for sender in self._stopped if sender.missing_bytes and not sender.is_blocked
        ]
        if not unfinished:
            return  # What is held is under way, or is closed when it waits for too long.
        chosen = min(unfinished, key=_missing)
        patience_s = _FINISHER_S + chosen.missing_bytes / _FINISHER_BYTES_A_SECOND
        self._finish_by_s = asyncio.get_running_loop().time() + patience_s
        self.finisher = chosen
        del self._stopped[chosen]
        chosen.read_on()

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
        self._check = asyncio.get_running_loop().call_later(_CHECK_EVERY_S, self._close_stalled)

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
                    sender.unserved_bytes > SMALL_BYTES or sender.held_bytes > _WAITING_BYTES
                )
                is_stalled = holds_much and now_s - sender.active_s >= _BLOCKED_S
            else:
                is_stalled = (
                    sender not in self._stopped
                    and sender not in self._crowded_out
                    and sender.unfinished_bytes > SMALL_BYTES
                    and now_s - sender.received_s >= _SILENCE_S
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


def _missing(sender: Sender) -> int:
    return sender.missing_bytes
