"""Connections from this broker to the other brokers of its cluster.

Callers ask for the connection before each request and get one that is open. A connection is kept
between calls and opened again when it broke. It is closed at once when the broker leaves the
cluster's image, registers again with another epoch, or changes its address. Requests of one
`purpose` share a connection and are answered in order; a long poll has a purpose of its own.

Invariant: there is at most one connection, or one attempt to open it, per broker and purpose, and
none to a broker that is not in the image.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

from odradek import invariants
from odradek.client.errors import ClientError
from odradek.config import Listener
from odradek.config.live import LiveSettings
from odradek.invariants import InvariantViolation
from odradek.metadata import ImageChange, MetadataCache
from odradek.metadata.image import ClusterImage
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.connection import Connection
    from odradek.replication.peer_security import PeerSecurity

_Key = tuple[BrokerId, str]


class PeerUnreachable(Exception):
    """There is no connection to the broker, and none can be opened now."""


class PeerListener(Protocol):
    """Is told of connections to other brokers (`broker.departed_brokers`)."""

    def connection_opened(self, broker_id: BrokerId) -> None:
        """A connection to the broker was opened."""
        ...

    def connection_broke(self, broker_id: BrokerId) -> None:
        """A connection to the broker ended, and not because this broker closed it."""
        ...


def peer_security(settings: LiveSettings, world: World) -> "PeerSecurity | None":
    """Returns how this broker logs in at others; None if their listener is PLAINTEXT.

    Raises `InvalidSetting` if it cannot log in with the settings that it has.
    """
    listener = settings.broker.effective_inter_broker_listener_name
    if settings.broker.security_protocol(listener) == "PLAINTEXT":
        return None
    from odradek.replication.peer_security import PeerSecurity  # noqa: PLC0415 - only if secured

    return PeerSecurity(settings, world.disk, world.randomness)


class Peers:
    def __init__(
        self,
        cache: MetadataCache,
        listener_name: str,
        client_id: str,
        *,
        listener: PeerListener,
        connect_timeout_ms: int = 3_000,
        request_timeout_ms: int = 30_000,
        receive_buffer_bytes: int = -1,
        security: "PeerSecurity | None" = None,
    ) -> None:
        self._cache = cache
        self._listener_name = listener_name
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._receive_buffer_bytes = receive_buffer_bytes
        self._security = security
        self._open: dict[_Key, Connection] = {}
        self._opening: dict[_Key, _Opening] = {}
        self._is_closed = False
        self._peer_listener = listener
        cache.subscribe(self._follow)

    async def connection(self, broker_id: BrokerId, purpose: str = "control") -> "Connection":
        """Returns an open connection to that broker; raises `PeerUnreachable`."""
        key = (broker_id, purpose)
        peer = self._open.get(key)
        if peer is not None:
            if peer.is_open:
                return peer
            del self._open[key]
        opening = self._opening.get(key)
        if opening is None:
            listener = self._listener(broker_id)
            opening = self._opening[key] = _Opening()
            opening.task = asyncio.get_running_loop().create_task(
                self._connect(key, listener, opening)
            )
        # Shielded: other callers may wait for the same attempt.
        return await asyncio.shield(opening.connection)

    def close(self) -> None:
        """Closes every connection for good."""
        self._is_closed = True
        for key in [*self._open, *self._opening]:
            self._drop(key)

    def _listener(self, broker_id: BrokerId) -> Listener:
        listener = _listener(self._cache.image, broker_id, self._listener_name)
        if listener is None or self._is_closed:
            raise PeerUnreachable(
                f"broker {broker_id} is not in the cluster, or has no listener "
                f"{self._listener_name}"
            )
        return listener

    async def _connect(self, key: _Key, listener: Listener, opening: "_Opening") -> None:
        try:
            from odradek.client.connection import Connection  # noqa: PLC0415 - only in clusters

            connection = await Connection.open(
                listener.host,
                listener.port,
                client_id=self._client_id,
                connect_timeout_ms=self._connect_timeout_ms,
                request_timeout_ms=self._request_timeout_ms,
                receive_buffer_bytes=self._receive_buffer_bytes,
                security=None if self._security is None else self._security.current(),
            )
        except (ClientError, KafkaError) as error:
            opening.fail(PeerUnreachable(f"broker {key[0]}: {error}"))
        else:
            self._open[key] = connection
            connection.when_closed(lambda: self._lost(key, connection))
            self._peer_listener.connection_opened(key[0])
            opening.succeed(connection)
        self._opening.pop(key, None)

    def _lost(self, key: _Key, connection: "Connection") -> None:
        if self._open.get(key) is connection:
            del self._open[key]
            self._peer_listener.connection_broke(key[0])

    def _follow(self, change: ImageChange) -> None:
        for key in [*self._open, *self._opening]:
            broker_id = key[0]
            if broker_id not in change.brokers:
                continue
            before, after = (
                change.before.brokers.get(broker_id),
                change.after.brokers.get(broker_id),
            )
            if (
                before is None
                or after is None
                or before.epoch != after.epoch
                or before.listener(self._listener_name) != after.listener(self._listener_name)
            ):
                self._drop(key)
        if invariants.is_thorough():
            self.check(change.after)

    def check(self, image: ClusterImage) -> None:
        """Raises `InvariantViolation` if there is a connection to a broker that is not in the
        cluster, or a second one for the same purpose."""
        for key in self._open:
            if key[0] not in image.brokers:
                raise InvariantViolation("peers", f"a connection to broker {key[0]}, which is gone")
            if key in self._opening:
                raise InvariantViolation("peers", f"a second connection for {key} is being opened")

    def _drop(self, key: _Key) -> None:
        connection = self._open.pop(key, None)
        if connection is not None:
            connection.close()
        opening = self._opening.pop(key, None)
        if opening is not None and opening.task is not None:
            opening.task.cancel()
            opening.fail(PeerUnreachable(f"broker {key[0]} left, or came back elsewhere"))


class _Opening:
    """An attempt to connect, and the future that its callers wait for."""

    __slots__ = ("connection", "task")

    def __init__(self) -> None:
        self.connection: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    def succeed(self, connection: "Connection") -> None:
        if not self.connection.done():
            self.connection.set_result(connection)

    def fail(self, reason: PeerUnreachable) -> None:
        if not self.connection.done():
            self.connection.set_exception(reason)
            # Marks the exception as retrieved: the callers may have given up.
            self.connection.exception()


def _listener(image: ClusterImage, broker_id: BrokerId, name: str) -> Listener | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.listener(name)
