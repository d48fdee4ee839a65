"""The network server of a broker: it owns the listeners and the connections.

bind             Sockets are bound, and nothing is accepted yet. A busy port is found out before
                 anything else is started, and the port that the system chose for port 0 is
                 known when the broker registers.
accept           Clients are let in.
stop_accepting   No further connection is accepted; those that are open are served on.
drain            Requests under way are answered, then every connection is closed.
close            Sockets are released, whatever happened before.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.network.connection import Connection
from odradek.broker.network.connections import NO_LIMITS, Connections, ListenerLimits
from odradek.broker.network.listeners import Listeners
from odradek.broker.network.request_serving import Serve
from odradek.config import BrokerSettings, Listener
from odradek.config.live import LiveSettings
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.authentication.secured_listeners import SecuredListeners

_MAX_REAP_INTERVAL_S: Final = 10.0


class ConnectionFollower(Protocol):
    """Who is told of connections: the request log, and the request meter if there is one."""

    def follow(self, connection: Connection) -> None:
        """Called for each new connection, before anything is read from it."""
        ...

    def close(self) -> None: ...


class Server:
    """Invariant: every connection is made here, and is in `connections` from its admission until it
    is closed."""

    def __init__(self, settings: BrokerSettings, world: World) -> None:
        self._settings = settings
        self._world = world
        # None if every listener is PLAINTEXT.
        self.secured: SecuredListeners | None = None
        self.connections = Connections(
            max_total=settings.max_connections,
            max_per_address=settings.max_connections_per_ip,
            overrides=dict(settings.max_connections_per_ip_overrides),
            frame_bytes=settings.socket_request_max_bytes,
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            max_queued_requests=settings.queued_max_requests,
            max_request_bytes=request_memory_bytes(settings.queued_max_request_bytes, world),
            max_creation_rate=settings.max_connection_creation_rate,
            protected_listener=(
                settings.effective_inter_broker_listener_name
                if len(settings.listeners) > 1
                else None
            ),
        )
        self.connections.limit_listeners(_listener_limits(settings))
        self._listeners = Listeners(
            settings.listeners,
            settings.effective_advertised_listeners,
            settings.socket_listen_backlog_size,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        # Both are there from `accept` on.
        self._serve: Serve | None = None
        self._followers: tuple[ConnectionFollower, ...] = ()

    # Start

    async def bind(self) -> None:
        """Raises `CannotListen` or `InvalidSetting` if a listener cannot be had."""
        settings = self._settings
        protocols = {settings.security_protocol(listener.name) for listener in settings.listeners}
        if protocols != {"PLAINTEXT"}:
            await self._secure(settings)
        await self._listeners.open(self._connect)

    async def _secure(self, settings: BrokerSettings) -> None:
        from odradek.broker.authentication.secured_listeners import (  # noqa: PLC0415 - if needed
            SecuredListeners,
        )

        frame_bytes = settings.socket_request_max_bytes
        self.secured = SecuredListeners(settings, self._world, frame_bytes)
        self.connections.unauthenticated = self.secured.unauthenticated
        await self.secured.open()

    def advertised(self) -> tuple[Listener, ...]:
        """Returns the addresses that clients are told, one for each listener."""
        return self._listeners.advertised()

    async def accept(self, serve: Serve, *followers: ConnectionFollower) -> None:
        """Lets clients in, whose frames are served by `serve`. The followers are told of each
        connection, in their order."""
        self._serve = serve
        self._followers = followers
        await self._listeners.accept()

    def _connect(self, listener_name: str) -> asyncio.Protocol:
        """Makes the connection of a client that was accepted."""
        assert self._serve is not None
        connection = Connection(listener_name, self.connections, self._serve)
        for follower in self._followers:
            follower.follow(connection)
        if self.secured is None:
            return connection
        return self.secured.protect(listener_name, connection)

    # Serving

    def apply_limits(self, settings: BrokerSettings) -> None:
        """Puts limits in force that can be changed while the broker runs."""
        self.connections.max_total = settings.max_connections
        self.connections.max_per_address = settings.max_connections_per_ip
        self.connections.overrides = dict(settings.max_connections_per_ip_overrides)
        self.connections.rate.per_second = settings.max_connection_creation_rate
        self.connections.limit_listeners(_listener_limits(settings))

    async def close_idle_connections(self, settings: LiveSettings) -> None:
        """Closes connections that have been idle for `connections.max.idle.ms`, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            idle_s = settings.broker.connections_max_idle_ms / 1000
            await asyncio.sleep(min(idle_s / 2, _MAX_REAP_INTERVAL_S))
            self.connections.close_idle(loop.time() - idle_s)

    # Stop

    async def stop_accepting(self) -> None:
        await self._listeners.close()

    async def drain(self, timeout_s: float) -> None:
        await self.connections.drain(timeout_s)

    async def close(self) -> None:
        for follower in self._followers:
            follower.close()
        if self.secured is not None:
            self.secured.close()
        await self._listeners.close()


def _listener_limits(settings: BrokerSettings) -> dict[str, ListenerLimits]:
    """Returns the limits of the listeners that have any of their own."""
    limits: dict[str, ListenerLimits] = {}
    for listener in settings.listeners:
        own = ListenerLimits(
            settings.of_listener(listener.name, BrokerSettings.max_connections),
            settings.of_listener(listener.name, BrokerSettings.max_connection_creation_rate),
        )
        if own != NO_LIMITS:
            limits[listener.name] = own
    return limits


def request_memory_bytes(setting: int, world: World) -> int:
    """Returns how many bytes of requests may be held in memory. If `queued.max.request.bytes` does
    not say it, that is a quarter of the machine's memory: a client need not log in to send a
    request."""
    return setting if setting > 0 else max(world.memory_bytes // 4, 1)
