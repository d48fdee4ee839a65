"""The metrics of one client: what its `metrics()` and `client_instance_id()` call.

It is small, because every client has one. What computes and pushes metrics is imported when it is
needed.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.client.errors import ClientError, TimedOut
from odradek.client.metrics.counting import Latency

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.client.connection import Connection
    from odradek.client.metrics.figures import Reading
    from odradek.client.metrics.pusher import MetricsPusher
    from odradek.client.metrics.view import MetricName, MetricsView

# The API by which a client asks what to push. A broker that does not list it takes no metrics.
_GET_TELEMETRY_SUBSCRIPTIONS: Final = 71


class NoMetricsPush(ClientError):
    """The client does not push metrics, so it has no instance id."""


class ClientMetrics:
    """`read` reads the figures of the client, `maxima` are latencies of its own."""

    def __init__(
        self,
        kind: str,
        cluster: "Cluster",
        read: "Callable[[float], Reading]",
        *maxima: Latency,
        pushes: bool = False,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._read = read
        self._maxima = maxima
        self._pushes = pushes
        self._loop = asyncio.get_running_loop()
        self._started_s = self._loop.time()
        self._view: MetricsView | None = None
        self._pusher: MetricsPusher | None = None
        self._pushing: asyncio.Task[None] | None = None
        if pushes:
            cluster.on_connection = self._connected

    def metrics(self) -> "dict[MetricName, float]":
        return self._made_view().metrics()

    def _made_view(self) -> "MetricsView":
        if self._view is None:
            from odradek.client.metrics.catalogue import ALL  # noqa: PLC0415 - when asked for
            from odradek.client.metrics.figures import reset_maxima  # noqa: PLC0415
            from odradek.client.metrics.view import MetricsView  # noqa: PLC0415

            self._view = MetricsView(
                self._cluster.settings.client_id,
                ALL[self._kind],
                self._read,
                lambda: reset_maxima(self._cluster, *self._maxima),
                now_s=self._loop.time,
                started_s=self._started_s,
            )
        return self._view

    # Pushing

    def _connected(self, connection: "Connection") -> None:
        """Called with each new connection. The first broker that takes metrics starts the task."""
        if self._pushing is None and _GET_TELEMETRY_SUBSCRIPTIONS in connection.api_versions:
            from odradek.client.metrics.pusher import MetricsPusher  # noqa: PLC0415 - if offered

            self._pusher = MetricsPusher(self._cluster, self._made_view())
            self._pushing = self._loop.create_task(self._pusher.run(), name="odradek-metrics")

    async def client_instance_id(self, timeout_ms: int) -> str:
        """Returns the id that a broker has given to this client, as Kafka writes it."""
        if not self._pushes:
            raise NoMetricsPush("there is no instance id: enable.metrics.push is false")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._pusher is None:
                    await self._cluster.any_connection()
                if self._pusher is None:
                    raise NoMetricsPush("the broker takes no metrics of clients")
                return await self._pusher.instance_id_text()
        except TimeoutError:
            raise TimedOut(f"no broker gave an instance id within {timeout_ms} ms") from None

    async def close(self) -> None:
        """Pushes a last time, if a broker has asked for metrics. Called before the connections are
        closed."""
        if self._pushing is None or self._pusher is None:
            return
        self._pushing.cancel()
        await asyncio.gather(self._pushing, return_exceptions=True)
        await self._pusher.push_last()
