"""The sockets that a broker listens on, and the addresses that its clients are told.

Sockets are bound before the broker registers, so that a busy port is found out first and a port
that the system chose can be advertised. They accept connections only when the broker is ready.
"""

import asyncio
import errno
from collections.abc import Callable

from odradek.config import Listener
from odradek.world.sockets import set_buffers


class CannotListen(OSError):
    """The address of a listener cannot be bound. The message says why, and what to do."""


class Listeners:
    """Invariant: between `open` and `close` every listener has a bound socket."""

    def __init__(
        self,
        listeners: tuple[Listener, ...],
        advertised: tuple[Listener, ...],
        backlog: int,
        *,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """`backlog` is how many connections may wait to be accepted, for each listener.
        `receive_buffer_bytes` is SO_RCVBUF of every connection; -1 leaves it to the system."""
        self._listeners = listeners
        self._backlog = backlog
        self._receive_buffer_bytes = receive_buffer_bytes
        self._advertised = {listener.name: listener for listener in advertised}
        self._servers: dict[str, asyncio.Server] = {}

    async def open(self, protocol: Callable[[str], asyncio.Protocol]) -> None:
        """Binds every listener; `protocol` makes the connection of a client by listener name."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            try:
                self._servers[listener.name] = await loop.create_server(
                    _factory(protocol, listener.name),
                    listener.host or None,
                    listener.port,
                    start_serving=False,
                    backlog=self._backlog,
                )
            except OSError as error:
                await self.close()
                raise CannotListen(_explain(listener, error)) from error
            # Accepted connections inherit it from the socket that listens.
            for bound in self._servers[listener.name].sockets:
                set_buffers(bound, receive_bytes=self._receive_buffer_bytes)

    async def accept(self) -> None:
        for server in self._servers.values():
            await server.start_serving()

    async def close(self) -> None:
        """Accepts no further connection. Open connections are not affected."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def advertised(self) -> tuple[Listener, ...]:
        """Returns the address of each listener for clients. Port 0 is replaced by the port that the
        system chose."""
        addresses = []
        for name, server in self._servers.items():
            listener = self._advertised.get(name)
            if listener is None:
                continue
            host = listener.host or "127.0.0.1"
            port = listener.port or int(server.sockets[0].getsockname()[1])
            addresses.append(Listener(name, host, port))
        return tuple(addresses)


def _factory(
    protocol: Callable[[str], asyncio.Protocol], name: str
) -> Callable[[], asyncio.Protocol]:
    return lambda: protocol(name)


def _explain(listener: Listener, error: OSError) -> str:
    address = f"{listener.host or '*'}:{listener.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {listener.port} is in use ({address}); stop what uses it or choose another port"
        )
    if error.errno == errno.EACCES:
        if 0 < listener.port < 1024:
            return (
                f"no permission to listen on {address}: ports below 1024 are for root;"
                " choose another one, or give the process CAP_NET_BIND_SERVICE"
            )
        return f"no permission to listen on {address}; choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"this machine has no address {listener.host}: listeners (--host of `odradek up`) takes"
            " one of its own, or 0.0.0.0 for all of them; advertised.listeners says where clients"
            " reach it"
        )
    return f"cannot listen on {address}: {error.strerror or error}"
