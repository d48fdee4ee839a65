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
frame although memory is short: the one that needs the fewest bytes. Two rules keep a peer
from holding memory for good: while memory is short, a finisher that is slower than 1 MiB/s (and
five seconds) is closed, and so is a connection that does not go on with a large unfinished frame
for ten seconds although it is being read from.

So at most these are held at any time: `max_bytes`, one request of `socket.request.max.bytes`, and
for each connection what one read of its socket brought (256 KiB).
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
_CHECK_EVERY_S: Final = 1.0


class Sender(Protocol):
    """A connection as the queue sees it."""

    address: str
    port: int
    # When bytes of an unfinished frame came last.
    received_s: float

    @property
    def held_bytes(self) -> int: ...
    @property
    def unfinished_bytes(self) -> int: ...
    @property
    def missing_bytes(self) -> int: ...
    def read_on(self) -> None: ...
    def abort(self) -> None: ...


class RequestQueue:
    """Counts for all connections of a broker; each tells it what it holds.

    Invariant: `held_bytes` is the sum of what the open connections hold, and never negative. A
    connection that is stopped is in `_stopped`, and is resumed when there is room.
    """

    __slots__ = (
        "_check",
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
        self._finish_by_s = 0.0
        self._senders = senders
        self._stopped: dict[Sender, None] = {}
        self._check: asyncio.TimerHandle | None = None

    @property
    def stopped(self) -> int:
        """How many connections are not read from."""
        return len(self._stopped)

    def may_read(self, sender: Sender) -> bool:
        """Returns whether the connection is to be read from. If not, its `read_on` is called when
        it may be again."""
        if self.held_bytes < self.max_bytes:
            if self.queued < self.max_queued:
                return True
        else:
            self._note_shortage()
            if sender is self.finisher or sender.held_bytes <= SMALL_BYTES:
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
            return
        self.finisher = None
        if not self._stopped or self.queued >= self.max_queued:
            return
        stopped, self._stopped = self._stopped, {}
        for sender in stopped:
            sender.read_on()

    def finished(self, sender: Sender) -> None:
        """The connection's frame is whole; it has no privilege any more."""
        if sender is self.finisher:
            self.finisher = None
            self._choose_finisher()

    def forget(self, sender: Sender) -> None:
        """The connection is closed and holds nothing any more."""
        self._stopped.pop(sender, None)
        self.finished(sender)
        self.settle()

    def _choose_finisher(self) -> None:
        if self.finisher is not None or self.held_bytes < self.max_bytes:
            return
        unfinished = [sender for sender in self._stopped if sender.unfinished_bytes]
        if not unfinished:
            return  # What is held is under way, and will be answered.
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
            else:
                is_stalled = (
                    sender not in self._stopped
                    and sender.unfinished_bytes > SMALL_BYTES
                    and now_s - sender.received_s >= _SILENCE_S
                )
            if is_stalled:
                logger.warning(
                    "closing the connection from %s:%d: its unfinished request holds %d bytes,"
                    " makes no progress, and memory for requests is short",
                    sender.address,
                    sender.port,
                    sender.unfinished_bytes,
                )
                sender.abort()


def _missing(sender: Sender) -> int:
    return sender.missing_bytes
