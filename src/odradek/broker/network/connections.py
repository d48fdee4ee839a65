"""The open connections of a broker: the limits of their number, and what all of them share."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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


class AddressQuotas(Protocol):
    """The quotas of addresses on new connections (`security.quotas`)."""

    def connect(self, address: str, now_s: float) -> float:
        """Counts a connection. Returns 0, or after how many seconds to close it unserved."""
        ...


class ListenerLimits(NamedTuple):
    """The limits of one listener (`listener.name.X.max.connections` and so on)."""

    max_total: int = MAX_INT
    max_creation_rate: int = MAX_INT


NO_LIMITS: Final = ListenerLimits()


class Connections:
    """Counts connections by address and by listener. A connection beyond the limits is closed
    before anything is read from it.

    The listener that brokers use between them is protected if it is not the only one, as in Kafka:
    the limits of the whole broker do not keep other brokers out. If there are too many connections,
    the one of another listener is closed that has been idle longest.

    Invariant: `_by_address` has the number of connections in `open` from each address, and
    `_by_listener` that of each listener.
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
        protected_listener: str | None = None,
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
        self._protected_listener = protected_listener
        # By listener name; those without limits of their own are missing.
        self._listener_limits: Mapping[str, ListenerLimits] = {}
        self._listener_rates: dict[str, ConnectionRate] = {}
        # None while no address has a quota.
        self.address_quotas: AddressQuotas | None = None
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
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

    def limit_listeners(self, limits: Mapping[str, ListenerLimits]) -> None:
        """Puts the limits of single listeners in force."""
        self._listener_limits = limits
        for name, limit in limits.items():
            rate = self._listener_rates.setdefault(name, ConnectionRate(MAX_INT))
            rate.per_second = limit.max_creation_rate
        for name in self._listener_rates.keys() - limits.keys():
            del self._listener_rates[name]

    def admit(self, connection: "Connection", address: str) -> bool:
        """Counts a new connection; returns False if it exceeds a limit, and is to be closed."""
        from_address = self._by_address.get(address, 0)
        listener = connection.listener
        on_listener = self._by_listener.get(listener, 0)
        if (
            from_address >= self.overrides.get(address, self.max_per_address)
            or on_listener >= self._listener_limits.get(listener, NO_LIMITS).max_total
            or (len(self.open) >= self.max_total and not self._make_room(listener))
        ):
            logger.warning("too many connections, closing the newest one from %s", address)
            self.refused += 1
            return False
        self.admitted += 1
        self.open[connection] = None
        self._all_closed.clear()
        self._by_address[address] = from_address + 1
        self._by_listener[listener] = on_listener + 1
        return True

    def _make_room(self, listener: str) -> bool:
        """Closes a connection of another listener if the listener is protected; returns whether it
        did. The connection is gone when the client has got its last replies."""
        if listener != self._protected_listener:
            return False
        others = [other for other in self.open if other.listener != listener]
        if not others:
            return False
        min(others, key=lambda other: (other.is_waiting, other.active_s)).close()
        return True

    def delays_s(self, connection: "Connection", now_s: float) -> tuple[float, float]:
        """Returns after how many seconds a new connection is to be closed unserved, 0 if it is not,
        and after how many it may be served."""
        if self.address_quotas is not None:
            refused_s = self.address_quotas.connect(connection.address, now_s)
            if refused_s:
                self.refused += 1
                return refused_s, float("inf")
        listener = connection.listener
        delay_s = 0.0
        if listener in self._listener_rates:
            delay_s = self._listener_rates[listener].delay_s(now_s)
        if listener != self._protected_listener:
            delay_s = max(delay_s, self.rate.delay_s(now_s))
        return 0.0, delay_s

    def forget(self, connection: "Connection", address: str) -> None:
        """Called when a connection is closed, whether it was admitted or not."""
        if self.unauthenticated is not None:
            self.unauthenticated.remove(connection)
        if connection in self.open:
            del self.open[connection]
            _count_down(self._by_address, address)
            _count_down(self._by_listener, connection.listener)
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
        that waits for a reply or is muted is not idle.

        A connection that holds requests behind a fetch is not read from, so the broker would not
        notice that the client is gone. That fetch is interrupted, and sending the reply finds out.
        """
        inactive = [
            connection
            for connection in self.open
            if connection.active_s < idle_since_s and not connection.is_muted
        ]
        idle = [connection for connection in inactive if not connection.is_waiting]
        for connection in inactive:
            if connection.is_waiting and connection.unserved_bytes:
                connection.interrupt_wait()
        for connection in idle:
            connection.close()
        self.expired += len(idle)
        return len(idle)


def _count_down(counts: dict[str, int], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


def _call_soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(call)
