"""Sends spans to a collector, in OTLP over HTTP, beside the requests.

Nobody waits for it. Spans wait in a queue that is bounded; what does not fit is dropped and
counted. A collector that does not answer costs the spans of a few seconds, and one line a minute in
the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.config.tracing_settings import Endpoint
from odradek.telemetry.tracing.otlp import CONTENT_TYPE, encode
from odradek.telemetry.tracing.spans import Attribute, Span
from odradek.world import Clock
from odradek.world.workers import Workers

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger("odradek.server")

MAX_QUEUED: Final = 500
_MAX_BATCH: Final = 100
# Spans are gathered for so long, so that a burst is one request.
_GATHER_S: Final = 0.5
_TIMEOUT_S: Final = 5.0
_PAUSE_S: Final = 5.0
_TELL_EVERY_S: Final = 60.0
_MAX_HEAD_BYTES: Final = 4096

MakeSpan = Callable[[], Span]
"""Makes a span, in a worker thread: it may look into the records of a request."""


class NotTaken(Exception):
    """The collector answered, and did not take the spans."""


class SpanExporter:
    def __init__(
        self,
        endpoint: Endpoint,
        resource: Mapping[str, Attribute],
        workers: Workers,
        clock: Clock,
    ) -> None:
        self._endpoint = endpoint
        self._resource = dict(resource)
        self._workers = workers
        self._clock = clock
        self._queue: deque[MakeSpan] = deque()
        self._arrived = asyncio.Event()
        self._tls: ssl.SSLContext | None = None
        self._told_s: float | None = None
        self.exported = 0
        self.dropped = 0

    def offer(self, make: MakeSpan) -> None:
        """Takes a span, or drops it if too many wait."""
        if len(self._queue) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._queue.append(make)
        self._arrived.set()

    async def run(self) -> None:
        """Sends until cancelled. Spans that wait then are lost."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_GATHER_S)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]
            if not self._queue:
                self._arrived.clear()
            try:
                await self._send(batch)
                self.exported += len(batch)
            except (OSError, TimeoutError, NotTaken, ValueError) as error:
                self.dropped += len(batch)
                self._tell(error)
                await asyncio.sleep(_PAUSE_S)

    async def _send(self, batch: list[MakeSpan]) -> None:
        body = await self._workers.compute(
            lambda: encode((make() for make in batch), self._resource, "odradek")
        )
        async with asyncio.timeout(_TIMEOUT_S):
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        endpoint = self._endpoint
        if endpoint.is_tls and self._tls is None:
            import ssl  # noqa: PLC0415 - few collectors are asked so

            # It reads the certificates of the system.
            self._tls = await self._workers.compute(ssl.create_default_context)
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=self._tls, limit=_MAX_HEAD_BYTES
        )
        try:
            host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
            head = (
                f"POST {endpoint.path} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\n"
                f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            status = (await reader.readline()).split()[1:2]
        finally:
            writer.close()
        if status != [b"200"]:
            said = status[0].decode("latin-1") if status else "nothing that is HTTP"
            raise NotTaken(f"it answers {said}")

    def _tell(self, error: Exception) -> None:
        now_s = self._clock.monotonic_s()
        if self._told_s is None or now_s >= self._told_s + _TELL_EVERY_S:
            self._told_s = now_s
            logger.warning(
                "spans cannot be sent to %s: %s; %d are lost so far",
                self._endpoint,
                str(error) or "it does not answer in time",
                self.dropped,
            )
