"""The open connections of a broker: the limits of their number, and what all of them share."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.broker.network.busy_poll import BusyPoll
from odradek.broker.network.connection_rate import ConnectionRate
from odradek.broker.network.reply_batching import ReplyBatching
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.round_robin import RoundRobin
from odradek.config.setting import MAX_INT
from odradek.invariants import InvariantViolation, is_thorough

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection
    from odradek.broker.network.unauthenticated import Unauthenticated

logger = logging.getLogger("odradek.server")

OS_DEFAULT: Final = -1
# So many connections receive a chunk of a large request in one iteration of the loop: 2 MB, 2 ms.
_MAX_READERS_PER_TURN: Final = 8


class Connections:
    """Counts connections by address. A connection beyond the limits is closed before anything is
    read from it.

    Invariant: `_by_address` has the number of connections in `open` from each address.
    """

    def __init__(
        self,
        *,
        max_total: int,
        max_per_address: int,
        overrides: dict[str, int],
        frame_bytes: int,
        send_buffer_bytes: int = OS_DEFAULT,
        max_queued_requests: int = MAX_INT,
        max_request_bytes: int = MAX_INT,
        max_creation_rate: int = MAX_INT,
    ) -> None:
        self.send_buffer_bytes = send_buffer_bytes
        self.max_total = max_total
        self.max_per_address = max_per_address
        self.overrides = overrides
        self.frame_bytes = frame_bytes
        # A dict keeps the order of arrival, which a set would not.
        self.open: dict[Connection, None] = {}
        self.queue = RequestQueue(
            max_queued=max_queued_requests, max_bytes=max_request_bytes, senders=self.open.keys()
        )
        self.rate = ConnectionRate(max_creation_rate)
        self._by_address: dict[str, int] = {}
        self.serving_order = RoundRobin(_call_soon)
        self.reading_order = RoundRobin(_call_soon, max_per_turn=_MAX_READERS_PER_TURN)
        self._of_loop: tuple[BusyPoll, ReplyBatching] | None = None
        # Connections that must prove who they are; None if none has to.
        self.unauthenticated: Unauthenticated | None = None
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        # Since the start: connections that were admitted, refused, and closed because they idled.
        self.admitted = self.refused = self.expired = 0

    def of_loop(self) -> tuple[BusyPoll, ReplyBatching]:
        """Returns what all connections share because they share an event loop. It is made on first
        use: the loop may not run yet when this object is made."""
        if self._of_loop is None:
            call_soon = asyncio.get_running_loop().call_soon
            self._of_loop = (BusyPoll(call_soon), ReplyBatching(call_soon))
        return self._of_loop

    def admit(self, connection: "Connection", address: str) -> bool:
        """Counts a new connection; returns False if it exceeds a limit, and is to be closed."""
        from_address = self._by_address.get(address, 0)
        limit = self.overrides.get(address, self.max_per_address)
        if len(self.open) >= self.max_total or from_address >= limit:
            logger.warning("too many connections, closing the newest one from %s", address)
            self.refused += 1
            return False
        self.admitted += 1
        self.open[connection] = None
        self._all_closed.clear()
        self._by_address[address] = from_address + 1
        return True

    def forget(self, connection: "Connection", address: str) -> None:
        """Called when a connection is closed, whether it was admitted or not."""
        if self.unauthenticated is not None:
            self.unauthenticated.remove(connection)
        if connection in self.open:
            del self.open[connection]
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
            if not self.open:
                self._all_closed.set()
            self.check()

    def check(self) -> None:
        """Called in tests and simulations when a connection is closed: it counts all of them."""
        if is_thorough() and sum(self._by_address.values()) != len(self.open):
            raise InvariantViolation(
                "connections",
                f"the counts by address ({self._by_address}) add up to the number of open"
                f" connections ({len(self.open)})",
            )

    async def drain(self, timeout_s: float) -> None:
        """Closes each connection when its requests under way are answered. Connections that are
        still open at the end of the timeout are aborted."""
        for connection in list(self.open):
            connection.finish()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_closed.wait()
        except TimeoutError:
            for connection in list(self.open):
                connection.abort()

    def close_idle(self, idle_since_s: float) -> int:
        """Closes every connection without a request since that time; returns how many. A connection
        that waits for a reply is not idle.

        A connection that holds requests behind a fetch is not read from, so the broker would not
        notice that the client is gone. That fetch is interrupted, and sending the reply finds out.
        """
        inactive = [connection for connection in self.open if connection.active_s < idle_since_s]
        idle = [connection for connection in inactive if not connection.is_waiting]
        for connection in inactive:
            if connection.is_waiting and connection.unserved_bytes:
                connection.interrupt_wait()
        for connection in idle:
            connection.close()
        self.expired += len(idle)
        return len(idle)


def _call_soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(call)
